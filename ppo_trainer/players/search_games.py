"""Copies of games, in which a search plays."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from entity_env import ListEnv, VecEnv, VecObs
from entity_env.errors import SettingError, shorten
from entity_env.rows.compiled import CompiledRows, SavedGames
from entity_env.seats.seat_rows import SeatRows

__all__ = ["Copies", "copies_of", "hides_something"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]


class Copies(Protocol):
    """G games, each with a place for the states of M positions."""

    @property
    def rows(self) -> VecEnv:
        """The rows of the copies."""

    def begin(self, games: Ints) -> None:
        """Store the present state of these games (G,) as position 0."""

    def put(self, positions: Ints, keys: Keys | None, dealt: Bools | None = None) -> VecObs:
        """Put each copy into one of its positions, and return the observation.

        Args:
            positions: Shape: (G,).
            dealt: True for games in which that what the acting seat cannot see is drawn anew; None
                for no game. Shape: (G,).
            keys: Seeds of the random numbers that the games draw from then on; None for their own.
                Shape: (G,).
        """

    def keep(self, position: int, games: npt.NDArray[np.bool_]) -> None:
        """Store the states of some copies (G,) as a position."""

    def have_drawn(self) -> npt.NDArray[np.bool_]:
        """Return True for copies that have drawn random numbers since ``put``. Shape: (G,)."""

    def only(self, rows: VecEnv, games: Ints) -> tuple[VecEnv, VecObs]:
        """Continue with some games alone.

        Args:
            rows: ``rows`` of the copies, or those that this method has returned.
            games: Numbers of the games in ``rows``. Shape: (F,).

        Returns:
            Rows of F games in the same states, valid until the next call with as many games, and
            their observation.
        """


def hides_something(rows: VecEnv) -> bool:
    """Return True if what the players cannot see must be drawn anew.

    Raises:
        SettingError: The game hides something, and cannot draw it anew.
    """
    own: Any = rows
    if not getattr(own, "hides_state", False):
        return False
    if not own.can_resample:
        raise SettingError(
            "this game hides something from its players, which a search would know",
            expected="a game that draws it anew: resample(seat)",
            received=shorten(rows),
            hint="search in the rows of a compiled game, not in single games",
        )
    return True


def copies_of(rows: VecEnv, games: int, positions: int) -> Copies:
    """Return copies of so many games of these rows.

    Raises:
        SettingError: The rows cannot be copied.
    """
    if isinstance(rows, CompiledRows):
        return _CompiledCopies(rows, games, positions)
    if isinstance(rows, ListEnv | SeatRows) and rows.has_state():
        return _PythonCopies(rows, games, positions)
    raise SettingError(
        "these rows cannot be searched",
        expected="a compiled game, or environments with get_state and set_state, in this process",
        received=shorten(rows),
    )


class _CompiledCopies:
    """Copies of a compiled game, as arrays."""

    def __init__(self, rows: CompiledRows, games: int, positions: int) -> None:
        self._real = rows
        self.rows = rows.alike(games * rows.num_seats)
        self.rows.reset()
        self._every = np.arange(games)
        self._kept = SavedGames(
            **{
                name: _with_positions(own, positions)
                for name, own in vars(self.rows.copy_games(self._every)).items()
            }
        )
        self._random = np.zeros(games, np.uint64)
        self._fewer: dict[int, CompiledRows] = {}

    def begin(self, games: Ints) -> None:
        self._store(0, self._every, self._real.copy_games(games))

    def put(self, positions: Ints, keys: Keys | None, dealt: Bools | None = None) -> VecObs:
        kept = self._kept
        fields = {name: own[self._every, positions] for name, own in kept.fields.items()}
        if keys is not None:
            fields["random"] = keys
        self._random = fields["random"]
        returns, taken = (own[self._every, positions] for own in (kept.returns, kept.taken))
        shown = self.rows.put_games(self._every, SavedGames(fields, returns, taken))
        return shown if dealt is None else self.rows.resample(dealt)

    def keep(self, position: int, games: npt.NDArray[np.bool_]) -> None:
        chosen = np.flatnonzero(games)
        self._store(position, chosen, self.rows.copy_games(chosen))

    def have_drawn(self) -> npt.NDArray[np.bool_]:
        changed: npt.NDArray[np.bool_] = (
            self.rows.copy_games(self._every).fields["random"] != self._random
        )
        return changed

    def only(self, rows: Any, games: Ints) -> tuple[VecEnv, VecObs]:
        count = len(games)
        if count not in self._fewer:
            self._fewer[count] = self._real.alike(count * self._real.num_seats)
            self._fewer[count].reset()
        fewer = self._fewer[count]
        return fewer, fewer.put_games(np.arange(count), rows.copy_games(games))

    def _store(self, position: int, games: Ints, saved: SavedGames) -> None:
        for name, own in saved.fields.items():
            self._kept.fields[name][games, position] = own
        self._kept.returns[games, position] = saved.returns
        self._kept.taken[games, position] = saved.taken


def _with_positions(own: Any, positions: int) -> Any:
    """Return arrays with room for the states of ``positions``, behind the axis of games."""
    if isinstance(own, dict):
        return {name: _with_positions(field, positions) for name, field in own.items()}
    return np.zeros((len(own), positions, *own.shape[1:]), own.dtype)


class _PythonCopies:
    """Copies of games in Python, as the states that ``get_state`` returns."""

    def __init__(self, rows: ListEnv | SeatRows, games: int, positions: int) -> None:
        self._real = rows
        self._seats = rows.num_seats
        self.rows = rows.alike(games * self._seats)
        self._kept: list[list[Any]] = [[None] * positions for _ in range(games)]
        self._random: list[Any] = []
        self._fewer: dict[int, Any] = {}

    def begin(self, games: Ints) -> None:
        every = self._real.get_state()
        for kept, game in zip(self._kept, games.tolist(), strict=True):
            kept[0] = every[game * self._seats : (game + 1) * self._seats]

    def put(self, positions: Ints, keys: Keys | None, dealt: Bools | None = None) -> VecObs:
        states = []
        self._random = []
        for number, (kept, position) in enumerate(zip(self._kept, positions.tolist(), strict=True)):
            first, *others = kept[position]
            if keys is not None:
                drawn = np.random.PCG64(int(keys[number])).state
                first = _with_random(first, drawn)
            states += [first, *others]
            self._random.append(_random_of(first))
        shown = self.rows.set_state(states)
        return shown if dealt is None else self.rows.resample(dealt)

    def keep(self, position: int, games: npt.NDArray[np.bool_]) -> None:
        every = self.rows.get_state()
        for game in np.flatnonzero(games).tolist():
            self._kept[game][position] = every[game * self._seats : (game + 1) * self._seats]

    def have_drawn(self) -> npt.NDArray[np.bool_]:
        every = self.rows.get_state()[:: self._seats]
        pairs = zip(every, self._random, strict=True)
        return np.array([_random_of(own) != before for own, before in pairs])

    def only(self, rows: Any, games: Ints) -> tuple[VecEnv, VecObs]:
        count = len(games) * self._seats
        if count not in self._fewer:
            self._fewer[count] = self._real.alike(count)
        chosen = (games[:, None] * self._seats + np.arange(self._seats)).ravel().tolist()
        every = rows.get_state()
        return self._fewer[count], self._fewer[count].set_state([every[row] for row in chosen])


def _random_of(saved: Any) -> Any:
    """Return the state of the random numbers in a saved row, which may be that of a seat."""
    return saved["game"]["rng"] if "game" in saved else saved["rng"]


def _with_random(saved: Any, drawn: Any) -> Any:
    if "game" in saved:
        return {**saved, "game": {**saved["game"], "rng": drawn}}
    return {**saved, "rng": drawn}
