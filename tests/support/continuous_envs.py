"""Tiny environments in which numbers are set, with a known best return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env import (
    Action,
    ActionSpace,
    ContinuousAction,
    ContinuousActionMask,
    ContinuousActionSpace,
    Entity,
    Environment,
    GlobalContinuousAction,
    GlobalContinuousActionMask,
    GlobalContinuousActionSpace,
    Observation,
    ObsSpace,
)

__all__ = ["Aim"]


class Aim(Environment):
    """Each gun, and the player, hits its goal with a number.

    Entities: ``Gun`` (goal), 0 to 3 of them, and ``Rock`` (size), 0 to 2, which do nothing.
    Actions: ``Angle``: each gun sets a number from -2 to 2, best its own goal. ``Wind``, global:
        two numbers, from 0 to 10 and without bounds, best 5 + 5 times the first global feature, and
        the second one.
    Reward: 1 minus the mean distance of all numbers from their best, that of the first number of
        ``Wind`` divided by 5.
    End: after 3 steps.
    Best return: 3. Whoever sets the middle of each range, and 0, gets 3 - 3/2 = 1.5: goals lie
        evenly in -1 to 1, and so do both features.
    """

    STEPS = 3
    best_return = 3.0

    def obs_space(self) -> ObsSpace:
        """Guns, rocks and two global features."""
        return ObsSpace(["wind", "shift"], {"Gun": Entity(["goal"]), "Rock": Entity(["size"])})

    def action_space(self) -> Mapping[str, ActionSpace]:
        """One action of guns, one of the player."""
        return {
            "Angle": ContinuousActionSpace(-2, 2),
            "Wind": GlobalContinuousActionSpace([0, None], [10, None]),
        }

    def reset(self) -> Observation:
        """Start."""
        self.steps = 0
        return self._observe(0.0)

    def act(self, actions: Mapping[str, Action]) -> Observation:
        """Measure how far off the numbers were."""
        angle, wind = actions["Angle"], actions["Wind"]
        assert isinstance(angle, ContinuousAction)
        assert isinstance(wind, GlobalContinuousAction)
        assert tuple(angle.actors) == self.names
        off = np.abs(angle.values[:, 0] - self.goals)
        own = np.abs(wind.values - [5 + 5 * self.wind[0], self.wind[1]]) / [5, 1]
        self.steps += 1
        return self._observe(1 - float(np.concatenate([off, own]).mean()))

    def get_state(self) -> Any:
        """All there is."""
        return [self.steps, self.goals.tolist(), self.wind.tolist(), self.rocks]

    def set_state(self, state: Any) -> Observation:
        """Go on from there."""
        self.steps, goals, wind, self.rocks = state
        self.goals, self.wind = np.array(goals, np.float64), np.array(wind)
        return self._shown(0.0)

    def _observe(self, reward: float) -> Observation:
        guns, self.rocks = int(self.rng.integers(4)), int(self.rng.integers(3))
        self.goals, self.wind = self.rng.uniform(-1, 1, guns), self.rng.uniform(-1, 1, 2)
        return self._shown(reward)

    def _shown(self, reward: float) -> Observation:
        self.names = tuple(("gun", i) for i in range(len(self.goals)))
        return Observation(
            entities={
                "Gun": (self.goals[:, None].copy(), self.names),
                "Rock": np.ones((self.rocks, 1)),
            },
            global_features=self.wind.copy(),
            actions={
                "Angle": ContinuousActionMask(actor_types=["Gun"]),
                "Wind": GlobalContinuousActionMask(),
            },
            reward=reward,
            done=self.steps == self.STEPS,
        )
