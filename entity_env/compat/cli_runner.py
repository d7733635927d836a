"""``CliRunner``, which plays an environment in the terminal with an agent's proposals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import entity_env.agent
from entity_env.actions import Action, CategoricalAction, GlobalCategoricalAction
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment
from entity_env.errors import ActorError, ResetNeededError
from entity_env.observation import Observation
from entity_env.player.runner import play_in_terminal
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["Agent", "CliRunner"]


class Agent(ABC):
    """An agent that acts on one observation at a time."""

    @abstractmethod
    def act(self, obs: Observation) -> tuple[dict[str, Action], float]:
        """Return the actions, and the expected return."""


class CliRunner:
    """A runner that plays an environment in the terminal.

    Args:
        env: The environment; it stays open.
        agent: Agent whose actions are proposed; None proposes random choices.
    """

    def __init__(self, env: Environment, agent: Agent | None = None) -> None:
        self.env = env
        self.agent = agent

    def run(self, restart: bool = False) -> None:
        """Play one episode, or with ``restart`` ask for another one after each."""
        env = _Seen(self.env)
        agent: Any = "random" if self.agent is None else _Proposals(env, self.agent)
        play_in_terminal(lambda: env, agent, episodes=None if restart else 1)


class _Seen(Wrapper):
    """A wrapper that keeps the last observation, and stays open."""

    last: Observation | None = None

    def close(self) -> None:
        """Leave the environment open for the caller of ``CliRunner``."""

    def _show(self, observation: Observation) -> Observation:
        self.last = observation
        return observation


class _Proposals:
    """An agent for the terminal, made from an ``Agent``."""

    def __init__(self, env: _Seen, agent: Agent) -> None:
        self._env, self._agent = env, agent
        self.obs_space: ObsSpace = env.obs_space()
        self.action_space: Mapping[ActionName, ActionSpace] = env.action_space()
        self._reader = FrameReader(self.obs_space, self.action_space)

    def decide(self, obs: VecObs) -> entity_env.agent.Decision:
        """Return the agent's actions for the environment's last observation."""
        if self._env.last is None:
            raise ResetNeededError("there is no observation yet", hint="call reset() first")
        frame = self._reader.read(self._env.last)
        actions, value = self._agent.act(self._env.last)
        probs = {
            name: np.atleast_2d(known)
            for name, action in actions.items()
            if (known := getattr(action, "probs", None)) is not None
        }
        chosen = {
            name: _indices(name, frame, who.actors.tolist(), actions.get(name))
            for name, who in frame.actions.items()
        }
        return entity_env.agent.Decision(chosen, probs, value)


def _indices(
    name: ActionName, frame: Frame, actors: list[int], action: Any
) -> npt.NDArray[np.int64]:
    """Return for each actor, in this order, the index of its choice or of its selected entity."""
    if isinstance(action, GlobalCategoricalAction):
        return np.array([action.index])
    is_choice = isinstance(action, CategoricalAction)
    named = [] if action is None else action.indices if is_choice else action.actees
    of_actor = dict(zip([] if action is None else action.actors, named, strict=False))
    ids = [frame.ids[actor] for actor in actors]
    for one in ids:
        if one not in of_actor:
            raise ActorError(f"the agent left out an actor of action {name!r}", received=one)
    own = [of_actor[one] for one in ids]
    return np.array(own if is_choice else [frame.ids.index(one) for one in own], np.int64)
