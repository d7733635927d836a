"""Rows of a game that is compiled with Numba.

``envs/README.md`` explains step by step how to write such a game.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import environment_failed
from entity_env.errors import (
    DAMAGES,
    FAILURES,
    ActionError,
    EntityEnvError,
    ObservationError,
    ResetNeededError,
    SettingError,
    StateError,
    counted,
    shorten,
)
from entity_env.metrics import EpisodeTracker
from entity_env.rows.compiled_game import Actors, CompiledGame, Entities, Field
from entity_env.rows.game_frames import FrameWriter, Written
from entity_env.rows.game_kernel import (
    RESAMPLE,
    RESET,
    SHOW,
    STEP,
    STEP_ONLY,
    WRONG_COUNT,
    WRONG_WINDOW,
    KernelPlan,
    fixed_counts,
    game_kernel,
)
from entity_env.rows.jit import compiled, interpreted
from entity_env.rows.random_numbers import random_float, random_int, seeded_streams
from entity_env.rows.vec_env import VecEnv, check_count, check_saved_rows, damaged_state
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.storage.bounded_json import pack_array, unpack_array

__all__ = [
    "Actors",
    "CompiledGame",
    "CompiledRows",
    "Entities",
    "Field",
    "SavedGames",
    "compiled",
    "random_float",
    "random_int",
]

_RANDOM = "SplitMix64"
_MOST_STEPS = 2**31 - 1  # of an episode: steps are counted in 32 bits
_MOST_NUMBERS = 256
"""Number of numbers of a field above which a state holds them packed instead of as a list."""


@dataclass(frozen=True)
class SavedGames:
    """Copies of the complete state of some games.

    Args:
        fields: The state, and ``random`` and ``steps``. Shape of each: (G, ...).
        returns: Rewards of the running episodes. Shape: (G, S), float64.
        taken: Decisions in the running episodes. Shape: (G, S), int32.
    """

    fields: Mapping[str, npt.NDArray[Any]]
    returns: npt.NDArray[np.float64]
    taken: npt.NDArray[np.int32]


class CompiledRows(VecEnv):
    """R rows of a compiled game, one row for each game or for each of its ``seats``.

    The games do not depend on the number of games and threads. Override ``load_game`` for more
    checks of saved states, and ``draw_row`` for pictures.

    Args:
        game: The game.
        num_envs: The number of rows R, a multiple of the game's seats; None: the seats of one game.
        seed: Seed of all games.
        threads: Number of threads that share the games of a step. One is enough below some ten
            thousand entities in all rows.
        copies: Number of consecutive games with the same random numbers, for several tries at each
            episode; they stay equal as long as the games draw equally often.

    Raises:
        SettingError: R is not a multiple of the seats, or an argument is out of its range.
    """

    def __init__(
        self,
        game: CompiledGame,
        num_envs: int | None,
        seed: int = 0,
        *,
        threads: int = 1,
        copies: int = 1,
    ) -> None:
        self._game, self._seats = game, game.seats or 1
        rows = self._seats if num_envs is None else check_count("number of environments", num_envs)
        if rows % self._seats:
            raise SettingError(
                "the number of rows is not a multiple of the number of seats",
                expected=f"a multiple of {counted(self._seats, 'seat')}",
                received=rows,
            )
        games = rows // self._seats
        threads = min(check_count("number of threads", threads, error=SettingError), games)
        self._copies = check_count("number of copies", copies, error=SettingError)
        self._seed, self._sharing = seed, 1  # games in a group with the same random numbers
        self._most_steps = game.max_steps or _MOST_STEPS
        self._step_mode = STEP
        self._fields = {
            name: np.zeros((games, *own.shape), own.dtype) for name, own in game.state.items()
        }
        self._fields["random"] = self._streams(seed, games)
        self._fields["steps"] = np.zeros(games, np.int32)
        self._returns, self._taken = np.zeros(rows, np.float64), np.zeros(rows, np.int32)
        self._plan = KernelPlan.of(game)
        self._writer = FrameWriter(game, self._plan, rows)
        cuts = [games * i // threads for i in range(threads + 1)]
        self._parts = [_Part(self, first, last) for first, last in pairwise(cuts)]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        # The actions that passed the quick check, and their choices.
        self._legal: tuple[Mapping[ActionName, ActionBuffer], list[Any]] | None = None
        self._step = 0
        self._begun = False

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._game.obs_space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        return dict(self._game.action_space)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._returns)

    @property
    def num_seats(self) -> int:
        """The number of rows of one game."""
        return self._seats

    @property
    def seats_may_leave(self) -> bool:
        """True if seats leave and join during a game."""
        return self._game.may_leave

    def has_state(self) -> bool:
        """Return True, because compiled games always save their state."""
        return True

    def interpret(self, resets: bool = False) -> None:
        """Run the game in Python from now on.

        Args:
            resets: See ``keep_over``.
        """
        self.keep_over(not resets)
        for part in self._parts:
            part.kernel = game_kernel(self._game, in_python=True)

    def keep_over(self, keeps: bool = True) -> None:
        """Show games that are over until the next ``reset``, instead of beginning them again.

        Args:
            keeps: False to begin them again.
        """
        self._step_mode = STEP_ONLY if keeps else STEP

    def alike(self, num_envs: int) -> CompiledRows:
        """Make other rows of the same game with the same settings, for ``put_games``."""
        made = CompiledRows(self._game, num_envs)
        for part in made._parts:
            part.kernel = self._parts[0].kernel  # of Python functions if these rows are interpreted
        made._step_mode = self._step_mode
        return made

    def copy_games(self, games: Sequence[int] | npt.NDArray[np.int64]) -> SavedGames:
        """Return copies of the state of some games, for instance for a search.

        Args:
            games: The numbers of the games, 0 to R / seats - 1; without seats those of the rows.

        Raises:
            ActionError: A game does not exist.
            ResetNeededError: No episode has been started.
        """
        self._check_begun()
        chosen = self._numbers(games)
        return SavedGames(
            {name: own[chosen] for name, own in self._fields.items()},
            self._returns.reshape(-1, self._seats)[chosen],
            self._taken.reshape(-1, self._seats)[chosen],
        )

    def put_games(self, games: Sequence[int] | npt.NDArray[np.int64], saved: SavedGames) -> VecObs:
        """Restore states of ``copy_games``, of these rows or of other rows of the same game.

        Args:
            games: The numbers of the games to restore, in the order of ``saved``.
            saved: The same number of saved games.

        Returns:
            The observation of all rows; rewards are 0.

        Raises:
            ActionError: A game does not exist.
            StateError: The saved games are of another kind, or their number differs.
        """
        self._check_begun()
        chosen = self._numbers(games)
        for name, own in self._fields.items():
            given = saved.fields.get(name)
            if given is None or given.dtype != own.dtype or given.shape != own[chosen].shape:
                raise StateError(
                    f"the saved games do not fit: field {name!r} differs",
                    expected=f"shape {own[chosen].shape}, {own.dtype}",
                    received=None if given is None else f"shape {given.shape}, {given.dtype}",
                )
        for name, own in self._fields.items():
            own[chosen] = saved.fields[name]
        self._returns.reshape(-1, self._seats)[chosen] = saved.returns
        self._taken.reshape(-1, self._seats)[chosen] = saved.taken
        self._last = None
        self._last = self._first(SHOW)
        return self._last

    @property
    def hides_state(self) -> bool:
        """True if players do not see the whole state."""
        return self._game.hides

    @property
    def can_resample(self) -> bool:
        """True if ``resample`` works."""
        return self._game.resample is not None

    def resample(self, games: npt.NDArray[np.bool_]) -> VecObs:
        """Draw anew what the acting seats of some games (G,) cannot see; return the observation."""
        for part in self._parts:
            part.over[:] = games[part.games]
        self._last = None
        self._last = self._first(RESAMPLE)
        return self._last

    def save_game(self, game: int) -> dict[str, Any]:
        """Return the state of a game as lists, without random numbers and past rewards."""
        return {name: self._fields[name][game].tolist() for name in self._saved_fields()}

    def load_game(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields and ``steps`` of a saved state, or raise StateError.

        Args:
            saved: The state of a game in ``get_state``, or what ``save_game`` returns.
        """
        fields = {n: _read_field(n, field, saved[n]) for n, field in self._saved_fields().items()}
        if self._game.problems is not None:
            # Copies, because the game's functions write to them.
            every = {name: own[:1].copy() for name, own in self._fields.items()}
            every |= {name: value[np.newaxis].copy() for name, value in fields.items()}
            game = SimpleNamespace(**every, **self._game.settings, max_steps=self._most_steps)
            for what, has in interpreted(self._game.problems)(game, 0).items():
                if has:
                    raise StateError(
                        f"the saved state has {what}",
                        expected="a state of this game with these settings",
                        received=shorten(saved),
                    )
        return fields

    def _saved_fields(self) -> dict[str, Field]:
        own = {name: field for name, field in self._game.state.items() if not field.fixed}
        return {**own, "steps": Field((), np.int32, 0, self._most_steps - 1)}

    def draw_row(self, row: int, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the game's own picture of a row; subclasses may define it. Shape: (H, W, 3)."""
        raise NotImplementedError(f"{type(self).__name__} has no draw_row method")

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return [self.draw_row(row, **kwargs) for row in range(len(self))]

    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            self._seed = seed
            self._fields["random"][:] = self._streams(seed, len(self) // self._seats)
        self._step = 0
        self._begun = True
        self._draw_alike()
        return self._first(RESET)

    def _streams(self, seed: int, games: int) -> npt.NDArray[np.uint64]:
        different = seeded_streams(seed, -(-games // self._copies))
        return different.repeat(self._copies)[:games]

    def _share_draws(self, copies: int) -> None:
        self._sharing = copies

    def _draw_alike(self) -> None:
        """Set the random numbers of each group by the step, if groups share random numbers."""
        if self._sharing > 1:
            step = np.random.SeedSequence(self._seed, spawn_key=(self._step,))
            words = step.generate_state(len(self) // self._sharing, np.uint64)
            self._fields["random"][:] = words.repeat(self._sharing)

    def _checked_actions(
        self, actions: Mapping[ActionName, ActionBuffer], obs: VecObs
    ) -> Mapping[ActionName, ActionBuffer]:
        """Check actions quickly; the complete check raises errors for those that fail."""
        of_choices: Any = actions  # compiled games have actions with choices only
        self._legal = self._writer.legal(of_choices)
        return super()._checked_actions(actions, obs) if self._legal is None else self._legal[0]

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._step += 1
        self._draw_alike()
        if self._legal is not None and chosen is self._legal[0]:
            return self._play(self._step_mode, self._legal[1])
        choices: list[Any] = [chosen[name].as_array() for name in self._plan.actors]
        self._writer.check_lengths(choices)
        return self._play(self._step_mode, choices)

    def _first(self, mode: int) -> VecObs:
        """Return the observation after a reset or a restored state."""
        return self._play(mode, [_NOTHING] * len(self._plan.actors))

    def _play(self, mode: int, chosen: list[npt.NDArray[np.int64]]) -> VecObs:
        rows = len(self)
        plays = mode in (STEP, STEP_ONLY)
        made = np.empty if plays else np.zeros
        told = made(rows, np.float32), made(rows, np.bool_), made(rows, np.bool_)
        try:
            if self._pool is None:
                written = [self._parts[0].play(mode, chosen, *told)]
            else:
                starts = [0] * len(chosen)
                futures = []
                for part in self._parts:
                    ends = part.ends(starts) if plays else starts
                    own = [c[a:b] for c, a, b in zip(chosen, starts, ends, strict=True)]
                    mine = part.rows
                    pieces = told[0][mine], told[1][mine], told[2][mine]
                    futures.append(self._pool.submit(part.play, mode, own, *pieces))
                    starts = ends
                wait(futures)  # also after an error, so that no thread continues
                written = [future.result() for future in futures]
        except EntityEnvError as error:
            raise error.located(f"step {self._step}") from error.__cause__
        except FAILURES as error:
            raise environment_failed("the compiled game", error).located(
                f"step {self._step}"
            ) from error
        return self._writer.write(written, *told)

    def _get_state(self) -> list[Any]:
        self._check_begun()
        saved: list[Any] = []
        for row in range(len(self)):
            game, seat = divmod(row, self._seats)
            bits = int(self._fields["random"][game])
            saved.append(
                {
                    # The seats of a game have one state.
                    "env": None
                    if seat
                    else {name: _packed(self._fields[name][game]) for name in self._saved_fields()},
                    "rng": None if seat else {"bit_generator": _RANDOM, "state": bits},
                    "episode": {
                        "reward": float(self._returns[row]),
                        "length": int(self._taken[row]),
                        "metrics": {},
                    },
                    "step": self._step,
                }
            )
        return saved

    def _set_state(self, state: list[Any]) -> VecObs:
        check_saved_rows(state, len(self))
        read = []
        for row, saved in enumerate(state):
            try:
                read.append(self._read_row(saved, row % self._seats))
            except EntityEnvError as error:
                raise error.located(f"environment {row}, set_state") from error.__cause__
        for row, (fields, episode) in enumerate(read):
            for name, value in fields.items():
                self._fields[name][row // self._seats] = value
            self._returns[row], self._taken[row] = episode.reward, episode.length
        self._step, self._begun = int(state[0]["step"]), True
        return self._first(SHOW)

    def _read_row(self, saved: Any, seat: int) -> tuple[dict[str, Any], EpisodeTracker]:
        """Return the checked fields and the running episode of a saved row."""
        episode = EpisodeTracker()
        try:
            episode.set_state(saved["episode"])
            int(saved["step"])
            if episode.length >= _MOST_STEPS:
                raise ValueError(f"an episode of {episode.length} steps")
            if seat:
                return {}, episode
            kind, bits = saved["rng"]["bit_generator"], saved["rng"]["state"]
            if kind != _RANDOM:
                raise StateError(
                    "the random numbers are those of another environment",
                    expected=_RANDOM,
                    received=shorten(kind),
                    hint=self._who_saves(),
                )
            if not 0 <= int(bits) < 2**64:
                raise ValueError(f"random state {bits}")
            fields = self.load_game(saved["env"])
        except EntityEnvError:
            raise
        except DAMAGES as error:
            raise damaged_state(saved, error) from error
        return {**fields, "random": np.uint64(bits)}, episode

    def _who_saves(self) -> str | None:
        """Return a hint to use the rows that have saved the state."""
        if self.environment is None:
            return None
        path = f"{self.environment.__module__}.{self.environment.__qualname__}"
        return f"saved by rows of the game in Python: env._target_={path}"

    def _check_begun(self) -> None:
        self._check_open()
        if not self._begun:
            raise ResetNeededError("no episode has been started", hint="call reset() first")

    def _numbers(self, games: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        count = len(self._fields["steps"])
        numbers = np.asarray(games)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ActionError("invalid games", expected="a list of whole numbers", received=games)
        numbers = numbers.astype(np.int64)
        if ((numbers < 0) | (numbers >= count)).any():
            raise ActionError(
                "a game does not exist", expected=f"0 to {count - 1}", received=shorten(games)
            )
        return numbers

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def _packed(field: npt.NDArray[Any]) -> Any:
    """Return a field of one game as JSON values, or a large one as a packed array."""
    return pack_array(field) if field.size > _MOST_NUMBERS else field.tolist()


def _read_field(name: str, field: Field, saved: Any) -> npt.NDArray[Any]:
    """Return a field of one game from its values of ``_packed``, or raise one of ``DAMAGES``."""
    dtype = np.dtype(field.dtype)
    if isinstance(saved, str):
        try:
            given = unpack_array(saved, dtype, field.shape)
        except ValueError as error:
            raise ValueError(f"field {name!r}: {error}") from error
    else:
        given = np.asarray(saved)
    # JSON has no dtypes, and [] is an empty array of any shape.
    kinds, is_empty = {"b": "b", "f": "biuf"}.get(dtype.kind, "biu"), 0 in field.shape
    if is_empty and not given.size:
        given = np.zeros(field.shape, dtype)
    if given.shape != tuple(field.shape) or given.dtype.kind not in kinds:
        raise ValueError(f"field {name!r} of shape {given.shape} and type {given.dtype}")
    value = given.astype(dtype)
    if not np.array_equal(value, given) or not np.isfinite(value).all():
        raise ValueError(f"field {name!r} has numbers that are not finite in {dtype}")
    low = -np.inf if field.least is None else field.least
    high = np.inf if field.most is None else field.most
    wrong = (value < low) | (value > high)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        least, most = (np.broadcast_to(bound, value.shape)[place] for bound in (low, high))
        raise StateError(
            f"the saved state has a field {name!r} out of range",
            expected=f"{least} to {most}",
            received=f"{value[place]}" + (f" at {list(place)}" if place else ""),
        )
    return value


class _Part:
    """The games of one thread: a view of their state, and buffers for their frames.

    Args:
        owner: The rows.
        first: Its first game.
        last: The game after its last game.
    """

    def __init__(self, owner: CompiledRows, first: int, last: int) -> None:
        game, seats = owner._game, owner._seats
        self._first, self._plan = first, owner._plan
        self._types, self._lists = list(game.obs_space.entities), 7 + owner._plan.lists
        self.rows, self.games = slice(first * seats, last * seats), slice(first, last)
        count = (last - first) * seats
        self.kernel = game_kernel(game)
        self._state = (
            tuple(own[first:last] for own in owner._fields.values()),
            (*game.settings.values(), owner._most_steps),
            fixed_counts(game),
            owner._returns[self.rows],
            owner._taken[self.rows],
        )
        types, lists = len(game.entities), self._plan.lists
        frames, last_frames = owner._writer.room(count)
        self._asked = np.ones(count, np.bool_)
        self.over = np.zeros(last - first, np.bool_)
        self._written = Written(
            lengths=np.zeros((lists, count), np.int64),
            shown=np.empty((lists, count), np.int64),
            frames=frames,
            rows=np.zeros(count, np.int64),
            over=self.over,
            last_lengths=np.zeros((types, count), np.int64),
            last=last_frames,
            metrics=np.empty((len(self._plan.metrics), count), np.float64),
        )
        self._shapes = self._written.shown.shape, self._written.metrics.shape
        self._totals = np.zeros(7 + lists + types, np.int64)
        self._room = (
            self.over,
            self._asked,
            self._written.rows,
            self._written.lengths,
            frames,
            self._written.last_lengths,
            last_frames,
            self._totals,
        )

    def ends(self, starts: list[int]) -> list[int]:
        """Return the ends of these games' choices that begin at ``starts``."""
        totals = self._totals[7:].tolist()
        return [
            at + totals[row] for at, row in zip(starts, self._plan.actors.values(), strict=True)
        ]

    def play(
        self,
        mode: int,
        chosen: list[npt.NDArray[np.int64]],
        reward: npt.NDArray[np.float32],
        done: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
    ) -> Written:
        """Call the kernel; the arguments are those of ``kernel_text``."""
        written = self._written
        # A new array, because it is returned to users; faster than a copy.
        written.shown = shown = np.empty(self._shapes[0], np.int64)
        written.metrics = metrics = np.empty(self._shapes[1], np.float64)
        told = reward, done, truncated, metrics
        self.kernel(mode, *self._state, *told, tuple(chosen), shown, *self._room)
        totals = self._totals.tolist()
        if totals[0]:
            self._refuse(*totals[:4])
        written.ended, written.cut_off, written.count = totals[4:7]
        written.totals, written.last_totals = totals[7 : self._lists], totals[self._lists :]
        if self.rows.start:
            written.rows[: written.count] += self.rows.start
        return written

    def _refuse(self, status: int, row: int, kind: int, count: int) -> NoReturn:
        if status == WRONG_WINDOW:
            raise ObservationError(
                f"a window of {self._types[kind]!r} is not within the map",
                expected="a window that lies completely within the map",
                received=f"row {count}" if count >= 0 else "a row or column below 0",
                where=f"environment {self.rows.start + row}",
            )
        if status == WRONG_COUNT:
            raise ObservationError(
                f"the game has {counted(count, 'entity')} of type {self._types[kind]!r}",
                expected="0 to the declared maximum",
                where=f"environment {self.rows.start + row}",
            )
        raise ObservationError("the game gave a reward that is not a finite number")


_NOTHING = np.zeros((0, 1), np.int64)
