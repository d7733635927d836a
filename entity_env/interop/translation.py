"""Translation of the spaces, observations, masks and actions of players."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gymnasium import spaces

from entity_env.actions import Action
from entity_env.errors import EntityEnvError, ObservationError, shorten
from entity_env.interop.action_writer import ActionWriter
from entity_env.interop.observation_reader import Entities, ObservationReader
from entity_env.observation import Observation
from entity_env.spaces import ActionName, Entity, ObsSpace

__all__ = ["MASK", "SpaceTranslation", "translations_of"]

MASK = "action_mask"
"""The key of the mask in an info, and in the observations of PettingZoo's games."""


class SpaceTranslation:
    """The translation of one player's spaces, observations and actions.

    Args:
        observation_space: The observation space. The key ``action_mask`` of a ``Dict`` is the mask,
            as in PettingZoo's games.
        action_space: The action space.
        ignore: Parts of the observation to leave out.
        entities: Tables in the observation that become entities; see ``Rows``.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        ignore: str | Iterable[str] = (),
        entities: Entities | None = None,
    ) -> None:
        self._actions = ActionWriter(action_space)
        self._has_mask, self._is_single = False, False
        if isinstance(observation_space, spaces.Dict) and MASK in observation_space.spaces:
            rest = _without_mask(observation_space.spaces)
            self._has_mask, self._is_single = True, list(rest) == ["observation"]
            observation_space = rest["observation"] if self._is_single else spaces.Dict(rest)
        self._reader = ObservationReader(observation_space, ignore, entities)
        self.obs_space = self._reader.obs_space
        self.action_space = self._actions.action_space

    def observe(
        self,
        observation: Any,
        info: Mapping[str, Any],
        reward: float = 0.0,
        terminated: bool = False,
        truncated: bool = False,
    ) -> Observation:
        """Return the observation with its own mask, or that in ``info``."""
        if type(info) is not dict and not isinstance(info, Mapping):
            raise ObservationError("info is not a dict", received=shorten(info))
        mask = info.get(MASK)
        if self._has_mask and isinstance(observation, Mapping) and MASK in observation:
            mask = observation[MASK]
            observation = _without_mask(observation)
            observation = observation["observation"] if self._is_single else observation
        global_features, features = self._reader.read(observation)
        done = bool(terminated) or bool(truncated)
        return Observation(
            features=features,
            global_features=global_features,
            actions={} if done else self._actions.masks(mask),
            reward=reward,
            done=done,
            truncated=done and not terminated,
        )

    def act(self, actions: Mapping[ActionName, Action]) -> Any:
        """Return the action in the format of the environment."""
        return self._actions.write(actions)

    def chosen(self, action: Any) -> dict[ActionName, Any]:
        """Return the index or the numbers of each action for an action of the environment."""
        return self._actions.read(action)


class _RoleTranslation(SpaceTranslation):
    """The translation of the agents of one role.

    The global features of an agent become the features of one entity, whose type is the role. All
    other names begin with the role: ``adversary/action``.
    """

    def __init__(self, role: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._role = role
        agent = Entity(self.obs_space.global_features)
        self.obs_space = ObsSpace(entities={role: agent, **self._renamed(self.obs_space.entities)})
        self.action_space = self._renamed(self.action_space)

    def observe(self, *arguments: Any, **named: Any) -> Observation:
        """Return the observation with an entity for the agent itself."""
        seen = super().observe(*arguments, **named)
        features = {self._role: [seen.global_features], **self._renamed(seen.features or {})}
        return replace(
            seen, features=features, global_features=None, actions=self._renamed(seen.actions or {})
        )

    def act(self, actions: Mapping[ActionName, Action]) -> Any:
        """Return the action in the format of the environment."""
        return super().act({name[len(self._role) + 1 :]: given for name, given in actions.items()})

    def _renamed(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{self._role}/{name}": part for name, part in parts.items()}


def translations_of(
    spaces: Mapping[Any, tuple[Any, Any]], *arguments: Any
) -> dict[Any, SpaceTranslation]:
    """Return the translation of each agent, which it shares with the others of its role.

    If all agents have the same spaces, they have one role without a name. Otherwise the role of an
    agent is its name without the number at its end; agents with the same such name and different
    spaces have separate roles.

    Args:
        spaces: The observation space and the action space of each agent.
        *arguments: Further arguments of ``SpaceTranslation``.

    Raises:
        SettingError, SpaceError: See ``SpaceTranslation``; the message names the role.
    """
    if _are_equal(spaces.values()):
        first = next(iter(spaces.values()))
        return dict.fromkeys(spaces, SpaceTranslation(*first, *arguments))
    roles = {agent: re.sub(r"(?<=[^_\W])_?\d+$", "", str(agent)) for agent in spaces}
    for role in set(roles.values()):
        members = [agent for agent in spaces if roles[agent] == role]
        if not _are_equal([spaces[agent] for agent in members]):
            roles.update({agent: str(agent) for agent in members})
    made = dict[str, SpaceTranslation]()
    for agent, role in roles.items():
        if role in made:
            continue
        try:
            made[role] = _RoleTranslation(role, *spaces[agent], *arguments)
        except EntityEnvError as error:
            raise error.located(f"role {role!r}") from error.__cause__
    return {agent: made[role] for agent, role in roles.items()}


def _are_equal(spaces: Collection[tuple[Any, Any]]) -> bool:
    first = next(iter(spaces))
    return all(pair == first for pair in spaces)


def _without_mask(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in parts.items() if key != MASK}
