"""Sizes of padded arrays for entities and actors, and their Gymnasium spaces.

Entities have slots, in the order of the types; the actors of an action have slots in the order of
its mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.arguments import check_whole, one_of, or_none
from entity_env.batching.features import LARGEST
from entity_env.errors import SettingError, check_known, shorten
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Feature,
    ObsSpace,
    check_action_space,
    num_values,
)

__all__ = ["ActionSlots", "PaddedSpaces", "Room", "check_no_options", "check_render_mode"]

check_render_mode = or_none(one_of("rgb_array"))

Room: TypeAlias = Mapping[str, int] | int
"""A number for each name, or one for all."""


@dataclass(frozen=True)
class ActionSlots:
    """The actors of one action.

    Args:
        name: The action.
        space: Its space.
        count: K, the number of slots for actors; 1 for a global action.
        choices: C, the number of choices of each actor: labels, or slots of entities.
        first: Index of its first number in the ``MultiDiscrete`` action.
    """

    name: ActionName
    space: ActionSpace
    count: int
    choices: int
    first: int

    @property
    def numbers(self) -> slice:
        """Its part of the ``MultiDiscrete`` action."""
        return slice(self.first, self.first + self.count)


class PaddedSpaces:
    """Sizes for entities and actors, and the resulting spaces.

    ``observation_space`` is a flat ``Dict``; parts without any number are left out:

    ===================  ===========================================================  ============
    ``global``           the global features                                          (G,) float32
    ``<type>/features``  the entities, padded with zeros                              (N, F) float32
    ``<type>/present``   1 for a slot with an entity that the policy sees             (N,) int8
    ``<action>/actors``  the entity slot of each actor, padded with -1                (K,) int64
    ``<action>/mask``    1 for allowed choices; a global action has no axis K         (K, C) int8
    ===================  ===========================================================  ============

    ``action_space`` is ``MultiDiscrete``, with a number for each slot of each action. ``nobody`` is
    the mask of these numbers without any actor, which allows 0 only.

    Args:
        obs_space: The observation space.
        action_space: The action space.
        max_entities: N of each entity type, or one number for all.
        max_actors: K of each action that is not global, or one number for all; None allows all
            entities to act.

    Raises:
        SettingError: A number is missing, unknown or out of range.
    """

    def __init__(
        self,
        obs_space: ObsSpace,
        action_space: Mapping[ActionName, ActionSpace],
        max_entities: Room,
        max_actors: Room | None,
    ) -> None:
        self.obs_space = obs_space
        self.limits = _limits("max_entities", "entity type", max_entities, obs_space.entities)
        self.starts = np.cumsum([0, *self.limits.values()])
        entities = int(self.starts[-1])
        self.actions = _action_slots(check_action_space(action_space), max_actors, entities)
        choices = [action.choices for action in self.actions for _ in range(action.count)]
        if not choices:
            raise SettingError(
                "there are no slots for actors",
                hint="raise max_entities or max_actors",
                received=shorten((max_entities, max_actors)),
            )
        self.observation_space = spaces.Dict(self._boxes(entities))
        self.action_space = spaces.MultiDiscrete(choices)
        self._ends = np.cumsum(choices)
        self.nobody = np.zeros(sum(choices), np.bool_)
        self.nobody[self._ends - choices] = True

    def sample_masks(self, masks: npt.NDArray[np.bool_]) -> list[tuple[npt.NDArray[np.int8], ...]]:
        """Return masks for ``action_space.sample(mask=...)``: an array for each number.

        Args:
            masks: Shape: (R, sum of nvec).

        Returns:
            For each of R rows a tuple of new arrays.
        """
        return list(zip(*np.split(masks.astype(np.int8), self._ends[:-1], axis=1), strict=True))

    def nothing(self) -> dict[str, npt.NDArray[Any]]:
        """Return the observation of a frame without entities, actors and global features."""
        boxes: Any = self.observation_space
        return {
            name: np.full(box.shape, -1 if name.endswith("/actors") else 0, box.dtype)
            for name, box in boxes.items()
        }

    def _boxes(self, entities: int) -> dict[str, spaces.Space[Any]]:
        boxes: dict[str, spaces.Space[Any]] = {
            "global": _feature_box(self.obs_space.global_features, ())
        }
        for name, entity in self.obs_space.entities.items():
            limit = self.limits[name]
            boxes[f"{name}/features"] = _feature_box(entity.features, (limit,))
            boxes[f"{name}/present"] = spaces.Box(0, 1, (limit,), np.int8)
        for action in self.actions:
            rows = () if action.space.is_global else (action.count,)
            boxes[f"{action.name}/mask"] = spaces.Box(0, 1, (*rows, action.choices), np.int8)
            if not action.space.is_global:
                actors = spaces.Box(-1, max(entities - 1, 0), rows, np.int64)
                boxes[f"{action.name}/actors"] = actors
        return {name: box for name, box in boxes.items() if np.prod(box.shape or 0)}


def check_no_options(options: Any) -> None:
    """Raise SettingError if ``reset`` is given options, which are not supported."""
    if options:
        raise SettingError(
            "reset does not support options", expected="None or {}", received=shorten(options)
        )


def _feature_box(features: Sequence[Feature], rows: tuple[int, ...]) -> spaces.Box:
    """Return the box of features: finite numbers, or the range of a discrete feature."""
    counts = [num_values(feature) for feature in features]
    low = [-LARGEST if count is None else 0.0 for count in counts]
    high = [LARGEST if count is None else count - 1.0 for count in counts]
    shape = (*rows, len(features))
    return spaces.Box(_all(low, shape), _all(high, shape), dtype=np.float32)


def _all(row: list[float], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    return np.broadcast_to(np.array(row, np.float32), shape).copy()


def _action_slots(
    action_space: Mapping[ActionName, ActionSpace], max_actors: Room | None, entities: int
) -> list[ActionSlots]:
    for name, space in action_space.items():
        if not space.picks_one:
            raise SettingError(
                f"action {name!r} cannot be a part of a MultiDiscrete space: it is a "
                f"{type(space).__name__}",
                expected="categorical or select-entity actions",
                received=shorten(space),
            )
    of_entities = [name for name, space in action_space.items() if not space.is_global]
    room = entities if max_actors is None else max_actors
    limits = _limits("max_actors", "action", room, of_entities)
    slots: list[ActionSlots] = []
    first = 0
    for name, space in action_space.items():
        count = limits.get(name, 1)
        if space.selects:
            count, choices = (count, entities) if entities else (0, 1)
        else:
            choices = len(space)  # type: ignore[arg-type]
        slots.append(ActionSlots(name, space, count, choices, first))
        first += count
    return slots


def _limits(argument: str, kind: str, room: Any, names: Iterable[str]) -> dict[str, int]:
    """Return the number of each name, in their order."""
    names = list(names)
    if not isinstance(room, Mapping):
        room = dict.fromkeys(names, room)
    check_known(SettingError, f"{argument} names an unknown {kind} {{}}", room, names)
    for name in names:
        if name not in room:
            raise SettingError(
                f"{argument} has no number for {kind} {name!r}",
                expected=f"a whole number >= 0 for each {kind}, or one for all",
                received=shorten(dict(room)),
            )
    return {name: check_whole(f"{argument} of {kind} {name!r}", room[name], 0) for name in names}
