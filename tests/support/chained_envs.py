"""A tiny game that needs one action to depend on what another one has become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env import (
    Action,
    ActionSpace,
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

__all__ = ["CallAndTouch"]


class CallAndTouch(Environment):
    """Call a colour and touch the ball of that colour, but never the same colour twice in a row.

    Entities: ``Player`` without features, and one ``Ball`` (colour) of each of 4 colours, shuffled.
    Actions: ``Call``: the player calls one of 4 colours. ``Touch``: it selects a ball.
    Reward: 1 where the touched ball has the called colour and the last call was another one. The
        last call is not shown; before the first one it is drawn.
    End: after 8 steps.
    Best return: who calls evenly and touches what is called is only stopped by the last call:
        8 * 3/4 = 6, the most without memory, for the sum of p (1 - p) is largest where p is even.
        Heads that choose independently touch the called colour i with p(i) q(i), and get at most
        max p (1 - p) = 1/4 a step, and more only in the first, where p (3/4) is had: with
        p = 0.554 it is 0.554 * 3/4 + 7 * 0.247 = 2.15, 36% of the best.
    """

    STEPS = 8
    COLOURS = 4
    best_return = 6.0

    def obs_space(self) -> ObsSpace:
        """A player and balls."""
        balls = Entity([Discrete("colour", self.COLOURS)])
        return ObsSpace([], {"Player": Entity([]), "Ball": balls})

    def action_space(self) -> Mapping[str, ActionSpace]:
        """The call and the touch."""
        colours = ["red", "green", "blue", "white"]
        return {"Touch": SelectEntityActionSpace(), "Call": CategoricalActionSpace(colours)}

    def reset(self) -> Observation:
        """Start."""
        self.steps, self.last = 0, int(self.rng.integers(self.COLOURS))
        return self._observe(0.0)

    def act(self, actions: Mapping[str, Action]) -> Observation:
        """Compare the call with the touch, and with the last call."""
        call, touch = actions["Call"], actions["Touch"]
        assert isinstance(call, CategoricalAction)
        assert isinstance(touch, SelectEntityAction)
        called, touched = int(call.indices[0]), touch.actees[0]
        reward = float(touched == ("ball", called) and called != self.last)
        self.steps, self.last = self.steps + 1, called
        return self._observe(reward)

    def _observe(self, reward: float) -> Observation:
        colours = self.rng.permutation(self.COLOURS)
        ids: list[Any] = [("ball", int(colour)) for colour in colours]
        return Observation(
            entities={"Player": (np.zeros((1, 0)), ["player"]), "Ball": (colours[:, None], ids)},
            actions={
                "Call": CategoricalActionMask(actor_types=["Player"]),
                "Touch": SelectEntityActionMask(actor_types=["Player"], actee_types=["Ball"]),
            },
            reward=reward,
            done=self.steps == self.STEPS,
        )
