"""Networks as one agent: each plays the seats that belong to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from entity_env import VecObs
from entity_env.agent import SpacedAgent
from entity_env.batching.ragged import ActionBuffer
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.experience.frames import asked_frames
from ppo_trainer.players.network_agent import NetworkAgent
from ragged_net import NetOutput, RaggedNet

__all__ = ["PopulationAgent", "agent_of", "owners_of_seats"]


def agent_of(
    nets: Sequence[RaggedNet],
    game: Game,
    config: TrainConfig,
    *,
    seed: int,
    greedy: bool = False,
    temperature: float = 1.0,
) -> NetworkAgent | PopulationAgent:
    """Return an agent for all rows of a game, with one network or with one for each population.

    Args:
        nets: The networks, in the order of their populations.
        game: The game.
        config: Settings, of which the precision is used.
        seed: Seed of the draws.
        greedy: True to take the most likely choices instead of drawing.
        temperature: Divisor of the logits.
    """
    agents = [
        NetworkAgent(
            net,
            seed=seed + number,
            greedy=greedy,
            temperature=temperature,
            precision=config.precision,
        )
        for number, net in enumerate(nets)
    ]
    return agents[0] if len(agents) == 1 else PopulationAgent(agents, seats=game.whole(1))


def owners_of_seats(rows: int, seats: int, size: int) -> npt.NDArray[np.int64]:
    """Return the policy of each row: seat i of a game belongs to policy i modulo ``size``.

    Args:
        rows: The number of rows R, the seats of whole games.
        seats: The number of seats of a game.
        size: The number of policies.

    Returns:
        Shape: (R,).
    """
    return np.arange(rows) % seats % size


class PopulationAgent(SpacedAgent):
    """An agent of rows in which each network plays its own seats; see ``owners_of_seats``.

    Args:
        agents: One for each population.
        seats: The number of seats of a game.
    """

    def __init__(self, agents: Sequence[NetworkAgent], seats: int) -> None:
        super().__init__(agents[0].obs_space, agents[0].action_space)
        self.agents, self.seats = agents, seats
        self._ended = np.zeros(1, np.bool_)

    def act_rows(self, obs: VecObs) -> Mapping[str, ActionBuffer]:
        """Return the actions of the rows that must act."""
        return self.output(obs).actions_for(obs)

    def output(self, obs: VecObs) -> NetOutput:
        """Return the output of each row's network for the rows that must act."""
        owner = owners_of_seats(len(obs), self.seats, len(self.agents))
        # Kept for networks whose rows do not act now; they get the ends of episodes later.
        self._ended = self._ended | obs.done
        outputs, places = list[NetOutput](), list[npt.NDArray[np.int64]]()
        for number, agent in enumerate(self.agents):
            mine = np.flatnonzero(owner[obs.rows] == number)
            if len(mine) or not obs.num_frames:
                outputs.append(agent.output(replace(asked_frames(obs, mine), done=self._ended)))
                places.append(mine)
                self._ended = self._ended & (owner != number)
        order = np.argsort(np.concatenate(places))
        return NetOutput.cat(outputs).select(torch.from_numpy(order))

    def seed(self, seed: int) -> None:
        """Seed the random numbers of each network."""
        for number, agent in enumerate(self.agents):
            agent.seed(seed + number)

    def reset(self) -> None:
        """Clear the memory of all rows."""
        self._ended = np.zeros(1, np.bool_)
        for agent in self.agents:
            agent.reset()
