"""A checked observation: arrays of known types, entities by index. What batches are made of.

Entities of a frame are indexed in the order of ``ObsSpace.entities``; types that are absent are
skipped. The index after the last entity stands for the player as a whole: it is the actor of
global actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.actions import (
    Action,
    CategoricalAction,
    GlobalCategoricalAction,
    SelectEntityAction,
)
from entity_env.errors import shorten
from entity_env.kinds.continuous import ContinuousActors, answered
from entity_env.observation import EntityID
from entity_env.spaces import (
    CONTINUOUS_ACTIONS,
    GLOBAL_ACTIONS,
    ActionName,
    ActionSpace,
    EntityName,
    GlobalCategoricalActionSpace,
    SelectEntityActionSpace,
)

__all__ = [
    "RESERVED_METRICS",
    "Actors",
    "CategoricalActors",
    "Frame",
    "SelectActors",
    "entity_name",
    "typed_actions",
]

RESERVED_METRICS = ("episodic_reward", "episodic_length")
"""Metrics of every episode, which an environment cannot set."""


@dataclass(frozen=True, slots=True)
class CategoricalActors:
    """Who picks a choice: ``actors`` (A,) int64 entity indices, ``mask`` (A, C) bool."""

    actors: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SelectActors:
    """Who selects whom: ``actors`` (A,) and ``actees`` (E,) int64 entity indices.

    ``mask`` is (A, E) bool, or None where every actor can select every actee.
    """

    actors: npt.NDArray[np.int64]
    actees: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_] | None


Actors: TypeAlias = Union[CategoricalActors, SelectActors, ContinuousActors]
"""Who can take an action in a frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One observation that has passed every check.

    Args:
        features: For each entity type of the space its rows. Shape: (N, F), float32.
        global_features: Shape: (G,), float32.
        visible: For the types that hide entities a mask. Shape: (N,), bool.
        ids: The id of each entity by index; None where the type has no ids.
        actions: The actors of each action that somebody can take.
        reward: Finite.
        done: The episode is over.
        truncated: A limit ended it, not the game.
        metrics: Finite numbers.
    """

    features: Mapping[EntityName, npt.NDArray[np.float32]]
    global_features: npt.NDArray[np.float32]
    visible: Mapping[EntityName, npt.NDArray[np.bool_]]
    ids: Sequence[EntityID]
    actions: Mapping[ActionName, Actors]
    reward: float
    done: bool
    truncated: bool
    metrics: Mapping[str, float]

    @property
    def asks(self) -> bool:
        """Whether anybody in it has something to choose."""
        return not self.done and any(len(own.actors) for own in self.actions.values())


def typed_actions(
    frame: Frame,
    chosen: Mapping[ActionName, npt.NDArray[Any]],
    action_space: Mapping[ActionName, ActionSpace],
) -> dict[ActionName, Action]:
    """The actions of one frame as its environment receives them.

    Args:
        frame: The frame that the actions answer.
        chosen: For each action one number for each actor: the index of the choice, or for a
            select-entity action the index of the entity. Shape: (A,). For a continuous action its
            numbers, (A, K). Already checked.
        action_space: The environment's action space.
    """
    ids = frame.ids
    actions: dict[ActionName, Action] = {}
    for name, space in action_space.items():
        who = frame.actions.get(name)
        indices = chosen.get(name, _NOBODY)
        if isinstance(space, GlobalCategoricalActionSpace):
            if who is not None:
                index = int(indices[0])
                actions[name] = GlobalCategoricalAction(index, space.index_to_label[index])
            continue
        is_global = isinstance(space, GLOBAL_ACTIONS)
        # The player, whose index comes after all entities, has no id.
        acting = [] if who is None or is_global else who.actors.tolist()
        actors = [ids[actor] for actor in acting]
        if isinstance(space, CONTINUOUS_ACTIONS):
            values = indices.reshape(-1, len(space)).astype(np.float32, copy=False)
            (action,) = answered(is_global, actors, values, np.array([len(values)]))
            if action is not None:
                actions[name] = action
            continue
        if isinstance(space, SelectEntityActionSpace):
            actees = [ids[actee] for actee in indices.tolist()]
            actions[name] = SelectEntityAction(actors, actees)
        else:
            actions[name] = CategoricalAction(actors, indices, space.index_to_label)
    return actions


def entity_name(
    role: str, index: int, ids: Sequence[EntityID], counts: Mapping[EntityName, int]
) -> str:
    """What an error calls an entity: its role and id or, where it has none, its row and type.

    Args:
        role: What it is there, such as ``actor``.
        index: Its index in the frame.
        ids: The id of each entity by index.
        counts: The number of entities of each type, in the order of the space.
    """
    if index >= len(ids):
        return "the player"
    if ids[index] is not None:
        return f"{role} {shorten(ids[index])}"
    types = [name for name, count in counts.items() for _ in range(count)]
    return f"entity {types[:index].count(types[index])} of type {types[index]!r}"


_NOBODY = np.zeros(0, dtype=np.int64)
