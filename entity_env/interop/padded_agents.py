"""The common part of ``EntityAECEnv`` and ``EntityParallelEnv``.

Agents of PettingZoo cannot come back after their end. A seat that comes back is therefore another
agent: seat ``a`` is the agents ``a``, ``a#2``, ``a#3`` and so on, one for each of its lives.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from entity_env.batching.frame import Frame
from entity_env.environment import check_seed
from entity_env.errors import (
    EntityEnvError,
    SeatError,
    SettingError,
    check_known,
    shorten,
    unknown_name,
)
from entity_env.interop.padded_spaces import Room, check_render_mode
from entity_env.interop.padding import FramePadding, PaddedFrames, PaddedObs
from entity_env.observation import Observation
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.seats.table import Table, Told

__all__ = ["AgentOutcome", "PaddedAgents"]


@dataclass(frozen=True)
class AgentOutcome:
    """The result of a step for one agent.

    Args:
        reward: The reward of the agent.
        terminated: True if the game is over for the agent.
        truncated: True if a limit ended it.
        metrics: Metrics that the game gave for the agent.
    """

    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    metrics: Mapping[str, float] | None = None


class PaddedAgents:
    """Base of ``EntityAECEnv`` and ``EntityParallelEnv``, with the seats of a game as agents.

    All seats are agents from the beginning. An agent that is not in the game yet, or that waits,
    has no choices, and observes its last observation or, before the first one, zeros.

    Args:
        game: The game.
        max_entities: See ``EntityParallelEnv``, which has the same arguments.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment,
        max_entities: Room,
        max_actors: Room | None = None,
        *,
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(game, MultiPlayerEnvironment):
            raise SettingError(
                "not a game of several players",
                expected="a MultiPlayerEnvironment, such as TicTacToe()",
                received=shorten(game),
            )
        self.game = game
        self.strict = strict
        self.render_mode = check_render_mode(render_mode)
        self.metadata = {
            "name": f"{type(game).__name__.lower()}_v0",
            "render_modes": ["rgb_array"],
            "is_parallelizable": isinstance(self, ParallelEnv),
        }
        self.agents: list[str] = []
        self._closed = False
        self._table = Table(game)
        self._padding = FramePadding(game, max_entities, max_actors)
        self._names = [str(seat) for seat in self._table.seats]
        if len(set(self._names)) < len(self._names):
            raise SettingError("two seats have the same name as agents", received=self._names)
        nothing = Observation(
            features={},
            global_features=[0.0] * len(game.obs_space().global_names),
            reward=0.0,
            done=False,
        )
        self._blank = self._padding.read(nothing)
        self._born = list(self._names)  # all names used so far
        self._seat_of: dict[str, int] = {}  # of each agent in the game
        self._agent_of: dict[int, str] = {}
        self._lives: list[int] = []
        self._asked: list[str] = []  # the agents that must choose now, in the order of their seats
        self._is_over = True
        self._frames: dict[str, Frame] = {}
        self._padded: dict[str, PaddedFrames] = {}
        self._spaces: dict[str, tuple[Any, Any]] = {}

    @property
    def possible_agents(self) -> list[str]:
        """The names of all seats, and of the agents for their later lives so far."""
        return list(self._born)

    def observation_space(self, agent: str) -> Any:
        """Return the observation space; a separate object for each agent."""
        return self._spaces_of(agent)[0]

    def action_space(self, agent: str) -> Any:
        """Return the action space; a separate object for each agent."""
        return self._spaces_of(agent)[1]

    def observe(self, agent: str) -> PaddedObs:
        """Return the observation of an agent in new arrays, even after its end."""
        return {name: array[0].copy() for name, array in self._pad(agent).arrays.items()}

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return the game's picture, with the render mode ``rgb_array``."""
        return self.game.render() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the game; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self.game.close()

    def _begin(self, seed: int | None) -> None:
        """Start a game; with a seed, restart its random numbers first."""
        if seed is not None:
            self.game.seed(check_seed(seed))
        self._agent_of = dict(enumerate(self._names))
        self._seat_of = {name: i for i, name in enumerate(self._names)}
        self._lives = [1] * len(self._names)
        self._frames = dict.fromkeys(self._names, self._blank)
        self._padded, self._asked = {}, []
        self._told(self._table.reset())
        self._is_over = False

    def _play(self, actions: Mapping[str, Any]) -> dict[str, AgentOutcome]:
        """Play one step, and return the outcome of each agent with a result.

        Args:
            actions: The numbers of the agents that must act; those of waiting agents are ignored.

        Raises:
            SeatError: An agent that must act does not, or an agent is not in the game.
        """
        self._check_agents(actions)
        taken = {}
        for agent in self._asked:
            try:
                taken[self._seat_of[agent]] = self._padding.choose(
                    actions[agent], self._frames[agent], self._pad(agent), strict=self.strict
                )
            except EntityEnvError as error:
                raise error.located(f"agent {agent!r}") from error.__cause__
        for agent in self._asked:  # a waiting agent has no choices
            self._show(agent, replace(self._frames[agent], actions={}))
        self._asked = []
        outcomes = self._told(self._table.act(taken))
        if self._table.is_over:
            self._is_over = True
            for agent in [own for own in self._seat_of if own not in outcomes]:
                outcomes[agent] = AgentOutcome(terminated=True)
        for agent, outcome in outcomes.items():
            if outcome.terminated or outcome.truncated:
                self._agent_of.pop(self._seat_of.pop(agent), None)
        self._asked = [agent for agent in self._asked if agent in self._seat_of]
        return outcomes

    def _info(self, agent: str, outcome: AgentOutcome | None = None) -> dict[str, Any]:
        """Return the ``action_mask`` of an agent, and its metrics."""
        info = self._padding.info(self._pad(agent))
        if outcome is not None and outcome.metrics:
            info["metrics"] = dict(outcome.metrics)
        return info

    def _spaces_of(self, agent: str) -> tuple[Any, Any]:
        if agent not in self._spaces:
            own = self._padding.spaces
            self._spaces[agent] = copy.deepcopy((own.observation_space, own.action_space))
        return self._spaces[agent]

    def _told(self, told: Told) -> dict[str, AgentOutcome]:
        """Store the observations of seats, and the agents that must act."""
        outcomes, asked = {}, set(self._asked)
        for seat, observation in told.items():
            frame = self._padding.read(observation, f"seat {self._table.seats[seat]!r}")
            agent = self._agent_of.get(seat) or self._next_life(seat)
            self._show(agent, frame)
            asked.discard(agent)
            if frame.asks:
                asked.add(agent)
            ended = frame.done and not frame.truncated
            outcomes[agent] = AgentOutcome(frame.reward, ended, frame.truncated, frame.metrics)
        self._asked = sorted(asked, key=self._seat_of.__getitem__)
        return outcomes

    def _next_life(self, seat: int) -> str:
        self._lives[seat] += 1
        agent = f"{self._names[seat]}#{self._lives[seat]}"
        if agent not in self._born:
            self._born.append(agent)
        self._agent_of[seat], self._seat_of[agent] = agent, seat
        return agent

    def _show(self, agent: str, frame: Frame) -> None:
        self._frames[agent] = frame
        self._padded.pop(agent, None)

    def _pad(self, agent: str) -> PaddedFrames:
        if agent not in self._frames:
            raise unknown_name(
                SeatError, f"agent {shorten(agent)} is not in this game", agent, self._frames
            )
        if agent not in self._padded:
            try:
                self._padded[agent] = self._padding.pad(self._frames[agent])
            except EntityEnvError as error:
                raise error.located(f"agent {agent!r}") from error.__cause__
        return self._padded[agent]

    def _check_agents(self, actions: Any) -> None:
        if not isinstance(actions, Mapping):
            raise SeatError(
                "the actions are not a dict", expected="{agent: action}", received=shorten(actions)
            )
        check_known(SeatError, "agent {} does not play", actions, self._seat_of)
        for agent in self._asked:
            if agent not in actions:
                raise SeatError(
                    f"agent {agent!r} must act, but has no action",
                    expected=f"actions of {', '.join(self._asked)}",
                    received=shorten(list(actions)),
                )
