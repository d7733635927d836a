"""The games and environments of the ``env`` settings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from entity_env import (
    AsyncEnv,
    EntityEnvError,
    Environment,
    ListEnv,
    MultiPlayerEnvironment,
    ObsSpace,
    ParallelEnv,
    VecEnv,
)
from entity_env.arguments import named_settings
from entity_env.environment import environment_failed
from entity_env.errors import RunFolderError, SettingError, counted, shorten
from entity_env.recording.replays import RecordReplay, make_rows
from entity_env.registry import (
    Factory,
    alone,
    check_settings,
    find,
    has_seats,
    is_rows,
    made_by,
    path_of,
    resolve,
    seated,
)
from entity_env.seats.table import seats_of
from entity_env.wrappers import FeatureFilter, VecFeatureFilter
from entity_env.wrappers.staggered_start import staggered
from ppo_trainer.config import GROUP, RolloutConfig, TrainConfig
from ppo_trainer.machine.ranks import Share
from ppo_trainer.machine.screen import log, warn
from ppo_trainer.machine.seeding import derived_seed

__all__ = [
    "UNIMPORTABLE",
    "Game",
    "evaluated",
    "make_factory",
    "make_vec_env",
    "name_in_script",
    "open_vec_env",
    "with_env",
    "with_kept_files",
    "with_whole_games",
]

ALL_ROWS = Share()
"""The share of a process that plays all rows alone."""

UNIMPORTABLE = "python:"
"""The mark of a target that was passed as an object and cannot be imported by a path.

Such an object lives in a script, for example, or is a function without a return annotation.
"""


@dataclass(frozen=True)
class Game:
    """The game of the ``env`` settings; a call makes one environment.

    Args:
        factory: Class or function of the target.
        settings: Arguments of ``factory``.
        shown: Observation space to which observations are reduced; None shows everything.
        replays: Folder for a replay of all rows that are made in this process; None writes none.
        staggered: True to cut off the first episodes of environments at random steps.
        scored: The settings of ``eval.env``, for errors, if ``settings`` has them.
    """

    factory: Factory
    settings: Mapping[str, Any]
    shown: ObsSpace | None = None
    replays: Path | None = None
    staggered: bool = False
    scored: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Environment:
        """Make one environment."""
        with self.names_settings():
            env = self.alone()
            return env if self.shown is None else FeatureFilter(env, self.shown)

    def names_settings(self) -> contextlib.AbstractContextManager[None]:
        """Return a context whose errors begin with the settings that they are about."""
        typed = {f"env.{name}": value for name, value in self.settings.items()}
        return named_settings(typed | {f"eval.env.{k}": value for k, value in self.scored.items()})

    @property
    def alone(self) -> Callable[[], Environment]:
        """A function that makes one whole environment; workers import it without this package."""
        return functools.partial(alone(self.factory), **self.settings)

    def evaluated(self, config: TrainConfig) -> Game:
        """Return the game with the settings of ``eval.env``."""
        settings = config.eval.env
        return replace(self, settings={**self.settings, **settings}, scored=settings)

    @property
    def name(self) -> str:
        """The name of the class or function."""
        return getattr(self.factory, "__name__", "the environment")

    @property
    def is_native(self) -> bool:
        """True if the target is a ``VecEnv`` class, or a function that returns a ``VecEnv``."""
        return is_rows(self.factory)

    @property
    def is_compiled(self) -> bool:
        """True for a compiled game for one player, which can also be played alone in Python."""
        single = getattr(self.factory, "environment", None)
        return not self.has_seats and getattr(single, "rows", None) is self.factory

    @property
    def is_endless(self) -> bool:
        """True if games never end because players that die come back."""
        return bool(getattr(self.factory, "endless", False))

    @property
    def has_seats(self) -> bool:
        """True if several players play the game."""
        return seated(self.factory) is not None

    def table(self) -> MultiPlayerEnvironment:
        """Make one game of several players, in Python if its rows are compiled.

        Raises:
            SettingError: The game is for one player.
        """
        factory = seated(self.factory)
        if factory is None:
            raise SettingError(
                f"{self.name} is not a game for several players", expected="a game with seats"
            )
        with self.names_settings():
            return factory(**self.settings)

    def played(self) -> Environment | MultiPlayerEnvironment:
        """Make one game with all of its seats, or one environment, that shows ``shown`` only."""
        return self.table() if self.has_seats and self.shown is None else self()

    def sides(self) -> list[list[int]]:
        """Return the seats of each side: a team, or a single seat without a team.

        Raises:
            SettingError: The game is for one player.
        """
        with contextlib.closing(self.table()) as game:
            seats = seats_of(game)
            teams = [[seats.index(seat) for seat in members] for members in game.teams().values()]
        teamed = {seat for team in teams for seat in team}
        alone = [[seat] for seat in range(len(seats)) if seat not in teamed]
        return sorted([sorted(team) for team in teams if team] + alone)

    def whole(self, num_envs: int) -> int:
        """Return ``num_envs``, rounded up to the rows of whole games."""
        if not self.has_seats:
            return num_envs
        with contextlib.closing(self.table()) as game:
            seats = len(seats_of(game))
        return -(-num_envs // seats) * seats

    def rows(self, num_envs: int, seed: int) -> VecEnv:
        """Make rows in this process."""
        try:
            with self.names_settings():
                if self.staggered and not self.is_native and not has_seats(self.factory):
                    return self.seen(ListEnv(self.one, num_envs, seed=seed))
                rows = make_rows(self.factory, self.settings, num_envs, seed)
        except SystemExit as error:
            raise environment_failed(self.name, error) from error
        if not isinstance(rows, VecEnv) or len(rows) != num_envs:
            raise SettingError(
                f"{self.name} returned other rows than expected",
                expected=f"a VecEnv of {counted(num_envs, 'row')}",
                received=counted(len(rows), "row") if isinstance(rows, VecEnv) else shorten(rows),
            )
        rows = self.seen(rows)
        if self.replays is not None:
            names = (f"{number:04d}.replay" for number in count())
            path = next(path for name in names if not (path := self.replays / name).exists())
            factory: Any = self.factory
            target = f"{factory.__module__}.{factory.__qualname__}"
            rows = RecordReplay(rows, path, target, self.settings, seed, self.shown)
        return rows

    @property
    def one(self) -> Callable[[], Any]:
        """A function that makes one environment, or one game of several players, in a worker."""
        if has_seats(self.factory):
            return functools.partial(self.factory, **self.settings)
        return functools.partial(staggered, self.alone) if self.staggered else self.alone

    def seen(self, rows: VecEnv) -> VecEnv:
        """Return rows of the game that show only the entities and features of ``shown``."""
        return rows if self.shown is None else VecFeatureFilter(rows, self.shown)


def check_env_class(env: object) -> None:
    """Raise SettingError unless ``env`` can be called."""
    if not callable(env):
        raise SettingError(
            "env is not a class or function that makes environments",
            expected="env=MyEnv, not env=MyEnv(...) and not a name; arguments and names go into "
            "TrainConfig(env={'_target_': ..., ...})",
            received=shorten(env),
        )


def _check_config(config: object) -> None:
    if isinstance(config, TrainConfig):
        return
    hint = None
    if callable(config):
        hint = "pass an environment as the second argument: train(env=MyEnv)"
    elif isinstance(config, str):
        hint = (
            f"ppo_trainer.recipe({config!r}) has the settings of python -m ppo_trainer env={config}"
        )
    raise SettingError(
        "the first argument is not a TrainConfig",
        expected="TrainConfig(total_timesteps=..., ...)",
        received=shorten(config),
        hint=hint,
    )


def with_env(config: TrainConfig, env: Factory | None) -> TrainConfig:
    """Return the config with ``env._target_`` set to the path of ``env``, if ``env`` is given."""
    _check_config(config)
    if env is None:
        return config
    check_env_class(env)
    path = f"{env.__module__}.{getattr(env, '__qualname__', type(env).__qualname__)}"
    if made_by(env) is None or not _is_importable(path, env):
        path = UNIMPORTABLE + path
    return replace(config, env={**config.env, "_target_": path})


def with_kept_files(config: TrainConfig, env: Factory | None = None) -> TrainConfig:
    """Return the config with the contents of the files that its environment reads.

    An environment with settings that name files has a function ``kept_settings(settings)``, which
    returns the settings with the texts of the files. The run can then be opened without these
    files, and a changed file does not change it.

    Args:
        config: Settings as the user wrote them.
        env: Class or function, as for ``make_factory``.
    """
    kept = getattr(make_factory(config, env).factory, "kept_settings", dict)
    scored = replace(config.eval, env=kept(config.eval.env))
    return replace(config, env=kept(config.env), eval=scored)


def evaluated(config: TrainConfig) -> TrainConfig:
    """Return the settings with the environment settings of ``eval.env``."""
    return replace(config, env={**config.env, **config.eval.env})


def name_in_script(config: TrainConfig) -> str:
    """Return the name of the environment in the script that passed ``env=MyEnv``."""
    name = config.env["_target_"].rpartition(".")[2]
    return name if name.isidentifier() else "..."


def make_factory(config: TrainConfig, env: Factory | None = None) -> Game:
    """Return the game of a run.

    Args:
        config: Settings; ``config.env`` contains the target and the arguments of its constructor.
        env: Class or function of the environment, needed if the target cannot be imported.
    """
    settings: dict[str, Any] = {k: v for k, v in config.env.items() if k != "_target_"}
    target = config.env["_target_"]
    if env is None and target.startswith(UNIMPORTABLE):
        raise RunFolderError(
            f"environment {target.removeprefix(UNIMPORTABLE)!r} cannot be imported: it lives in a "
            "script, a notebook or a function, or it is a function without a return annotation "
            "(-> Environment)",
            hint="pass it in Python: resume(run, env=MyEnv), watch(run, env=MyEnv); or move it to "
            "a module and give the run its new path: "
            "python -m ppo_trainer resume=<run> env._target_=my_env.MyEnv",
        )
    if env is not None:
        check_env_class(env)
    factory = resolve(target) if env is None else env
    game = Game(factory, settings)
    for one in (game, game.evaluated(config)):
        with one.names_settings():
            check_settings(factory, dict(one.settings))
    if config.eval.scripted is not None:
        alone(factory)  # single games of scripts need its annotation, too
    return game


def with_whole_games(config: TrainConfig, game: Game) -> TrainConfig:
    """Return the config with rows for whole games, copies and workers; print if rows are added."""
    rollout, seats = config.rollout, game.whole(1)
    copies = GROUP if config.ppo.baseline == "group" else 1
    together = seats * copies
    rows = max(rollout.num_envs, rollout.processes * seats)
    rows = -(-rows // together) * together
    if rows == rollout.num_envs:
        return config
    what = f"games of {counted(seats, 'seat')}" + (
        f", {copies} with the same random numbers" if copies > 1 else ""
    )
    log(f"rollout.num_envs={rollout.num_envs} is rounded up to {rows}: {what}")
    return replace(config, rollout=replace(rollout, num_envs=rows))


def _is_importable(path: str, env: Factory) -> bool:
    """Return True if another process can import the same object by ``path``."""
    if path.startswith("__main__."):
        return False
    try:
        return find(path_of(path)) is env
    except EntityEnvError:
        return False


def make_vec_env(config: TrainConfig, game: Game, seed: int, share: Share = ALL_ROWS) -> VecEnv:
    """Return a share of the rows to train on, in this process or in workers."""
    rollout = config.rollout
    if share.of > 1:
        _, count = share.cut(rollout.num_envs, game.whole(1))
        rollout = replace(rollout, num_envs=count)
    if share.number:
        rollout = replace(rollout, replays=None)  # only the first process writes replays
        seed = derived_seed(seed, "rows", share.number)
    if rollout.processes and game.is_native:
        # Rows in workers would have other random numbers, and be slower.
        log(f"rollout.processes has no effect: {game.name} plays all rows in this process")
    if rollout.replays is not None:
        game = replace(game, replays=Path(rollout.replays).expanduser())
        if rollout.processes and not game.is_native:
            log("rollout.replays has no effect: replays cannot be written by worker processes")
    # Replays need whole episodes.
    game = replace(game, staggered=rollout.stagger and rollout.replays is None)
    rows = _rows(config, game, rollout, seed)
    if config.ppo.baseline == "group":
        rows.share_draws(GROUP)
    return rows


def _rows(config: TrainConfig, game: Game, rollout: RolloutConfig, seed: int) -> VecEnv:
    """Return rows in this process or in workers."""
    if not rollout.processes or game.is_native:
        return game.rows(rollout.num_envs, seed)
    rows: VecEnv
    with game.names_settings():
        if rollout.asynchronous:
            together = max(rollout.num_envs // 2, 1)
            rows = AsyncEnv(game.one, rollout.num_envs, rollout.processes, together, seed=seed)
        else:
            rows = ParallelEnv(game.one, rollout.num_envs, rollout.processes, seed=seed)
    return game.seen(rows)


@contextlib.contextmanager
def open_vec_env(
    config: TrainConfig, game: Game, seed: int, share: Share = ALL_ROWS
) -> Iterator[VecEnv]:
    """Open the rows of ``make_vec_env``; an error while they close is printed, not raised."""
    vec_env = make_vec_env(config, game, seed, share)
    try:
        yield vec_env
    finally:
        try:
            vec_env.close()
        except EntityEnvError as error:
            warn(f"{type(error).__name__}: {error}")
