"""A game of several players as a ``pettingzoo.AECEnv``, whose agents act one after the other.

env = EntityAECEnv(TicTacToe(), max_entities={"Player": 1, "Cell": 9}, max_actors=1)
env.reset(seed=0)
for agent in env.agent_iter():
    observation, reward, terminated, truncated, info = env.last()
    ...

"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pettingzoo import AECEnv

from entity_env.arguments import named_arguments
from entity_env.errors import ResetNeededError, SeatError, SettingError
from entity_env.interop.padded_agents import AgentOutcome, PaddedAgents
from entity_env.interop.padding import PaddedObs
from entity_env.seats.seat_rows import MOST_IDLE_STEPS

__all__ = ["EntityAECEnv"]


@named_arguments(SettingError)
class EntityAECEnv(PaddedAgents, AECEnv[str, PaddedObs, npt.NDArray[np.int64]]):  # type: ignore[misc]
    """A ``MultiPlayerEnvironment`` whose seats are agents that act in turn.

    If several seats must act in a step, their agents choose one after the other, without seeing
    each other's choices, and the game continues when all of them have chosen. Otherwise it is like
    ``EntityParallelEnv``. Use ``EntityParallelEnv`` for agents that act at once, because
    ``aec_to_parallel`` cannot convert games in which agents wait.

    Args:
        game: The game.
        max_entities: See ``EntityParallelEnv``, which has the same arguments.
    """

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a game; with a seed, restart its random numbers first. There are no options."""
        self._begin(seed)
        self._chosen: dict[str, Any] = {}
        self.agents = []
        self.rewards: dict[str, float] = {}
        self._cumulative_rewards: dict[str, float] = {}
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self.infos: dict[str, dict[str, Any]] = {}
        for agent in self._seat_of:
            self._enter(agent)
        self._skip_agent_selection = None
        self._go_on()

    def step(self, action: Any) -> None:
        """Play the choice of the selected agent, or None if the agent is out.

        Raises:
            ResetNeededError: The game is over for all agents.
        """
        if not self.agents:
            raise ResetNeededError("no game is running", hint="call reset() first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            self._select()
            return
        self._cumulative_rewards[agent] = 0
        self._clear_rewards()
        self._chosen[agent] = action
        if set(self._chosen) == set(self._asked):
            self._play_on()
            self._go_on()
        self._accumulate_rewards()
        self._select()

    def _go_on(self) -> None:
        """Play until an agent must act or is out."""
        for _ in range(MOST_IDLE_STEPS):
            is_out = any(self.terminations.values()) or any(self.truncations.values())
            if self._asked or self._is_over or is_out:
                self._select()
                return
            self._play_on()
        raise SeatError(f"no seat had to act in {MOST_IDLE_STEPS:,} steps")

    def _play_on(self) -> None:
        """Play one step of the game."""
        chosen, self._chosen = self._chosen, {}
        for agent, outcome in self._play(chosen).items():
            if agent not in self.agents:
                self._enter(agent)
            self._note(agent, outcome)
        for agent in self.agents:
            if not (self.terminations[agent] or self.truncations[agent]):
                self.infos[agent] = {**self._info(agent)}

    def _enter(self, agent: str) -> None:
        self.agents.append(agent)
        self.rewards[agent] = self._cumulative_rewards[agent] = 0
        self.terminations[agent] = self.truncations[agent] = False
        self.infos[agent] = self._info(agent)

    def _note(self, agent: str, outcome: AgentOutcome) -> None:
        self.rewards[agent] += float(outcome.reward)
        self.terminations[agent], self.truncations[agent] = outcome.terminated, outcome.truncated
        self.infos[agent] = self._info(agent, outcome)

    def _select(self) -> None:
        """Select the next agent: one that is out, or else one that has not chosen."""
        out = [own for own in self.agents if self.terminations[own] or self.truncations[own]]
        if not out and self.agents and not self._asked and not self._is_over:
            self._clear_rewards()
            self._go_on()
            self._accumulate_rewards()
            return
        waiting = [own for own in self._asked if own not in self._chosen]
        order = out or waiting
        if order:
            self.agent_selection = order[0]
