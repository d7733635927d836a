"""A wrapper that keeps the returns and lengths of the last episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from entity_env.actions import Action
from entity_env.arguments import named_arguments
from entity_env.batching.step_results import read_reward
from entity_env.environment import Environment
from entity_env.errors import SettingError
from entity_env.observation import Observation
from entity_env.rows.vec_env import check_count
from entity_env.spaces import ActionName
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["EpisodeStatistics"]


@named_arguments(SettingError)
class EpisodeStatistics(Wrapper):
    """A wrapper that keeps the returns and lengths of the last episodes that ended.

    A ``VecEnv`` gives these as metrics; use this wrapper in your own loop over an environment.

    Args:
        env: The environment.
        window: Number of episodes that are kept.

    Attributes:
        returns: The sum of rewards of each episode, the latest last.
        lengths: The number of steps of each episode.

    Raises:
        SettingError: ``window`` is not a whole number of at least 1.
    """

    def __init__(self, env: Environment, window: int = 100) -> None:
        super().__init__(env)
        size = check_count("window of EpisodeStatistics", window, error=SettingError)
        self.returns: deque[float] = deque(maxlen=size)
        self.lengths: deque[int] = deque(maxlen=size)
        self._return, self._length = 0.0, 0

    def reset(self) -> Observation:
        """Start an episode; drop the one before if it has not ended."""
        self._return, self._length = 0.0, 0
        return super().reset()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        observation = super().act(actions)
        if isinstance(observation, Observation):
            self._return += read_reward(observation.reward)
            self._length += 1
            if observation.done:
                self.returns.append(self._return)
                self.lengths.append(self._length)
                self._return, self._length = 0.0, 0
        return observation

    def _wrapper_state(self) -> dict[str, Any]:
        return {
            "return": self._return,
            "length": self._length,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
        }

    def _set_wrapper_state(self, own: Mapping[str, Any]) -> None:
        self._return, self._length = float(own["return"]), int(own["length"])
        self.returns = deque(map(float, own["returns"]), self.returns.maxlen)
        self.lengths = deque(map(int, own["lengths"]), self.lengths.maxlen)
