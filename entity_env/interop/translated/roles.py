"""Agents with different spaces, as roles with their own entity type and actions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from entity_env.actions import Action
from entity_env.errors import EntityEnvError
from entity_env.interop.translated.translation import SpaceTranslation
from entity_env.observation import Observation
from entity_env.spaces import ActionName, Entity, ObsSpace

__all__ = ["translations_of"]


class _RoleTranslation(SpaceTranslation):
    """The translation of the agents of one role.

    The global features of an agent become the features of one entity, whose type is the role. All
    other names begin with the role: ``adversary/action``.
    """

    def __init__(self, role: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        own = self.obs_space
        self._role = role
        self.obs_space = ObsSpace(
            entities={role: Entity(own.global_features), **self._renamed(own.entities)}
        )
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
        return super().act({name[len(self._role) + 1 :]: own for name, own in actions.items()})

    def _renamed(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{self._role}/{name}": own for name, own in parts.items()}


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
