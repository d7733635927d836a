"""A tracker of the games that rows play: which rows take part, and which games are over."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import VecObs
from entity_env.errors import DAMAGES, StateError

__all__ = ["GameTracker"]

Bools = npt.NDArray[np.bool_]


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
