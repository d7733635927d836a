"""A PettingZoo environment as a game of several players.

rows = SeatRows(lambda: PettingZooGame("classic/tictactoe"), num_envs=16)

python -m ppo_trainer env._target_=entity_env.interop.PettingZooGame env.env=classic/connect_four

one = MaskedEnvironment(PettingZooGame("classic/tictactoe"))  # one agent; the others are random

"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pettingzoo
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.env_registry import exceptions

from entity_env.arguments import named_arguments
from entity_env.errors import MissingPackageError, SettingError, UnknownEnvironmentError, nearest
from entity_env.interop.adapter import TranslatedPlay, make_or_take
from entity_env.interop.observation_reader import Entities
from entity_env.interop.translation import translations_of
from entity_env.multi_player import MultiPlayerEnvironment, SeatActions, SeatObservations
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["PettingZooGame"]


@named_arguments(SettingError)
class PettingZooGame(TranslatedPlay, MultiPlayerEnvironment):
    """A game whose seats are the agents of a PettingZoo environment, parallel or turn-based.

    Entities:
        Read from the agents' observation space, as in ``GymnasiumEnv``. In observations with the
        keys ``observation`` and ``action_mask``, the second is the mask.

        If agents have different spaces, they have roles. The role of an agent is its name without
        the number at its end (``adversary`` of ``adversary_0``). Each role is an entity type with
        one entity, whose features are the observation of an agent. All other names of the role's
        spaces begin with the role, such as the action ``adversary/action``.
    Actions:
        Read from the agents' action space, as in ``GymnasiumEnv``. Each role has its own actions.
    Reward:
        The reward of each agent. Agents that take turns get the reward of ``last()`` at their
        turn.
    End:
        An agent is terminated, truncated or removed.
    Randomness:
        The environment's, seeded by the reset after ``seed``.

    Args:
        env: An id of PettingZoo's registry, such as ``classic/tictactoe``, of which a parallel
            environment is preferred if there is one; or a function or class that makes an
            environment; or an environment.
        ignore: Parts of the observation to leave out, as in ``GymnasiumEnv``.
        entities: Tables in the observation that become entities, as in ``GymnasiumEnv``.
        **kwargs: Arguments of the environment. With ``render_mode="rgb_array"`` the environment
            draws pictures.

    Raises:
        UnknownEnvironmentError: The id does not exist.
        SettingError: There are no agents, or ``ignore`` or ``entities`` name a part that does not
            exist.
        SpaceError: A space cannot be translated.
    """

    def __init__(
        self,
        env: Any,
        *,
        ignore: str | Iterable[str] = (),
        entities: Entities | None = None,
        **kwargs: Any,
    ) -> None:
        kinds = AECEnv, ParallelEnv
        made = make_or_take(env, kwargs, "PettingZoo", "classic/tictactoe", _by_id, kinds)
        super().__init__(made)
        self._agents = list(self.env.possible_agents)
        if not self._agents:
            raise SettingError("the environment has no agents")
        spaces = {
            agent: (self.env.observation_space(agent), self.env.action_space(agent))
            for agent in self._agents
        }
        self._translations = translations_of(spaces, ignore, entities)
        self._play = (_AtOnce if isinstance(made, ParallelEnv) else _InTurn)(made)

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        each = [agent.obs_space for agent in self._translations.values()]
        types = {name: entity for space in each for name, entity in space.entities.items()}
        return ObsSpace(each[0].global_features, types)

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        each = [agent.action_space for agent in self._translations.values()]
        return {name: space for actions in each for name, space in actions.items()}

    def seats(self) -> Sequence[Any]:
        """Return all possible agents."""
        return list(self._agents)

    def _begin(self, seed: int | None) -> SeatObservations:
        return self._observations(self._play.reset(seed))

    def _step(self, actions: SeatActions) -> SeatObservations:
        taken = {agent: self._translations[agent].act(given) for agent, given in actions.items()}
        return self._observations(self._play.step(taken))

    def _is_over(self, seen: SeatObservations) -> bool:
        return not self._play.inside

    def _observations(self, news: Mapping[Any, _News]) -> SeatObservations:
        return {agent: self._translations[agent].observe(*its) for agent, its in news.items()}


class _News(NamedTuple):
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


class _Play(ABC):
    """The agents of an environment.

    Attributes:
        inside: The last observation of each agent in the game that has had a turn.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.inside: dict[Any, Any] = {}

    def reset(self, seed: int | None) -> dict[Any, _News]:
        """Start a game, and return the news of the agents that must act first."""
        self.inside = {}
        return self._noted(self._begin(seed))

    def step(self, actions: Mapping[Any, Any]) -> dict[Any, _News]:
        """Play with the actions of all agents that must act, and return the resulting news."""
        return self._noted(self._play_on(actions))

    @abstractmethod
    def _begin(self, seed: int | None) -> dict[Any, _News]: ...

    @abstractmethod
    def _play_on(self, actions: Mapping[Any, Any]) -> dict[Any, _News]: ...

    def _noted(self, news: dict[Any, _News]) -> dict[Any, _News]:
        for agent, its in news.items():
            if its.terminated or its.truncated:
                self.inside.pop(agent, None)
            else:
                self.inside[agent] = its.observation
        return news


class _AtOnce(_Play):
    """Agents of a ``ParallelEnv``."""

    def _begin(self, seed: int | None) -> dict[Any, _News]:
        seen, infos = self.env.reset(seed=seed)
        return {agent: _News(seen[agent], infos.get(agent, {})) for agent in self.env.agents}

    def _play_on(self, actions: Mapping[Any, Any]) -> dict[Any, _News]:
        seen, rewards, terminated, truncated, infos = self.env.step(dict(actions))
        news = {}
        for agent in {**self.inside, **dict.fromkeys(self.env.agents)}:
            reward = float(rewards.get(agent, 0.0))
            over = bool(terminated.get(agent, False)), bool(truncated.get(agent, False))
            if agent in seen and (agent in self.env.agents or any(over)):
                if agent in self.inside or not any(over):  # others are listed, but already out
                    news[agent] = _News(seen[agent], infos.get(agent, {}), reward, *over)
            elif agent in self.inside:  # it left without another observation
                news[agent] = _News(self.inside[agent], {}, reward, not over[1], over[1])
        return news


class _InTurn(_Play):
    """Agents of an ``AECEnv``.

    An agent's reward at its turn is that of ``last()``. An agent that leaves without another turn
    gets the reward that ``last()`` would have returned, and that of the step in which it left.
    """

    def _begin(self, seed: int | None) -> dict[Any, _News]:
        self.env.reset(seed=seed)
        self._unpaid: dict[Any, float] = {}
        self._left: dict[Any, float] = {}
        self._count_rewards()
        return self._until_turn()

    def _play_on(self, actions: Mapping[Any, Any]) -> dict[Any, _News]:
        ((agent, action),) = actions.items()
        self._step(agent, action)
        return self._until_turn()

    def _until_turn(self) -> dict[Any, _News]:
        """Step the agents that are out, and return their news and those of the acting agent."""
        env, news = self.env, dict[Any, _News]()
        while agents := env.agents:  # read rarely, because each wrapper looks it up
            agent = env.agent_selection
            observation, reward, terminated, truncated, info = env.last()
            over = bool(terminated), bool(truncated)
            news[agent] = _News(observation, info, float(reward), *over)
            if not any(over):
                break
            self._step(agent, None)
        for agent, seen in self.inside.items():
            if agent not in news and agent not in agents:
                reward = self._left.get(agent, self._unpaid.get(agent, 0.0))
                news[agent] = _News(seen, {}, reward, terminated=True)
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


def _by_id(name: str, kwargs: dict[str, Any]) -> Any:
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
