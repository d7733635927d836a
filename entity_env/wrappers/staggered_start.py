"""``StaggeredStart``, which spreads the ends of episodes over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from entity_env.actions import Action
from entity_env.batching.step_results import is_over
from entity_env.environment import Environment
from entity_env.observation import Observation
from entity_env.spaces import ActionName
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["STAGGERED", "StaggeredStart", "staggered"]

STAGGERED = "cut_off_to_stagger"
"""The metric of an episode that a ``StaggeredStart`` cut off, with the value 1."""


class StaggeredStart(Wrapper):
    """A wrapper that cuts off the first episodes at random, until one ends by itself.

    Without it, rows with episodes of a fixed length would always end them in the same step, and a
    rollout would contain only one phase of an episode. In step t an episode is cut off (done and
    truncated) with probability 1 / (t + 1). Its age after t steps is then uniform on 0 .. t, for
    any length of episodes. About ln(t) episodes are cut off.

    Args:
        env: The environment.
    """

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._begin()

    def _begin(self) -> None:
        self._steps = 0
        self._is_over = False  # an episode has ended by itself

    def seed(self, seed: int) -> None:
        """Seed the environment, and stagger it again."""
        super().seed(seed)
        self._begin()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        observation = self.env.act(actions)
        if self._is_over:
            return observation
        self._steps += 1
        if is_over(observation):
            self._is_over = True
        elif self.rng.random() * (self._steps + 1) < 1:
            return replace(observation, done=True, truncated=True, metrics={STAGGERED: 1.0})
        return observation

    def _wrapper_state(self) -> dict[str, Any]:
        return {"steps": self._steps, "is_over": self._is_over}

    def _set_wrapper_state(self, own: Mapping[str, Any]) -> None:
        self._steps, self._is_over = int(own["steps"]), bool(own["is_over"])


def staggered(create_env: Callable[[], Environment]) -> Environment:
    """Return the environment that ``create_env`` makes, in a ``StaggeredStart``."""
    env = create_env()
    # The rows report an object that is not an environment.
    return StaggeredStart(env) if isinstance(env, Environment) else env
