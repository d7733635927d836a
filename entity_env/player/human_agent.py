"""A person at the terminal as an agent."""

from __future__ import annotations

from collections.abc import Mapping

from entity_env.actions import Action
from entity_env.agent import ObservationAgent, RandomAgent
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.vec_obs import batch_frames
from entity_env.drawing import entity_table
from entity_env.kinds.table import typed_actions
from entity_env.observation import Observation
from entity_env.player.terminal import Asker
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["HumanAgent"]


class HumanAgent(ObservationAgent):
    """An agent that shows observations in the terminal and asks for actions.

    Enter takes a random allowed choice, ``q`` raises ``QuitError``.

    Args:
        obs_space: The observation space.
        action_space: The action space.
        seed: Seed of the random choices.
    """

    def __init__(
        self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace], seed: int = 0
    ) -> None:
        super().__init__(obs_space, action_space)
        self._frames = FrameReader(obs_space, action_space)
        self._asker = Asker(obs_space, self._frames.action_space, auto=False)
        self._random = RandomAgent(obs_space, action_space, seed)

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """Return the typed actions."""
        frame = self._frames.read(observation)
        print(f"\n{entity_table(frame, self.obs_space)}")
        obs = batch_frames([frame], self.obs_space, self.action_space)
        chosen = self._asker.choose(frame, self._random.decide(obs))
        return typed_actions(frame, chosen, self.action_space)
