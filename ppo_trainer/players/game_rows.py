"""Games of rows: a tracker of their ends, and the base class of wrappers that follow them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import VecEnv, VecObs
from entity_env.errors import DAMAGES, SeatError, SettingError, StateError, shorten
from entity_env.wrappers.vec_wrapper import VecWrapper

__all__ = ["GameRows", "GameTracker", "check_sides"]


class GameRows(VecWrapper):
    """Rows of games whose seats are consecutive rows, with additional state.

    The additional state is saved with the first row, under the name ``saved_as``.

    Args:
        env: Rows of games.
        sides: Seats of each side: a team, or a single seat.
    """

    saved_as: str

    def __init__(self, env: VecEnv, sides: Sequence[Sequence[int]]) -> None:
        super().__init__(env)
        seats = check_sides(sides)
        if len(env) % seats:
            raise SettingError(
                f"{len(env)} rows do not make whole games of {seats} seats",
                expected=f"a multiple of {seats}",
                received=len(env),
            )
        self._games = GameTracker(len(env), seats)

    def own_state(self) -> Any:
        """Return the additional state as JSON values."""
        raise NotImplementedError

    def around(self, state: Sequence[Any], added: Any) -> list[Any]:
        """Return the state of these rows, from that of the wrapped rows and the ``added`` one."""
        return [
            {"row": row, **({} if number else {self.saved_as: added})}
            for number, row in enumerate(state)
        ]

    def _set_own_state(self, state: Any) -> None:
        """Restore a state of ``own_state``; raise one of DAMAGES for anything else."""
        raise NotImplementedError

    def _get_state(self) -> list[Any]:
        added = self.own_state()
        return self.around(self.env.get_state(), added)

    def _set_state(self, state: list[Any]) -> VecObs:
        try:
            rows = [saved["row"] for saved in state]
            self._set_own_state(state[0][self.saved_as])
        except DAMAGES as error:
            raise StateError(
                f"the saved state of {self.saved_as} is damaged: {type(error).__name__}: {error}",
                received=shorten(state),
            ) from error
        return super()._set_state(rows)


class GameTracker:
    """A tracker of games whose seats are consecutive rows, from one observation to the next.

    ``VecObs.over`` contains the games that have ended. Where it is None, a game counts as over when
    all rows that have acted in it are done.

    Args:
        num_rows: Number of rows R.
        seats: Number of seats S of each game.

    Attributes:
        inside: True if the row has acted in its episode. Shape: (R,), bool.
        steps: Number of steps of each game. Shape: (G,), int64.
    """

    def __init__(self, num_rows: int, seats: int) -> None:
        self.seats = seats
        self.inside = np.zeros(num_rows, np.bool_)
        self.steps = np.zeros(num_rows // seats, np.int64)

    def begin(self, obs: VecObs) -> None:
        """Begin all games."""
        self.inside[:] = False
        self.steps[:] = 0
        self.inside[obs.rows] = True

    def follow(self, obs: VecObs) -> npt.NDArray[np.int64]:
        """Return the numbers of the games that this observation ends, ascending. Shape: (K,)."""
        self.steps += 1
        was = self.inside.reshape(-1, self.seats).any(axis=1)
        self.inside &= ~obs.done
        if obs.over is None:
            ended = was & ~self.inside.reshape(-1, self.seats).any(axis=1)
        else:
            ended = obs.over.reshape(-1, self.seats).any(axis=1)
        over = np.flatnonzero(ended)
        self.steps[over] = 0
        self.inside[obs.rows] = True
        return over

    def get_state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"inside": np.flatnonzero(self.inside).tolist(), "steps": self.steps.tolist()}

    def set_state(self, state: Any) -> None:
        """Restore a state of ``get_state``.

        Raises:
            StateError: The state is damaged.
        """
        try:
            inside = np.zeros_like(self.inside)
            inside[np.array(state["inside"], np.int64)] = True
            steps = np.array(state["steps"], np.int64)
            if steps.shape != self.steps.shape:
                raise ValueError(f"{len(steps)} games")
        except DAMAGES as error:
            raise StateError(f"the saved state of the games is damaged: {error}") from error
        self.inside, self.steps = inside, steps


def check_sides(sides: Sequence[Sequence[int]]) -> int:
    """Return the number of seats.

    Raises:
        SeatError: There are fewer than two sides, or a seat is in no side or in two.
    """
    every = sorted(seat for side in sides for seat in side)
    if len(sides) < 2 or not all(len(side) for side in sides):
        raise SeatError(
            "a game needs opponents",
            expected="two sides with at least one seat each",
            received=shorten([list(side) for side in sides]),
        )
    if every != list(range(len(every))):
        twice = sorted({seat for seat in every if every.count(seat) > 1})
        raise SeatError(
            f"seat {twice[0]} has two players" if twice else "a seat has no player",
            expected="each seat on one side",
            received=shorten([list(side) for side in sides]),
        )
    return len(every)
