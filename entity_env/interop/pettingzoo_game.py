"""A PettingZoo environment as a game of several players, with all of its seats.

rows = SeatRows(lambda: PettingZooGame("classic/tictactoe"), num_envs=16)

python -m ppo_trainer env._target_=entity_env.interop.PettingZooGame env.env=classic/connect_four

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from entity_env.arguments import named_arguments
from entity_env.errors import ResetNeededError, SettingError
from entity_env.interop.pettingzoo_env import by_name
from entity_env.interop.pettingzoo_seats import KINDS, UnpaidRewards
from entity_env.interop.roles import alike_or_refused, translations_of_roles
from entity_env.interop.rows import Entities
from entity_env.interop.translated_env import make_or_take
from entity_env.interop.translation import SpaceTranslation
from entity_env.observation import Observation
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    SeatActions,
    SeatObservations,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["PettingZooGame"]


@named_arguments(SettingError)
class PettingZooGame(MultiPlayerEnvironment):
    """All agents of a PettingZoo environment as seats, whether they act at once or in turn.

    Entities:
        As ``GymnasiumEnv``, from the agents' observation space. With ``roles`` an entity type for
        each role.
    Actions:
        As ``GymnasiumEnv``, from the agents' action space. With ``roles`` those of each role.
    Reward:
        Each agent's own; of agents that take turns what ``last()`` pays them at their turn, as in
        ``PettingZooEnv``.
    End:
        An agent that is terminated, truncated or gone is out.
    Randomness:
        The environment's, which the reset after ``seed`` seeds.

    Args:
        env: An id, the path of a module, what makes an environment, or an environment; as in
            ``PettingZooEnv``.
        ignore: Parts of the observation that are left out, as in ``GymnasiumEnv``.
        entities: Tables in the observation that become entities, as in ``GymnasiumEnv``.
        roles: Whether agents may have different spaces. Each role, which is what an agent is called
            without its number (``adversary`` of ``adversary_0``), is an entity type then: its one
            entity has the features that an agent of the role observes. Every other name of the
            role's spaces begins with it, such as the action ``adversary/action``.
        **kwargs: Arguments for what makes the environment.

    Raises:
        UnknownEnvironmentError: An id or a path that leads nowhere.
        SettingError: No agents; ``ignore`` or ``entities`` name something that is not there.
        SpaceError: A space that cannot be translated, or agents with different spaces without
            ``roles``.
    """

    consent_settings: ClassVar = {"env": None, "**": None}
    """An environment that is named is imported, and gets all arguments that are not our own."""

    def __init__(
        self,
        env: Any,
        *,
        ignore: str | Iterable[str] = (),
        entities: Entities | None = None,
        roles: bool = False,
        **kwargs: Any,
    ) -> None:
        self.env = make_or_take(env, kwargs, "PettingZoo", "classic/tictactoe", by_name, KINDS)
        self._agents = list(self.env.possible_agents)
        if not self._agents:
            raise SettingError("the environment has no agents")
        spaces = {
            agent: (self.env.observation_space(agent), self.env.action_space(agent))
            for agent in self._agents
        }
        if roles:
            self._translations = translations_of_roles(spaces, ignore, entities)
        else:
            common = SpaceTranslation(*alike_or_refused(spaces), ignore, entities)
            self._translations = dict.fromkeys(self._agents, common)
        self._seed: int | None = None
        self._in: dict[Any, Observation] = {}  # who is in the game, and what each saw last
        self._playing = self._closed = False
        self._at_once = isinstance(self.env, ParallelEnv)
        if getattr(self.env, "render_mode", None) == "rgb_array":
            # Only now: whoever looks at the class sees that not every environment draws itself.
            self.render = self._draw  # type: ignore[method-assign]

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        each = [own.obs_space for own in self._translations.values()]
        types = {name: entity for own in each for name, entity in own.entities.items()}
        return ObsSpace(each[0].global_features, types)

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        each = [own.action_space for own in self._translations.values()]
        return {name: space for own in each for name, space in own.items()}

    def seats(self) -> Sequence[Any]:
        """All possible agents."""
        return list(self._agents)

    def seed(self, seed: int) -> None:
        """Seed ``self.rng`` now, and the environment at its next reset."""
        super().seed(seed)
        self._seed = seed

    def reset(self) -> SeatObservations:
        """Start an episode."""
        seed, self._seed = self._seed, None
        self._in, self._playing = {}, True
        if self._at_once:
            seen, infos = self.env.reset(seed=seed)
            told = {
                agent: self._translations[agent].observe(seen[agent], infos.get(agent, {}))
                for agent in self.env.agents
            }
        else:
            self.env.reset(seed=seed)
            self._taking_part = list(self.env.agents)
            self._rewards = UnpaidRewards(self.env)
            told = self._until_asked()
        return self._noted(told)

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play on with the actions of those who are asked."""
        if not self._playing:
            raise ResetNeededError("there is no game to play", hint="call reset() first")
        own = {agent: self._translations[agent].act(taken) for agent, taken in actions.items()}
        return self._noted(self._together(own) if self._at_once else self._in_turn(own))

    def close(self) -> None:
        """Close the environment; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self.env.close()

    def _draw(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        return np.asarray(self.env.render(**kwargs), np.uint8)

    def _together(self, own: Mapping[Any, Any]) -> dict[Any, Observation]:
        seen, rewards, terminated, truncated, infos = self.env.step(dict(own))
        told = {}
        for agent in {**self._in, **dict.fromkeys(self.env.agents)}:
            reward = float(rewards.get(agent, 0.0))
            over = bool(terminated.get(agent, False)), bool(truncated.get(agent, False))
            if agent not in self._in and any(over):
                continue  # it is out already, and the environment still lists it
            if agent not in seen or (agent not in self.env.agents and not any(over)):
                told[agent] = self._gone(agent, reward)  # without another word
                continue
            told[agent] = self._translations[agent].observe(
                seen[agent], infos.get(agent, {}), reward, *over
            )
        return told

    def _in_turn(self, own: Mapping[Any, Any]) -> dict[Any, Observation]:
        ((_, action),) = own.items()
        self._rewards.step(action)
        return self._until_asked()

    def _until_asked(self) -> dict[Any, Observation]:
        """Let those go who are out, and show the next one what it sees."""
        env, told = self.env, {}
        while env.agents:
            agent = env.agent_selection
            observation, reward, terminated, truncated, info = env.last()
            over = bool(terminated), bool(truncated)
            told[agent] = self._translations[agent].observe(observation, info, float(reward), *over)
            if not any(over):
                return told
            self._rewards.step(None)
        for agent in self._taking_part:
            if agent in self._in and agent not in told:
                told[agent] = self._gone(agent, self._rewards.of_gone(agent))
        return told

    def _gone(self, agent: Any, reward: float) -> Observation:
        last = self._in.get(agent)
        features: Any = {} if last is None else last.features
        known: Any = None if last is None else last.global_features
        if known is None:
            known = [0.0] * len(self.obs_space().global_names)
        return Observation(features=features, global_features=known, reward=reward, done=True)

    def _noted(self, told: dict[Any, Observation]) -> dict[Any, Observation]:
        for agent, observation in told.items():
            if observation.done:
                self._in.pop(agent, None)
            else:
                self._in[agent] = observation
        self._playing = bool(self._in)
        return told
