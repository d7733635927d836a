"""A game of several players as a padded ``pettingzoo.ParallelEnv`` with masks.

env = EntityParallelEnv(TicTacToe(), max_entities={"Player": 1, "Cell": 9}, max_actors=1)
observations, infos = env.reset(seed=0)

"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from entity_env.arguments import named_arguments
from entity_env.errors import SettingError
from entity_env.interop.padded_agents import AgentOutcome, PaddedAgents
from entity_env.interop.padding import PaddedObs

__all__ = ["EntityParallelEnv"]


@named_arguments(SettingError)
class EntityParallelEnv(PaddedAgents, ParallelEnv[str, PaddedObs, npt.NDArray[np.int64]]):  # type: ignore[misc]
    """A ``MultiPlayerEnvironment`` whose seats are agents that act at once.

    Observations, actions and masks of each agent are those of ``EntityGymnasiumEnv``. Agents have
    the names of their seats, ``str(seat)``, and exist from the beginning. An agent that waits, or
    is not in the game yet, has a mask that allows 0 only, and its actions are ignored. A seat that
    comes back after its end is another agent, such as ``a#2`` for seat ``a``, because agents of
    PettingZoo cannot come back.

    Args:
        game: The game.
        max_entities: Largest number of entities of each type, or one number for all types.
        max_actors: Largest number of actors of each action, or one number for all; None allows all
            entities to act.
        strict: True to raise an error for a choice that the mask forbids. By default the next
            allowed choice is played.
        render_mode: ``rgb_array`` makes ``render`` return the game's pictures.

    Raises:
        SettingError: A size is not valid, or ``game`` is not a game of several players.
    """

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, PaddedObs], dict[str, dict[str, Any]]]:
        """Start a game; with a seed, restart its random numbers first. There are no options."""
        self._begin(seed)
        self.agents = list(self._seat_of)
        return self._shown(self.agents, {})

    def step(self, actions: Mapping[str, Any]) -> tuple[
        dict[str, PaddedObs],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:  # fmt: skip
        """Play one step with the actions of all agents that must act."""
        if self._is_over:
            self.agents = []
            return {}, {}, {}, {}, {}
        before = self.agents
        outcomes = self._play(actions)
        concerned = [*before, *(agent for agent in outcomes if agent not in before)]
        each = {agent: outcomes.get(agent, AgentOutcome()) for agent in concerned}
        self.agents = list(self._seat_of)
        observations, infos = self._shown(concerned, each)
        return (
            observations,
            {agent: float(own.reward) for agent, own in each.items()},
            {agent: own.terminated for agent, own in each.items()},
            {agent: own.truncated for agent, own in each.items()},
            infos,
        )

    def _shown(
        self, agents: list[str], outcomes: Mapping[str, AgentOutcome]
    ) -> tuple[dict[str, PaddedObs], dict[str, dict[str, Any]]]:
        infos = {agent: self._info(agent, outcomes.get(agent)) for agent in agents}
        return {agent: self.observe(agent) for agent in agents}, infos
