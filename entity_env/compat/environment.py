"""A single environment with additional methods of Entity Gym."""

from __future__ import annotations

from collections.abc import Mapping

import entity_env.environment
from entity_env.actions import Action
from entity_env.batching.frame_reader import FrameReader
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ObsSpace
from entity_env.wrappers.feature_filter import FeatureFilter
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["Environment", "ValidatingEnv"]


class Environment(entity_env.environment.Environment):
    """An environment that can leave parts of its observations out."""

    def reset_filter(self, obs_filter: ObsSpace) -> Observation:
        """Start an episode, and show only what is in ``obs_filter``."""
        return self._filter_obs(self.reset(), obs_filter)

    def act_filter(self, actions: Mapping[ActionName, Action], obs_filter: ObsSpace) -> Observation:
        """Play one step, and show only what is in ``obs_filter``."""
        return self._filter_obs(self.act(actions), obs_filter)

    def _filter_obs(self, obs: Observation, obs_filter: ObsSpace) -> Observation:
        is_whole = obs_filter == self.obs_space()
        return obs if is_whole else FeatureFilter(self, obs_filter)._shown(obs)


class ValidatingEnv(Wrapper, Environment):
    """A wrapper that checks observations, but not actions; see ``wrappers.Validate``.

    Args:
        env: The environment.
    """

    def __init__(self, env: entity_env.environment.Environment) -> None:
        super().__init__(env)
        self._reader = FrameReader(env.obs_space(), env.action_space())

    def _shown(self, observation: Observation) -> Observation:
        self._reader.read(observation)
        return observation
