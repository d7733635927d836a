"""A game of several players as a ``pettingzoo.AECEnv``, whose agents act one after the other.

env = EntityAECEnv(TicTacToe(), max_entities={"Player": 1, "Cell": 9}, max_actors=1)
env.reset(seed=0)
for agent in env.agent_iter():
    observation, reward, terminated, truncated, info = env.last()
    ...

"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pettingzoo.utils.conversions import parallel_to_aec_wrapper

from entity_env.errors import ResetNeededError, SeatError
from entity_env.interop.entity_parallel_env import EntityParallelEnv
from entity_env.seats.seat_rows import MOST_IDLE_STEPS

__all__ = ["EntityAECEnv"]


class EntityAECEnv(parallel_to_aec_wrapper):  # type: ignore[misc]
    """A ``MultiPlayerEnvironment`` whose seats are agents that act in turn.

    It is PettingZoo's conversion of an ``EntityParallelEnv``, without the turns of agents that
    wait. If several seats must act in a step, their agents choose one after the other, without
    seeing each other's choices, and the game continues when all of them have chosen. Use
    ``EntityParallelEnv`` for agents that act at once, because ``aec_to_parallel`` cannot convert
    games in which agents wait.

    Args:
        *arguments: The arguments of ``EntityParallelEnv``.
        **options: Its named arguments.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.env: EntityParallelEnv
        super().__init__(EntityParallelEnv(*arguments, **options))
        self.metadata["is_parallelizable"] = False
        self.agents: list[str] = []

    @property
    def possible_agents(self) -> list[str]:
        """The names of all seats, and of the agents that came back so far."""
        return self.env.possible_agents

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a game; with a seed, restart its random numbers first. There are no options."""
        super().reset(seed, options)
        self._set_rewards({}, self._skip_waiting())

    def step(self, action: Any) -> None:
        """Play the choice of the selected agent, or None if the agent is out.

        Raises:
            ResetNeededError: The game is over for all agents.
        """
        if not self.agents:
            raise ResetNeededError("no game is running", hint="call reset() first")
        unpaid = {**self._cumulative_rewards, self.agent_selection: 0.0}
        paid = self._step(action)
        for agent, reward in self._skip_waiting().items():
            paid[agent] = paid.get(agent, 0.0) + reward
        self._set_rewards(unpaid, paid)

    def _skip_waiting(self) -> dict[str, float]:
        """Pass over agents that wait until an agent must act or is out; return the rewards."""
        nothing = np.zeros(len(self.env.action_space(self.env.possible_agents[0]).nvec), np.int64)
        paid = dict[str, float]()
        for _ in range(MOST_IDLE_STEPS):
            agent = self.agent_selection
            if not self.agents or agent in self.env.acting or self._is_out(agent):
                return paid
            for other, reward in self._step(nothing).items():
                paid[other] = paid.get(other, 0.0) + reward
        raise SeatError(f"no seat had to act in {MOST_IDLE_STEPS:,} steps")

    def _step(self, action: Any) -> dict[str, float]:
        """Let the selected agent act; return the rewards if the game has played a step."""
        before = self._cumulative_rewards
        super().step(action)
        return {} if self._cumulative_rewards is before else dict(self.rewards)

    def _set_rewards(self, unpaid: Mapping[str, float], paid: Mapping[str, float]) -> None:
        """Set the rewards of this turn, and those of each agent since its last turn."""
        self.rewards = {agent: paid.get(agent, 0.0) for agent in self.agents}
        self._cumulative_rewards = {
            agent: unpaid.get(agent, 0.0) + reward for agent, reward in self.rewards.items()
        }

    def _is_out(self, agent: str) -> bool:
        return bool(self.terminations[agent] or self.truncations[agent])
