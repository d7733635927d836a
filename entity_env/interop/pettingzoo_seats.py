"""One seat at a PettingZoo environment: the others move, until it is the seat's turn again.

``PettingZooEnv`` sees a game of one player. What agents that take turns are paid is counted here
for ``PettingZooGame``, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pettingzoo import AECEnv, ParallelEnv

from entity_env.errors import ObservationError, shorten

__all__ = ["KINDS", "ParallelSeat", "Seat", "Turn", "TurnSeat", "UnpaidRewards", "take_seat"]

KINDS = (AECEnv, ParallelEnv)
"""Agents take turns, or all move at once."""

Move: TypeAlias = Callable[[Any, Any, Mapping[str, Any]], Any]
"""From (agent, observation, info) to an action: how the others play."""


@dataclass(frozen=True)
class Turn:
    """The news for a seat that may move again, or whose game is over.

    Args:
        observation: As the environment gives it.
        reward: The sum since the seat's last action.
        terminated: The game is over for the seat.
        truncated: A limit ended it.
        info: The seat's own.
    """

    observation: Any
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)


class Seat(ABC):
    """A place in a game.

    Args:
        env: The environment.
        agent: Whose place it is.
        move: Acts for all others.
    """

    def __init__(self, env: Any, agent: Any, move: Move) -> None:
        self.env, self.agent, self._move = env, agent, move
        self._last: Any = None

    @abstractmethod
    def reset(self, seed: int | None) -> Turn:
        """Start a game, and play to the seat's first turn."""

    @abstractmethod
    def step(self, action: Any) -> Turn:
        """Move, and play to the seat's next turn."""

    def _gone(self, reward: float) -> Turn:
        """Return the seat left the game without another word; it saw its last observation."""
        return Turn(self._last, reward, terminated=True)


class ParallelSeat(Seat):
    """A seat where all agents move at once."""

    def reset(self, seed: int | None) -> Turn:
        """Start a game."""
        self._seen, self._infos = self.env.reset(seed=seed)
        if self.agent not in self._seen:
            raise _absent(self.agent, self._seen)
        self._last = self._seen[self.agent]
        return Turn(self._last, info=self._infos.get(self.agent, {}))

    def step(self, action: Any) -> Turn:
        """Move together with the others."""
        actions = {self.agent: action}
        for agent in self.env.agents:
            if agent != self.agent:
                info = self._infos.get(agent, {})
                actions[agent] = self._move(agent, self._seen[agent], info)
        self._seen, rewards, terminated, truncated, self._infos = self.env.step(actions)
        agent = self.agent
        self._last = self._seen.get(agent, self._last)
        turn = Turn(
            self._last,
            rewards.get(agent, 0.0),
            bool(terminated.get(agent, False)),
            bool(truncated.get(agent, False)),
            self._infos.get(agent, {}),
        )
        if turn.terminated or turn.truncated or agent in self.env.agents:
            return turn
        return self._gone(turn.reward)


class UnpaidRewards:
    """The rewards of agents that take turns since the last turn of each.

    At its turn an agent is paid what ``last()`` returns. One that leaves without another turn is
    paid what ``last()`` would have returned, and what the step in which it left paid it.

    Args:
        env: The environment, just reset.
    """

    def __init__(self, env: AECEnv[Any, Any, Any]) -> None:
        self._env = env
        self._unpaid: dict[Any, float] = {}
        self._gone: dict[Any, float] = {}
        self._note()

    def step(self, action: Any) -> None:
        """Step the environment with the action of the agent whose turn it is."""
        self._unpaid[self._env.agent_selection] = 0.0
        self._env.step(action)
        self._note()

    def of_gone(self, agent: Any) -> float:
        """Return what an agent is paid that is gone."""
        return self._gone[agent] if agent in self._gone else self._unpaid.get(agent, 0.0)

    def _note(self) -> None:
        sums = self._env._cumulative_rewards
        for agent in self._unpaid.keys() - sums.keys():
            self._gone[agent] = self._unpaid[agent] + float(self._env.rewards.get(agent, 0.0))
        self._unpaid = {agent: float(reward) for agent, reward in sums.items()}


class TurnSeat(Seat):
    """A seat where agents move one after the other."""

    _MOST_STARTS = 100
    """Games in a row that may be over before the seat's first turn."""

    def reset(self, seed: int | None) -> Turn:
        """Start a game; one that the others end before the seat's first turn does not count."""
        for _ in range(self._MOST_STARTS):
            self.env.reset(seed=seed)
            if self.agent not in self.env.agents:
                raise _absent(self.agent, self.env.agents)
            self._rewards = UnpaidRewards(self.env)
            turn, seed = self._play_on(), None
            if not (turn.terminated or turn.truncated):
                return turn
        raise ObservationError(
            f"agent {self.agent!r} gets no turn: {self._MOST_STARTS} games were over before",
            hint="choose another seat",
        )

    def step(self, action: Any) -> Turn:
        """Move, and let the others move."""
        self._rewards.step(action)
        return self._play_on()

    def _play_on(self) -> Turn:
        env = self.env
        while self.agent in env.agents:
            agent = env.agent_selection
            observation, sum_since, terminated, truncated, info = env.last()
            if agent == self.agent:
                self._last = observation
                return Turn(observation, sum_since, bool(terminated), bool(truncated), info)
            over = terminated or truncated  # who is out must still be stepped, with None
            self._rewards.step(None if over else self._move(agent, observation, info))
        return self._gone(self._rewards.of_gone(self.agent))


def take_seat(env: Any, agent: Any, move: Move) -> Seat:
    """Return the seat of ``agent``, whose environment is of one kind or the other."""
    kind = ParallelSeat if isinstance(env, ParallelEnv) else TurnSeat
    return kind(env, agent, move)


def _absent(agent: Any, agents: Any) -> ObservationError:
    return ObservationError(
        f"agent {agent!r} takes no part in a new episode",
        expected="a seat that is there from the first step",
        received=shorten(list(agents)),
    )
