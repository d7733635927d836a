"""Translation of one player's spaces, observations, masks and actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gymnasium import spaces

from entity_env.actions import Action
from entity_env.errors import ObservationError, shorten
from entity_env.interop.translated.action_writer import ActionWriter
from entity_env.interop.translated.observation_reader import ObservationReader
from entity_env.interop.translated.rows import Entities, read_entities, read_ignore
from entity_env.observation import Observation
from entity_env.spaces import ActionName

__all__ = ["MASK", "SpaceTranslation"]

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
        self._reader = ObservationReader(
            observation_space, read_ignore(ignore), read_entities(entities)
        )
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


def _without_mask(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in parts.items() if key != MASK}
