"""A game of several players as a padded ``pettingzoo.ParallelEnv`` with masks.

env = EntityParallelEnv(TicTacToe(), max_entities={"Player": 1, "Cell": 9}, max_actors=1)
observations, infos = env.reset(seed=0)

"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from entity_env.arguments import named_arguments
from entity_env.batching.frame import Frame
from entity_env.environment import check_seed
from entity_env.errors import EntityEnvError, SeatError, SettingError, check_known, shorten
from entity_env.interop.padded_spaces import Room, check_render_mode
from entity_env.interop.padding import FramePadding, PaddedFrames, PaddedObs
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.observation import Observation
from entity_env.seats.table import Table, Told

__all__ = ["EntityParallelEnv"]


@named_arguments(SettingError)
class EntityParallelEnv(ParallelEnv[str, PaddedObs, npt.NDArray[np.int64]]):  # type: ignore[misc]
    """A ``MultiPlayerEnvironment`` whose seats are agents that act at once.

    Observations, actions and masks of each agent are those of ``EntityGymnasiumEnv``. Agents have
    the names of their seats, ``str(seat)``, and exist from the beginning. An agent that waits, or
    is not in the game yet, has a mask that allows 0 only, and its actions are ignored; it observes
    its last observation or, before the first one, zeros. A seat that comes back after its end is
    another agent, such as ``a#2`` for seat ``a``, because agents of PettingZoo cannot come back.

    Args:
        game: The game.
        max_entities: Largest number of entities of each type, or one number for all types.
        max_actors: Largest number of actors of each action, or one number for all; None allows all
            entities to act.
        render_mode: ``rgb_array`` makes ``render`` return the game's pictures.

    Attributes:
        acting: The agents that must act in the next step, in the order of their seats.

    Raises:
        SettingError: A size is not valid, or ``game`` is not a game of several players.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment,
        max_entities: Room,
        max_actors: Room | None = None,
        *,
        render_mode: str | None = None,
    ) -> None:
        if not isinstance(game, MultiPlayerEnvironment):
            raise SettingError(
                "not a game of several players",
                expected="a MultiPlayerEnvironment, such as TicTacToe()",
                received=shorten(game),
            )
        self.game = game
        self.render_mode = check_render_mode("render_mode", render_mode)
        self.metadata = {"name": f"{type(game).__name__.lower()}_v0", "render_modes": ["rgb_array"]}
        self.agents: list[str] = []
        self.acting: list[str] = []
        self._closed = False
        self._table = Table(game)
        self._padding = FramePadding(game, max_entities, max_actors)
        self._names = [str(seat) for seat in self._table.seats]
        if len(set(self._names)) < len(self._names):
            raise SettingError("two seats have the same name as agents", received=self._names)
        unknown = [0.0] * len(game.obs_space().global_names)
        nothing = Observation(features={}, global_features=unknown, reward=0.0, done=False)
        self._blank = self._padding.read(nothing)
        self._seat_of: dict[str, int] = {}  # of all agents so far, also after their end
        self._agent_of: dict[int, str] = {}  # of the seats of ``agents``
        self._frames: dict[str, Frame] = {}
        self._padded: dict[str, PaddedFrames] = {}
        self._spaces: dict[str, tuple[Any, Any]] = {}
        self._possible = list(self._names)

    @property
    def possible_agents(self) -> list[str]:
        """The names of all seats, and of the agents that came back so far."""
        return list(self._possible)

    def observation_space(self, agent: str) -> Any:
        """Return the observation space; a separate object for each agent."""
        return self._spaces_of(agent)[0]

    def action_space(self, agent: str) -> Any:
        """Return the action space; a separate object for each agent."""
        return self._spaces_of(agent)[1]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, PaddedObs], dict[str, dict[str, Any]]]:
        """Start a game; with a seed, restart its random numbers first. There are no options."""
        if seed is not None:
            self.game.seed(check_seed(seed))
        self._seat_of = {name: i for i, name in enumerate(self._names)}
        self._agent_of = dict(enumerate(self._names))
        self._frames = dict.fromkeys(self._names, self._blank)
        self._padded = dict.fromkeys(self._names, self._padding.pad(self._blank))
        self.agents, self.acting = list(self._names), []
        self._read(self._table.reset())
        return self._observations(self.agents), self._infos(self.agents)

    def step(self, actions: Mapping[str, Any]) -> tuple[
        dict[str, PaddedObs],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:  # fmt: skip
        """Play one step with the actions of all agents that must act.

        Raises:
            SeatError: An agent that must act does not, or an agent is not in the game.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        taken = self._actions(actions)
        before, acted, self.acting = self.agents, self.acting, []
        told = self._read(self._table.act(taken))
        for agent in acted:
            if agent not in told:  # it waits, and has no choices
                self._see(agent, replace(self._frames[agent], actions={}))
        everyone = [*before, *(agent for agent in told if agent not in before)]
        rewards = dict.fromkeys(everyone, 0.0)
        terminated = dict.fromkeys(everyone, self._table.is_over)
        truncated = dict.fromkeys(everyone, False)
        infos = self._infos(everyone)
        for agent, frame in told.items():
            rewards[agent] = float(frame.reward)
            terminated[agent] = frame.done and not frame.truncated
            truncated[agent] = frame.truncated
            if frame.metrics:
                infos[agent]["metrics"] = dict(frame.metrics)
        for agent in everyone:
            if terminated[agent] or truncated[agent]:
                del self._agent_of[self._seat_of[agent]]
        self.agents = list(self._agent_of.values())
        self.acting = [agent for agent in self.acting if agent in self.agents]
        return self._observations(everyone), rewards, terminated, truncated, infos

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return the game's picture, with the render mode ``rgb_array``."""
        return self.game.render() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the game; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self.game.close()

    def _spaces_of(self, agent: str) -> tuple[Any, Any]:
        check_known(SeatError, "agent {} is not in this game", [agent], self._possible)
        if agent not in self._spaces:
            spaces = self._padding.spaces
            self._spaces[agent] = copy.deepcopy((spaces.observation_space, spaces.action_space))
        return self._spaces[agent]

    def _observations(self, agents: list[str]) -> dict[str, PaddedObs]:
        return {
            agent: {name: array[0].copy() for name, array in self._padded[agent].arrays.items()}
            for agent in agents
        }

    def _infos(self, agents: list[str]) -> dict[str, dict[str, Any]]:
        return {agent: self._padding.info(self._padded[agent]) for agent in agents}

    def _actions(self, actions: Any) -> dict[int, Any]:
        """Return the actions of the seats that must act."""
        if not isinstance(actions, Mapping):
            raise SeatError(
                "the actions are not a dict", expected="{agent: action}", received=shorten(actions)
            )
        check_known(SeatError, "agent {} does not play", actions, self.agents)
        taken = {}
        for agent in self.acting:
            if agent not in actions:
                raise SeatError(
                    f"agent {agent!r} must act, but has no action",
                    expected=f"actions of {', '.join(self.acting)}",
                    received=shorten(list(actions)),
                )
            with _errors_of(agent):
                taken[self._seat_of[agent]] = self._padding.choose(
                    actions[agent], self._frames[agent], self._padded[agent]
                )
        return taken

    def _read(self, told: Told) -> dict[str, Frame]:
        """Read the observations of seats; return them by agent, and set who must act."""
        frames = {}
        for seat, observation in told.items():
            frame = self._padding.read(observation, f"seat {self._table.seats[seat]!r}")
            agent = self._agent_of.get(seat) or self._agent_that_comes_back(seat)
            frames[agent] = frame
            self._see(agent, frame)
            if frame.asks:
                self.acting.append(agent)
        return frames

    def _agent_that_comes_back(self, seat: int) -> str:
        life = 1 + sum(other == seat for other in self._seat_of.values())
        agent = f"{self._names[seat]}#{life}"
        if agent not in self._possible:
            self._possible.append(agent)
        self._seat_of[agent], self._agent_of[seat] = seat, agent
        return agent

    def _see(self, agent: str, frame: Frame) -> None:
        self._frames[agent] = frame
        with _errors_of(agent):
            self._padded[agent] = self._padding.pad(frame)


@contextlib.contextmanager
def _errors_of(agent: str) -> Iterator[None]:
    try:
        yield
    except EntityEnvError as error:
        raise error.located(f"agent {agent!r}") from error.__cause__
