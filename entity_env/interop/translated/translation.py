"""Translation of one player's spaces, observations, masks and actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gymnasium import spaces

from entity_env.actions import Action
from entity_env.errors import ObservationError, shorten
from entity_env.interop.translated.choices import ChoiceWriter
from entity_env.interop.translated.rows import Entities, read_entities, read_ignore
from entity_env.interop.translated.space_reader import ObservationReader
from entity_env.observation import Observation
from entity_env.spaces import ActionName

__all__ = ["MASK", "SpaceTranslation", "split_mask"]

MASK = "action_mask"
"""The key of the mask in an observation or an info."""


class SpaceTranslation:
    """The translation of one player's spaces, observations and actions.

    Args:
        observation_space: The observation space. The key ``action_mask`` of a ``Dict`` is the mask,
            as in PettingZoo's games.
        action_space: The action space.
        ignore: Parts of the observation to leave out; ``action_mask`` leaves out the mask, too.
        entities: Tables in the observation that become entities; see ``Rows``.
        columns: The names of a table's columns, if the environment has them.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        ignore: str | Iterable[str] = (),
        entities: Entities | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._actions = ChoiceWriter(action_space)
        plain = _without_mask(observation_space)
        self._holds_mask = plain is not observation_space
        names = read_ignore(ignore)
        self._obeys_mask = not (self._holds_mask and MASK in names)
        if not self._obeys_mask:
            names = tuple(name for name in names if name != MASK)
        self._reader = ObservationReader(plain, names, read_entities(entities), columns)
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
        """Return the observation with the given masks, or those in ``info``."""
        if type(info) is not dict and not isinstance(info, Mapping):
            raise ObservationError("info is not a dict", received=shorten(info))
        mask = info.get(MASK)
        if self._holds_mask:
            observation, own = split_mask(observation, info)
            mask = own if self._obeys_mask else mask
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


def split_mask(observation: Any, info: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return an observation without its action mask, and the mask, or None without one."""
    if not isinstance(observation, Mapping) or MASK not in observation:
        return observation, info.get(MASK)
    rest = {key: value for key, value in observation.items() if key != MASK}
    return (rest["observation"] if list(rest) == ["observation"] else rest), observation[MASK]


def _without_mask(space: spaces.Space[Any]) -> spaces.Space[Any]:
    if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
        return space
    rest = {key: inner for key, inner in space.spaces.items() if key != MASK}
    return rest["observation"] if list(rest) == ["observation"] else spaces.Dict(rest)
