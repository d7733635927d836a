"""Wrapper that adds rewards and lengths of episodes, with the names of Entity Gym."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import RaggedBufferI64
from entity_env.compat.rows import VecEnv
from entity_env.compat.vec_obs import Metric, VecObs
from entity_env.errors import SettingError, shorten
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["AddMetricsWrapper"]


class AddMetricsWrapper(VecEnv):
    """A wrapper that adds ``episodic_reward``, ``episode_length``, ``reward`` and ``step``.

    The observation of ``reset`` counts as a step, as in Entity Gym.

    Args:
        env: The environments.
        filter: True for environments whose episodes are counted; None counts all. Shape: (B,).
    """

    def __init__(self, env: VecEnv, filter: npt.NDArray[np.bool_] | None = None) -> None:
        if not isinstance(env, VecEnv):
            raise SettingError(
                "AddMetricsWrapper needs a VecEnv",
                expected="an EnvList, a ParallelEnvList or another entity_env.compat.VecEnv",
                received=shorten(env),
                hint="entity_env.VecEnv counts episodes by itself: VecObs.metrics",
            )
        self.env = env
        self.total_reward = np.zeros(len(env), np.float32)
        self.total_steps = np.zeros(len(env), np.int64)
        self.filter = np.ones(len(env), np.bool_) if filter is None else np.asarray(filter)

    def reset(self, obs_config: ObsSpace) -> VecObs:
        """Start an episode in each."""
        return self.track_metrics(self.env.reset(obs_config))

    def act(self, actions: Mapping[ActionName, RaggedBufferI64], obs_filter: ObsSpace) -> VecObs:
        """Play one step."""
        return self.track_metrics(self.env.act(actions, obs_filter))

    def track_metrics(self, obs: VecObs) -> VecObs:
        """Count a step, and add its metrics."""
        self.total_reward += obs.reward
        self.total_steps += 1
        obs.metrics["step"] = _metric_of(self.total_steps)
        ended = obs.done & self.filter
        obs.metrics["episodic_reward"] = _metric_of(self.total_reward[ended])
        obs.metrics["episode_length"] = _metric_of(self.total_steps[ended])
        obs.metrics["reward"] = _metric_of(obs.reward)
        self.total_reward[ended] = 0.0
        self.total_steps[ended] = 0
        return obs

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self.env.obs_space()

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        return self.env.action_space()

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the pictures of all environments."""
        return self.env.render(**kwargs)

    def __len__(self) -> int:
        """Return the number of environments."""
        return len(self.env)

    def close(self) -> None:
        """Close the environments."""
        self.env.close()


def _metric_of(values: npt.NDArray[Any]) -> Metric:
    if len(values) == 0:
        return Metric()
    return Metric(len(values), float(values.sum()), float(values.min()), float(values.max()))
