"""Wrappers that end episodes and games after a number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from entity_env.actions import Action
from entity_env.arguments import named_arguments
from entity_env.batching.step_results import is_over
from entity_env.environment import Environment
from entity_env.errors import SettingError
from entity_env.multi_player import MultiPlayerEnvironment, Seat, SeatActions, SeatObservations
from entity_env.observation import Observation
from entity_env.rows.vec_env import check_count
from entity_env.spaces import ActionName
from entity_env.wrappers.wrapper import SeatWrapper, Wrapper

__all__ = ["SeatTimeLimit", "TimeLimit"]

_Shown = dict[str, Any]
"""The features, global features and visibility masks of an observation."""


@named_arguments(SettingError)
class TimeLimit(Wrapper):
    """A wrapper that cuts episodes off after ``max_steps`` steps (done and truncated).

    An episode that ends by itself in its last step is not truncated.

    Args:
        env: The environment.
        max_steps: Largest number of steps of an episode, at least 1.

    Raises:
        SettingError: ``max_steps`` is not a whole number of at least 1.
    """

    def __init__(self, env: Environment, max_steps: int) -> None:
        super().__init__(env)
        self.max_steps = check_count("max_steps of TimeLimit", max_steps, error=SettingError)
        self._steps = 0

    def reset(self) -> Observation:
        """Start an episode."""
        self._steps = 0
        return self.env.reset()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        observation = self.env.act(actions)
        self._steps += 1
        return observation if self._steps < self.max_steps else self._observe(observation)

    def observation(self, observation: Observation) -> Observation:
        """Return the observation, done and truncated if the limit is reached."""
        if self._steps < self.max_steps or observation.done:
            return observation
        return replace(observation, done=True, truncated=True)

    def _wrapper_state(self) -> dict[str, Any]:
        return {"steps": self._steps}

    def _set_wrapper_state(self, own: Mapping[str, Any]) -> None:
        self._steps = int(own["steps"])


@named_arguments(SettingError)
class SeatTimeLimit(SeatWrapper):
    """A wrapper that cuts games off after ``max_steps`` steps.

    All seats still in the game are then done and truncated. A seat without an observation in that
    step gets its last observation again. A seat that the game itself ends in the last step is done
    without being truncated. A seat cannot return to the game in the last step.

    Args:
        game: The game.
        max_steps: Largest number of steps of a game, at least 1; a step is a call of ``act``.

    Raises:
        SettingError: ``max_steps`` is not a whole number of at least 1.
    """

    def __init__(self, game: MultiPlayerEnvironment, max_steps: int) -> None:
        super().__init__(game)
        self.max_steps = check_count("max_steps of SeatTimeLimit", max_steps, error=SettingError)
        self._steps = 0
        self._last: dict[Seat, _Shown] = {}  # of the seats in the game
        self._out: set[Seat] = set()

    def reset(self) -> SeatObservations:
        """Start a game."""
        self._steps = 0
        self._last, self._out = {}, set()
        return self._noted(self.game.reset())

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play one step."""
        self._steps += 1
        out = self._out.copy()
        told = self._noted(self.game.act(actions))
        if self._steps < self.max_steps or not isinstance(told, Mapping):
            return told
        back = (
            out & self._last.keys()
        )  # an episode that begins and ends in the same step does not count
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
        """Return True if the limit or the game itself has ended the game."""
        return True if self._steps >= self.max_steps else self.game.is_over()

    def _noted(self, told: SeatObservations) -> SeatObservations:
        if isinstance(told, Mapping):  # else ``Table`` raises the error
            for seat, observation in told.items():
                if not isinstance(observation, Observation) or is_over(observation):
                    self._last.pop(seat, None)
                    self._out.add(seat)
                else:
                    self._last[seat] = _copied(observation)
                    self._out.discard(seat)
        return told

    def _wrapper_state(self) -> dict[str, Any]:
        seats = list(self.game.seats())
        return {
            "steps": self._steps,
            "last": [[seats.index(seat), _plain(seen)] for seat, seen in self._last.items()],
            "out": sorted(map(seats.index, self._out)),
        }

    def _set_wrapper_state(self, own: Mapping[str, Any]) -> None:
        seats = self.game.seats()
        self._steps = int(own["steps"])
        self._last = {seats[i]: _arrays(seen) for i, seen in own["last"]}
        self._out = {seats[i] for i in own["out"]}


def _copied(seen: Observation) -> _Shown:
    """Return a copy of an observation without actors and ids, because games reuse arrays."""
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
    """Return the parts of an observation as JSON values."""
    return {
        "features": {name: own.tolist() for name, own in seen["features"].items()},
        "global_features": seen["global_features"].tolist(),
        "visible": {name: own.tolist() for name, own in seen["visible"].items()},
    }
