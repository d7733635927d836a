"""The environments, or games, of rows, with the row and the step in their errors."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from entity_env.actions import Action
from entity_env.batching.row_reader import RowReader
from entity_env.batching.step_results import is_over
from entity_env.environment import (
    MOST_RESETS,
    Environment,
    check_seed,
    environment_failed,
    never_begins,
    seed_environment,
)
from entity_env.errors import FAILURES, EntityEnvError, ObservationError, shorten
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.observation import Observation
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName, ActionSpace, ObsSpace, check_same_spaces

__all__ = ["RowEnvironments", "RowsOfEnvironments"]

_MADE = {Environment: "an environment", MultiPlayerEnvironment: "a game of several players"}


class RowsOfEnvironments(VecEnv):
    """Base of rows that are made of environments, or of games, in this process."""

    _create_env: Callable[[], Any]
    _envs: RowEnvironments
    _reader: RowReader

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._reader.obs_space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        return self._reader.action_space

    @property
    def hides_state(self) -> bool:
        """True if players do not see the whole state."""
        return bool(self._envs.innermost(0).hides_state)

    @property
    def can_resample(self) -> bool:
        """True if ``resample`` works."""
        return bool(self._envs.innermost(0).can_resample())

    def _check_wrappable(self) -> None:
        """Do nothing: environments can be wrapped."""

    def _wrap_each(self, wrapper: Callable[[Any], Any]) -> None:
        self._envs.wrap(wrapper)
        inner = self._create_env
        self._create_env = lambda: wrapper(inner())

    def _share_draws(self, copies: int) -> None:
        self._envs.share_draws(copies)

    def _running(self) -> list[tuple[Hashable, str]]:
        number = self._envs.running
        return [] if number is None else [((self._envs.step, number), self._envs.where(number))]

    def _close(self) -> None:
        self._envs.close()


class RowEnvironments:
    """The environments of rows, which are made, seeded, played and closed together.

    Args:
        first: The number of the first one in errors and seeds.
        on_row: Called with (row, step) before one of them runs, with its first row.
        kind: ``Environment``, or ``MultiPlayerEnvironment`` for games.
        check: Function that checks new environments, after their spaces.

    Attributes:
        step: The number of steps since the reset.
        running: The number of the environment that is running, from 0.
        seats: The number of rows of each.
        name: Their name in errors.
    """

    def __init__(
        self,
        first: int,
        on_row: Callable[[int, int], None] | None,
        kind: type[Environment] | type[MultiPlayerEnvironment] = Environment,
        check: Callable[[Sequence[Any]], None] = lambda envs: None,
    ) -> None:
        self.step, self.seats, self.first = 0, 1, first
        self.running: int | None = None
        self.name = "environment" if kind is Environment else "game"
        self._on_row, self._kind, self._check = on_row, kind, check
        self._envs: list[Any] = []
        self._seed, self._copies = 0, 1

    def __len__(self) -> int:
        """Return the number of environments."""
        return len(self._envs)

    def __iter__(self) -> Iterator[Any]:
        """Return the environments, in row order."""
        return iter(self._envs)

    def __getitem__(self, number: int) -> Any:
        """Return an environment."""
        return self._envs[number]

    def innermost(self, number: int) -> Any:
        """Return an environment without its wrappers."""
        env = self._envs[number]
        return getattr(env, "unwrapped", env)

    def make(self, create_env: Callable[[], Any], count: int) -> dict[str, Any]:
        """Make environments until there are ``count``; after an error, those can be closed.

        Returns:
            Their ``obs_space`` and ``action_space``, which must be the same.
        """
        while len(self._envs) < count:
            self._envs.append(self._made(len(self._envs), "create_env", create_env))
        self._check_apart("create_env", self._envs)
        spaces = self._spaces(self._envs)
        check_same_spaces(spaces, self.where)
        self._check(self._envs)
        return spaces[0]

    def wrap(self, wrapper: Callable[[Any], Any]) -> None:
        """Wrap each environment; check that the spaces do not change. After an error none is."""
        wrapped = [self._made(i, "wrapper", wrapper, env) for i, env in enumerate(self._envs)]
        self._check_apart("wrapper", wrapped)
        spaces = [*self._spaces(self._envs[:1]), *self._spaces(wrapped)]
        check_same_spaces(spaces, lambda i: f"{self.where(max(i - 1, 0))}, wrapper")
        self._check(wrapped)
        self._envs = wrapped
        self.seed(self._seed)  # wrappers may have random numbers, too

    def seed(self, seed: int) -> None:
        """Seed each environment i with the i-th random stream spawned from ``seed``."""
        self._seed = seed = check_seed(seed)
        for i, env in enumerate(self._envs):
            group = (self.first + i) // self._copies
            self.call(i, "seed", seed_environment, env, spawned_seed(seed, group))

    def share_draws(self, copies: int) -> None:
        """Let groups of ``copies`` environments draw the same random numbers in each step."""
        self._copies = copies
        self.seed(self._seed)

    def reset(self, observations: list[Observation], rows: Sequence[int]) -> None:
        """Reset ``rows``, and write their observations into ``observations``.

        Rows whose episode is over before its first step are reset again.
        """
        for attempt in range(MOST_RESETS):
            self._draw_alike(rows, 1 + attempt)
            for row in rows:
                observations[row : row + 1] = [self.call(row, "reset", self._envs[row].reset)]
            rows = [row for row in rows if is_over(observations[row])]
            if not rows:
                return
        raise never_begins().located(self.where(rows[0]))

    def act(self, actions: Sequence[dict[ActionName, Action]]) -> list[Observation]:
        """Step each environment; like ``call``, without an additional call for each row."""
        observations = []
        self._draw_alike(range(len(self)), 0)
        row, note = 0, self._on_row
        try:
            for row, (env, own) in enumerate(zip(self._envs, actions, strict=True)):
                self.running = row
                if note is not None:
                    note(self.first + row, self.step)
                observations.append(env.act(own))
        except FAILURES as error:
            self._blame(row, "act", error)
        finally:
            self.running = None
        return observations

    def close(self) -> None:
        """Close all environments, then raise the first error."""
        self._on_row = None  # keep reporting the row that ran before
        failed: EntityEnvError | None = None
        for row, env in enumerate(self._envs):
            try:
                self.call(row, "close", env.close)
            except EntityEnvError as error:  # close the other environments, too
                failed = failed or error
        if failed is not None:
            raise failed

    def call(self, row: int, what: str, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Call a function of environment number ``row``; errors name it and the step."""
        if self._on_row is not None:
            self._on_row((self.first + row) * self.seats, self.step)
        self.running = row
        try:
            return function(*args, **kw)
        except FAILURES as error:
            self._blame(row, what, error)
        finally:
            self.running = None

    def where(self, row: int) -> str:
        """Return the place of an environment, for errors."""
        return f"{self.name} {self.first + row}, step {self.step}"

    def places(
        self, what: str, rows: Sequence[int] | None = None, new: Container[int] = ()
    ) -> Callable[[int], str]:
        """Return a function that names the place of the i-th of ``rows`` in errors."""

        def place(i: int) -> str:
            row = i if rows is None else rows[i]
            return f"{self.where(row)}, {'reset' if row in new else what}"

        return place

    def _draw_alike(self, rows: Sequence[int], attempt: int) -> None:
        """Seed ``rows`` by their groups and the step, if groups share random numbers."""
        if self._copies == 1:
            return
        seeds = dict[int, int]()
        for row in rows:
            group = (self.first + row) // self._copies
            if group not in seeds:
                seeds[group] = spawned_seed(self._seed, group, self.step, attempt)
            # Wrappers keep their state; their random numbers are those of the environment.
            self.call(row, "seed", seed_environment, self.innermost(row), seeds[group])

    def _blame(self, row: int, what: str, error: BaseException) -> NoReturn:
        if isinstance(error, EntityEnvError):
            raise error.located(f"{self.where(row)}, {what}") from error.__cause__
        raise environment_failed(what, error).located(self.where(row)) from error

    def _made(self, row: int, what: str, make: Callable[..., Any], *inside: Any) -> Any:
        env = self.call(row, what, make, *inside) if callable(make) else make
        if env is make or not isinstance(env, self._kind):
            is_alone = self._kind is Environment
            raise ObservationError(
                f"{what} did not make {_MADE[self._kind]}",
                expected=f"a subclass of entity_env.{self._kind.__name__}, or a function that "
                "makes one",
                received=shorten(env),
                hint=_WRAP_IT
                if is_alone and hasattr(env, "step")
                else "pass the class, MyEnv and not MyEnv(): each row has its own environment"
                if is_alone and isinstance(make, Environment)
                else None,
            ).located(self.where(row))
        return env

    def _check_apart(self, what: str, envs: Sequence[Any]) -> None:
        seen = dict[int, int]()
        for row, env in enumerate(envs):
            if seen.setdefault(id(env), row) != row:
                raise ObservationError(
                    f"{what} made {self.name} {self.first + seen[id(env)]} again",
                    expected=f"a new {self.name} at each call",
                ).located(self.where(row))

    def _spaces(self, envs: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            {
                "obs_space": self.call(row, "obs_space", env.obs_space),
                "action_space": self.call(row, "action_space", env.action_space),
            }
            for row, env in enumerate(envs)
        ]


def spawned_seed(seed: int, *number: int) -> int:
    """Return the seed of one of the environments of rows that are made with ``seed``.

    It has 32 bits, because all seeding functions, such as ``numpy.random.seed``, accept these.
    """
    return int(np.random.SeedSequence(seed, spawn_key=number).generate_state(1)[0])


_WRAP_IT = "entity_env.interop.GymnasiumEnv wraps an environment of Gymnasium"
