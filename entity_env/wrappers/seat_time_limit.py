"""Games of several players that end after a number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from entity_env.arguments import named_arguments
from entity_env.batching.step_results import is_over
from entity_env.errors import SettingError
from entity_env.observation import Observation
from entity_env.rows.vec_env import check_count
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    Seat,
    SeatActions,
    SeatObservations,
)
from entity_env.wrappers.seat_wrapper import SeatWrapper

__all__ = ["SeatTimeLimit"]

_Shown = dict[str, Any]
"""The features, global features and what is visible of an observation."""


@named_arguments(SettingError)
class SeatTimeLimit(SeatWrapper):
    """Cuts games off: in step ``max_steps`` all who are still in the game are done and truncated.

    Whoever the game tells nothing in that step is cut off at what it has seen last. A seat that
    ends in the last step by itself is not truncated. One that would come back in the last step
    stays out.

    Args:
        game: The game.
        max_steps: The most steps of a game, at least 1; a step is a call of ``act``.

    Raises:
        SettingError: ``max_steps`` is not a whole number of at least 1.
    """

    def __init__(self, game: MultiPlayerEnvironment, max_steps: int) -> None:
        super().__init__(game)
        self.max_steps = check_count("max_steps of SeatTimeLimit", max_steps, error=SettingError)
        self._steps = 0
        self._last: dict[Seat, _Shown] = {}  # of those who are in the game
        self._out: set[Seat] = set()

    def reset(self) -> SeatObservations:
        """Start a game."""
        self._steps = 0
        self._last, self._out = {}, set()
        return self._noted(self.game.reset())

    def act(self, actions: SeatActions) -> SeatObservations:
        """Go on with the game."""
        self._steps += 1
        out = self._out.copy()
        told = self._noted(self.game.act(actions))
        if self._steps < self.max_steps or not isinstance(told, Mapping):
            return told
        back = out & self._last.keys()  # a life that ends in the step it begins in is none
        told = {seat: own for seat, own in told.items() if seat not in back}
        cut_off = {
            seat: replace(
                told[seat] if seat in told else Observation(**seen, reward=0.0, done=True),
                actions={},
                done=True,
                truncated=True,
            )
            for seat, seen in self._last.items()
            if seat not in back
        }
        return {**told, **cut_off}

    def is_over(self) -> bool | None:
        """Return True if the limit, or the game itself, has ended it."""
        return True if self._steps >= self.max_steps else self.game.is_over()

    def _noted(self, told: SeatObservations) -> SeatObservations:
        if isinstance(told, Mapping):  # else ``Table`` says what is wrong
            for seat, observation in told.items():
                if not isinstance(observation, Observation) or is_over(observation):
                    self._last.pop(seat, None)
                    self._out.add(seat)
                else:
                    self._last[seat] = _copied(observation)
                    self._out.discard(seat)
        return told

    def _own_state(self) -> dict[str, Any]:
        seats = list(self.game.seats())
        return {
            "steps": self._steps,
            "last": [[seats.index(seat), _plain(seen)] for seat, seen in self._last.items()],
            "out": sorted(map(seats.index, self._out)),
        }

    def _set_own_state(self, own: Mapping[str, Any]) -> None:
        seats = self.game.seats()
        self._steps = int(own["steps"])
        self._last = {seats[i]: _arrays(seen) for i, seen in own["last"]}
        self._out = {seats[i] for i in own["out"]}


def _copied(seen: Observation) -> _Shown:
    """Return a copy of an observation without actors and ids; games reuse arrays."""
    known = seen.global_features
    return _arrays(
        {
            "features": seen.features or {},
            "global_features": [] if known is None else known,
            "visible": seen.visible or {},
        }
    )


def _arrays(parts: Mapping[str, Any]) -> _Shown:
    return {
        "features": {name: np.array(own, np.float64) for name, own in parts["features"].items()},
        "global_features": np.array(parts["global_features"], np.float64),
        "visible": {name: np.array(own, np.bool_) for name, own in parts["visible"].items()},
    }


def _plain(seen: _Shown) -> _Shown:
    """Return the same as JSON values."""
    return {
        "features": {name: own.tolist() for name, own in seen["features"].items()},
        "global_features": seen["global_features"].tolist(),
        "visible": {name: own.tolist() for name, own in seen["visible"].items()},
    }
