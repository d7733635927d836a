"""Construction and play of PettingZoo environments, parallel or turn-based."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pettingzoo
from pettingzoo import AECEnv, ParallelEnv

from entity_env.errors import MissingPackageError, UnknownEnvironmentError, nearest
from entity_env.interop.translated.translated_env import make_or_take

__all__ = ["AgentsPlay", "News", "make_pettingzoo", "play_of"]


def make_pettingzoo(env: Any, kwargs: dict[str, Any]) -> Any:
    """Make the environment of an id, a module's path or a function, or return a given one.

    Raises:
        UnknownEnvironmentError: The id or the path does not exist.
        SettingError: ``env`` is something else, or arguments are given for an existing environment.
    """
    kinds = (AECEnv, ParallelEnv)
    return make_or_take(env, kwargs, "PettingZoo", "classic/tictactoe", _by_name, kinds)


class News(NamedTuple):
    """The news for an agent that must act now, or whose game is over.

    Args:
        observation: The observation of the environment.
        info: The agent's info.
        reward: The sum of rewards since the agent's last action.
        terminated: True if the game is over for the agent.
        truncated: True if a limit ended it.
    """

    observation: Any
    info: Mapping[str, Any] = MappingProxyType({})
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class AgentsPlay(ABC):
    """The agents of an environment, and the last observation of each.

    Args:
        env: The environment.

    Attributes:
        inside: The last observation of each agent in the game that has had a turn.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.inside: dict[Any, Any] = {}

    def reset(self, seed: int | None) -> dict[Any, News]:
        """Start a game, and return the news of the agents that must act first."""
        self.inside = {}
        return self._noted(self._begin(seed))

    def step(self, actions: Mapping[Any, Any]) -> dict[Any, News]:
        """Play with the actions of all agents that must act, and return the resulting news."""
        return self._noted(self._play_on(actions))

    @abstractmethod
    def _begin(self, seed: int | None) -> dict[Any, News]: ...

    @abstractmethod
    def _play_on(self, actions: Mapping[Any, Any]) -> dict[Any, News]: ...

    def _noted(self, news: dict[Any, News]) -> dict[Any, News]:
        for agent, own in news.items():
            if own.terminated or own.truncated:
                self.inside.pop(agent, None)
            else:
                self.inside[agent] = own.observation
        return news


class _AtOnce(AgentsPlay):
    """Agents of a ``ParallelEnv``."""

    def _begin(self, seed: int | None) -> dict[Any, News]:
        seen, infos = self.env.reset(seed=seed)
        return {agent: News(seen[agent], infos.get(agent, {})) for agent in self.env.agents}

    def _play_on(self, actions: Mapping[Any, Any]) -> dict[Any, News]:
        seen, rewards, terminated, truncated, infos = self.env.step(dict(actions))
        news = {}
        for agent in {**self.inside, **dict.fromkeys(self.env.agents)}:
            reward = float(rewards.get(agent, 0.0))
            over = bool(terminated.get(agent, False)), bool(truncated.get(agent, False))
            if agent in seen and (agent in self.env.agents or any(over)):
                if agent in self.inside or not any(over):  # others are listed, but already out
                    news[agent] = News(seen[agent], infos.get(agent, {}), reward, *over)
            elif agent in self.inside:  # it left without another observation
                news[agent] = News(self.inside[agent], {}, reward, not over[1], over[1])
        return news


class _InTurn(AgentsPlay):
    """Agents of an ``AECEnv``.

    An agent's reward at its turn is that of ``last()``. An agent that leaves without another turn
    gets the reward that ``last()`` would have returned, and that of the step in which it left.
    """

    def _begin(self, seed: int | None) -> dict[Any, News]:
        self.env.reset(seed=seed)
        self._unpaid: dict[Any, float] = {}
        self._left: dict[Any, float] = {}
        self._count_rewards()
        return self._until_turn()

    def _play_on(self, actions: Mapping[Any, Any]) -> dict[Any, News]:
        ((agent, action),) = actions.items()
        self._step(agent, action)
        return self._until_turn()

    def _until_turn(self) -> dict[Any, News]:
        """Step the agents that are out, and return their news and those of the acting agent."""
        env, news = self.env, dict[Any, News]()
        while agents := env.agents:  # read rarely, because each wrapper looks it up
            agent = env.agent_selection
            observation, reward, terminated, truncated, info = env.last()
            over = bool(terminated), bool(truncated)
            news[agent] = News(observation, info, float(reward), *over)
            if not any(over):
                break
            self._step(agent, None)
        for agent, seen in self.inside.items():
            if agent not in news and agent not in agents:
                reward = self._left.get(agent, self._unpaid.get(agent, 0.0))
                news[agent] = News(seen, {}, reward, terminated=True)
        return news

    def _step(self, agent: Any, action: Any) -> None:
        self._unpaid[agent] = 0.0
        self.env.step(action)
        self._count_rewards()

    def _count_rewards(self) -> None:
        sums = self.env._cumulative_rewards
        for agent in self._unpaid.keys() - sums.keys():
            self._left[agent] = self._unpaid[agent] + float(self.env.rewards.get(agent, 0.0))
        self._unpaid = {agent: float(reward) for agent, reward in sums.items()}


def play_of(env: Any) -> AgentsPlay:
    """Return the play of an environment, whose agents act at once or in turn."""
    return (_AtOnce if isinstance(env, ParallelEnv) else _InTurn)(env)


def _by_name(name: str, kwargs: dict[str, Any]) -> Any:
    """Return the environment of a registry id (PettingZoo 1.27) or a module's path."""
    if hasattr(pettingzoo, "make") and ("/" in name or "." not in name):
        return _by_id(name, kwargs)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and not name.startswith(error.name):
            raise MissingPackageError(f"environment {name!r} needs a package: {error}") from error
        raise UnknownEnvironmentError(
            f"module {name!r} does not exist",
            expected="an id such as classic/tictactoe, or the path of a module such as "
            "pettingzoo.classic.tictactoe_v3",
        ) from error
    make = getattr(module, "parallel_env", None) or getattr(module, "env", None)
    if make is None:
        raise UnknownEnvironmentError(
            f"module {name!r} has no environment", expected="a function parallel_env or env"
        )
    return make(**kwargs)


def _by_id(name: str, kwargs: dict[str, Any]) -> Any:
    from pettingzoo.env_registry import exceptions

    try:
        try:
            return pettingzoo.make("parallel", name, **kwargs)
        except (exceptions.NameNotFound, exceptions.NamespaceNotFound):
            return pettingzoo.make("aec", name, **kwargs)
    except exceptions.FailedToImport as error:
        raise MissingPackageError(f"environment {name!r} needs more: {error}") from error
    except exceptions.PettingZooRegistryError as error:
        known = {*pettingzoo.aec_registry, *pettingzoo.parallel_registry}
        raise UnknownEnvironmentError(
            f"PettingZoo does not know {name!r}: {str(error).partition(' Available')[0]}",
            hint=nearest(name, sorted(known)),
        ) from error
