"""A function from an observation to actions as an agent."""

from __future__ import annotations

from collections.abc import Mapping

from entity_env.actions import Action
from entity_env.agent import SpacedAgent
from entity_env.batching.action_checks import check_actions
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.unbatch import batched_actions, observations_of
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import SettingError, shorten
from entity_env.observation import Observation
from entity_env.player.episodes import Policy
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["ObservationAgent", "ScriptedAgent"]


class ObservationAgent(SpacedAgent):
    """An agent that plays one observation at a time; a subclass writes ``act``.

    In rows it is asked for one frame after the other. The ids that it sees there are those of
    ``observations_of``: the type of an entity, and its place among those of its type.
    """

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """What to do in one observation."""
        raise NotImplementedError

    def act_rows(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """What to do in each frame.

        Raises:
            EntityEnvError: An action is missing, or cannot be taken.
        """
        shown = observations_of(obs, self.obs_space, self.action_space)
        actions = [self.act(observation) for observation in shown]
        chosen = batched_actions(actions, shown, obs, self.obs_space, self.action_space)
        return check_actions(chosen, obs, self.action_space)


class ScriptedAgent(ObservationAgent):
    """Plays by a function from an observation to actions.

    Args:
        policy: The function. What it remembers is its own.
        obs_space: What it sees.
        action_space: What it can do.

    Raises:
        SettingError: It cannot be called.
    """

    def __init__(
        self, policy: Policy, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]
    ) -> None:
        super().__init__(obs_space, action_space)
        if not callable(policy):
            raise SettingError(
                "a script cannot be called",
                expected="a function from an observation to actions",
                received=shorten(policy),
            )
        self.policy = policy

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """What the function says."""
        return self.policy(observation)
