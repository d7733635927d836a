"""Frames: checked observations with arrays of known types, from which batches are packed.

Entities of a frame are indexed in the order of ``ObsSpace.entities``; types that are absent are
skipped. The index after the last entity stands for the player as a whole: it is the actor of
global actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from entity_env.errors import shorten
from entity_env.observation import EntityID
from entity_env.spaces import ActionName, EntityName

__all__ = ["RESERVED_METRICS", "Frame", "FrameActors", "entity_name"]

RESERVED_METRICS = ("episodic_reward", "episodic_length")
"""Metrics of every episode, which an environment cannot set."""


@dataclass(frozen=True, slots=True)
class FrameActors:
    """The actors of an action in a frame; each kind of action adds its own parts.

    Args:
        actors: Entity indices. Shape: (A,), int64.
    """

    actors: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Frame:
    """One observation that has passed every check.

    Args:
        features: The rows of each entity type of the space. Shape: (N, F), float32.
        global_features: Shape: (G,), float32.
        visible: A mask of each type with hidden entities. Shape: (N,), bool.
        ids: The id of each entity by index; None for types without ids.
        actions: The actors of each action that has some.
        reward: The reward, finite.
        done: True if the episode is over.
        truncated: True if a limit ended it, not the game.
        metrics: The metrics, finite.
    """

    features: Mapping[EntityName, npt.NDArray[np.float32]]
    global_features: npt.NDArray[np.float32]
    visible: Mapping[EntityName, npt.NDArray[np.bool_]]
    ids: Sequence[EntityID]
    actions: Mapping[ActionName, FrameActors]
    reward: float
    done: bool
    truncated: bool
    metrics: Mapping[str, float]

    @property
    def asks(self) -> bool:
        """True if any action has actors."""
        return not self.done and any(len(own.actors) for own in self.actions.values())


def entity_name(
    role: str, index: int, ids: Sequence[EntityID], counts: Mapping[EntityName, int]
) -> str:
    """Return the name of an entity in errors: role and id, or its row and type.

    Args:
        role: Role of the entity, such as ``actor``.
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
