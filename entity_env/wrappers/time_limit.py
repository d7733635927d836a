"""Episodes that end after a number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from entity_env.actions import Action
from entity_env.arguments import named_arguments
from entity_env.environment import Environment
from entity_env.errors import SettingError
from entity_env.observation import Observation
from entity_env.rows.vec_env import VecEnv, check_count
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.spaces import ActionName
from entity_env.wrappers.seat_time_limit import SeatTimeLimit
from entity_env.wrappers.vec_wrapper import VecWrapper
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["TimeLimit", "VecTimeLimit"]


@named_arguments(SettingError)
class TimeLimit(Wrapper):
    """Cuts episodes off: the observation after ``max_steps`` steps is done and truncated.

    An episode that ends in its last step by itself is not truncated.

    Args:
        env: The environment.
        max_steps: The most steps of an episode, at least 1.

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
        return observation if self._steps < self.max_steps else self._shown(observation)

    def _show(self, observation: Observation) -> Observation:
        if self._steps < self.max_steps or observation.done:
            return observation
        return replace(observation, done=True, truncated=True)

    def _own_state(self) -> dict[str, Any]:
        return {"steps": self._steps}

    def _set_own_state(self, own: Mapping[str, Any]) -> None:
        self._steps = int(own["steps"])


@named_arguments(SettingError)
class VecTimeLimit(VecWrapper):
    """The same for rows: each of their environments gets a ``TimeLimit`` of its own.

    Each game of several players gets a ``SeatTimeLimit``.

    It goes inside wrappers of rows that are already there, which see what it shows.

    Args:
        env: The rows, made of single environments (see ``VecEnv.wrap_each``).
        max_steps: The most steps of an episode, at least 1.

    Raises:
        SettingError: ``max_steps`` is not a whole number of at least 1, or the rows are compiled.
    """

    def __init__(self, env: VecEnv, max_steps: int) -> None:
        super().__init__(env)
        self.max_steps = check_count("max_steps of VecTimeLimit", max_steps, error=SettingError)
        env.wrap_each(partial(_limited, max_steps=self.max_steps))


def _limited(env: Any, max_steps: int) -> Any:
    """Return an environment, or a game of several players, with a limit."""
    is_game = isinstance(env, MultiPlayerEnvironment)
    return (SeatTimeLimit if is_game else TimeLimit)(env, max_steps)
