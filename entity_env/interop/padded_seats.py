"""A game of several players as agents with padded arrays: what the two kinds of PettingZoo share.

Agents of PettingZoo may not come back once they are gone. A seat that does is another agent then:
seat ``a`` is the agents ``a``, ``a#2``, ``a#3`` and so on, one for each of its lives.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.vec_obs import batch_frames
from entity_env.environment import check_seed
from entity_env.errors import EntityEnvError, SeatError, SettingError, nearest, shorten
from entity_env.interop.padded_spaces import PaddedSpaces, Room
from entity_env.interop.padding import PaddedFrames, choose, pad
from entity_env.kinds.table import typed_actions
from entity_env.observation import Observation
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.seats.table import Table, Told

__all__ = ["AgentOutcome", "PaddedSeats"]


@dataclass(frozen=True)
class AgentOutcome:
    """The result of a step for one agent.

    Args:
        reward: What it was paid.
        terminated: The game is over for it.
        truncated: A limit ended it.
        metrics: Numbers that the game gave it.
    """

    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    metrics: Mapping[str, float] | None = None


class PaddedSeats:
    """Plays a game by the names of agents.

    All seats are agents from the beginning. One that has not come into the game yet, or that waits,
    has nothing to choose and sees what it saw last; zeros before that.

    Args:
        game: The game.
        max_entities: As of ``EntityGymnasiumEnv``.
        max_actors: As of ``EntityGymnasiumEnv``.
        strict: As of ``EntityGymnasiumEnv``.

    Attributes:
        agents: The number of the seat of each agent that is not gone, by its name.
        asked: The agents that must choose now, in the order of their seats.
        is_over: Whether there is no game to play.

    Raises:
        SettingError: Bad sizes; no game of several players.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment,
        max_entities: Room,
        max_actors: Room | None,
        *,
        strict: bool,
    ) -> None:
        if not isinstance(game, MultiPlayerEnvironment):
            raise SettingError(
                "no game of several players to pad",
                expected="a MultiPlayerEnvironment, such as TicTacToe()",
                received=shorten(game),
            )
        self.game, self.strict = game, strict
        self._table = Table(game)
        self._reader = FrameReader(game.obs_space(), game.action_space())
        own = self._reader.obs_space, self._reader.action_space
        self.spaces = PaddedSpaces(*own, max_entities, max_actors)
        self.names = [str(seat) for seat in self._table.seats]
        if len(set(self.names)) < len(self.names):
            raise SettingError("two seats have the same name as agents", received=self.names)
        nothing = Observation(
            features={}, global_features=[0.0] * len(own[0].global_names), reward=0.0, done=False
        )
        self._blank = self._reader.read(nothing)
        self.agents: dict[str, int] = {}
        self.asked: list[str] = []
        self.is_over = True
        self.born: list[str] = list(self.names)  # every name that was ever needed
        self._agent_of: dict[int, str] = {}
        self._lives: list[int] = []
        self._frames: dict[str, Frame] = {}
        self._padded: dict[str, PaddedFrames] = {}
        self._each: dict[str, tuple[Any, Any]] = {}

    def space(self, agent: str, kind: int) -> Any:
        """Return the observation space (0) or the action space (1) of an agent."""
        if agent not in self._each:
            own = self.spaces.observation_space, self.spaces.action_space
            self._each[agent] = copy.deepcopy(own[0]), copy.deepcopy(own[1])
        return self._each[agent][kind]

    def reset(self, seed: int | None) -> None:
        """Start a game; with a seed, restart its random numbers first."""
        if seed is not None:
            self.game.seed(check_seed(seed))
        self._agent_of = dict(enumerate(self.names))
        self._lives = [1] * len(self.names)
        self.agents = {name: i for i, name in enumerate(self.names)}
        self._frames = dict.fromkeys(self.names, self._blank)
        self._padded, self.asked = {}, []
        self._note(self._table.reset())
        self.is_over = False

    def act(self, actions: Mapping[str, Any]) -> dict[str, AgentOutcome]:
        """Let the agents that are asked act; returns what that led to for all who are concerned.

        Args:
            actions: The numbers of each of them; those of agents that wait do not count.

        Raises:
            SeatError: An agent that is asked does not act, or one acts that is not there.
        """
        self._check_agents(actions)
        taken = {}
        for agent in self.asked:
            frame, seat = self._frames[agent], self.agents[agent]
            try:
                chosen = choose(actions[agent], self._pad(agent), self.spaces, strict=self.strict)
            except EntityEnvError as error:
                raise error.located(f"agent {agent!r}") from error.__cause__
            own = {name: buffer.as_array()[:, 0] for name, buffer in chosen.items()}
            taken[seat] = typed_actions(frame, own, self._reader.action_space)
        for agent in self.asked:  # who waits has nothing to choose
            self._show(agent, replace(self._frames[agent], actions={}))
        self.asked = []
        outcomes = self._note(self._table.act(taken))
        if self._table.is_over:
            self.is_over = True
            for agent in [own for own in self.agents if own not in outcomes]:
                outcomes[agent] = AgentOutcome(terminated=True)
        for agent, outcome in outcomes.items():
            if outcome.terminated or outcome.truncated:
                self._agent_of.pop(self.agents.pop(agent), None)
        self.asked = [agent for agent in self.asked if agent in self.agents]
        return outcomes

    def observe(self, agent: str) -> dict[str, npt.NDArray[Any]]:
        """Return the observation of an agent, also of one that is gone, in new arrays."""
        return {name: array[0].copy() for name, array in self._pad(agent).arrays.items()}

    def info(self, agent: str) -> dict[str, Any]:
        """Its ``action_mask``, as ``action_space.sample`` takes it."""
        return {"action_mask": self.spaces.sample_masks(self._pad(agent).masks)[0]}

    def _note(self, told: Told) -> dict[str, AgentOutcome]:
        """Remember what seats see, and who is asked."""
        outcomes, asked = {}, set(self.asked)
        for seat, observation in told.items():
            try:
                frame = self._reader.read(observation)
            except EntityEnvError as error:
                raise error.located(f"seat {self._table.seats[seat]!r}") from error.__cause__
            agent = self._agent_of.get(seat) or self._next_life(seat)
            self._show(agent, frame)
            asked.discard(agent)
            if frame.asks:
                asked.add(agent)
            ended = frame.done and not frame.truncated
            outcomes[agent] = AgentOutcome(frame.reward, ended, frame.truncated, frame.metrics)
        self.asked = sorted(asked, key=self.agents.__getitem__)
        return outcomes

    def _next_life(self, seat: int) -> str:
        self._lives[seat] += 1
        agent = f"{self.names[seat]}#{self._lives[seat]}"
        if agent not in self.born:
            self.born.append(agent)
        self._agent_of[seat], self.agents[agent] = agent, seat
        return agent

    def _show(self, agent: str, frame: Frame) -> None:
        self._frames[agent] = frame
        self._padded.pop(agent, None)

    def _pad(self, agent: str) -> PaddedFrames:
        if agent not in self._frames:
            raise SeatError(
                f"agent {shorten(agent)} takes no part in this game",
                options=list(self._frames),
                hint=nearest(agent, list(self._frames)),
            )
        if agent not in self._padded:
            own = self._reader.obs_space, self._reader.action_space
            try:
                self._padded[agent] = pad(batch_frames([self._frames[agent]], *own), self.spaces)
            except EntityEnvError as error:
                raise error.located(f"agent {agent!r}") from error.__cause__
        return self._padded[agent]

    def _check_agents(self, actions: Any) -> None:
        if not isinstance(actions, Mapping):
            raise SeatError(
                "the actions are no dict", expected="{agent: action}", received=shorten(actions)
            )
        for agent in actions:
            if agent not in self.agents:
                raise SeatError(
                    f"agent {shorten(agent)} does not play",
                    options=list(self.agents),
                    hint=nearest(agent, list(self.agents)),
                )
        for agent in self.asked:
            if agent not in actions:
                raise SeatError(
                    f"agent {agent!r} must choose and has no action",
                    expected=f"actions of {', '.join(self.asked)}",
                    received=shorten(list(actions)),
                )
