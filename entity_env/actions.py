"""What an environment receives: for each action who chose what, by entity id and label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.observation import EntityID

__all__ = ["Action", "CategoricalAction", "GlobalCategoricalAction", "SelectEntityAction"]


@dataclass(frozen=True, init=False)
class CategoricalAction:
    """The choices of several actors.

    Args:
        actors: Ids of the actors; an actor whose type has no ids appears as None.
        indices: The index that each actor chose. Shape: (A,), int64.
        index_to_label: The label of each index.
        probs: The probability of each choice for each actor, where known. Shape: (A, C).
    """

    actors: Sequence[EntityID]
    indices: npt.NDArray[np.int64]
    index_to_label: Sequence[str]
    probs: npt.NDArray[np.float32] | None = None

    def __init__(
        self,
        actors: Sequence[EntityID],
        indices: npt.NDArray[np.int64],
        index_to_label: Sequence[str],
        probs: npt.NDArray[np.float32] | None = None,
    ) -> None:
        # One is made for each environment and step, and this way in half the time.
        own = self.__dict__
        own["actors"] = actors
        own["indices"] = indices
        own["index_to_label"] = index_to_label
        own["probs"] = probs

    @classmethod
    def deal(
        cls,
        actors: Sequence[EntityID],
        indices: npt.NDArray[np.int64],
        ends: Sequence[int],
        index_to_label: Sequence[str],
    ) -> list[CategoricalAction]:
        """One action for each frame: those of frame ``i`` end before ``ends[i]``."""
        dealt = []
        new, start = cls.__new__, 0
        for end in ends:
            action = new(cls)
            own = action.__dict__  # as in __init__, without the call; probs are None by default
            own["actors"] = actors[start:end]
            own["indices"] = indices[start:end]
            own["index_to_label"] = index_to_label
            dealt.append(action)
            start = end
        return dealt

    @property
    def labels(self) -> list[str]:
        """The label that each actor chose."""
        return [self.index_to_label[index] for index in self.indices]

    def __eq__(self, other: object) -> bool:
        """Equal actors, choices and labels; probabilities do not count."""
        return (
            isinstance(other, CategoricalAction)
            and list(self.actors) == list(other.actors)
            and np.array_equal(self.indices, other.indices)
            and list(self.index_to_label) == list(other.index_to_label)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, init=False)
class SelectEntityAction:
    """The entities that several actors selected.

    Args:
        actors: Ids of the actors.
        actees: For each actor the id of the entity it selected.
        probs: The probability of each pair, where known. Shape: (A, E).
    """

    actors: Sequence[EntityID]
    actees: Sequence[EntityID]
    probs: npt.NDArray[np.float32] | None = None

    def __init__(
        self,
        actors: Sequence[EntityID],
        actees: Sequence[EntityID],
        probs: npt.NDArray[np.float32] | None = None,
    ) -> None:
        own = self.__dict__
        own["actors"] = actors
        own["actees"] = actees
        own["probs"] = probs

    @classmethod
    def deal(
        cls, actors: Sequence[EntityID], actees: Sequence[EntityID], ends: Sequence[int]
    ) -> list[SelectEntityAction]:
        """One action for each frame: those of frame ``i`` end before ``ends[i]``."""
        dealt = []
        new, start = cls.__new__, 0
        for end in ends:
            action = new(cls)
            own = action.__dict__
            own["actors"] = actors[start:end]
            own["actees"] = actees[start:end]
            dealt.append(action)
            start = end
        return dealt

    def __eq__(self, other: object) -> bool:
        """Equal actors and actees; probabilities do not count."""
        return (
            isinstance(other, SelectEntityAction)
            and list(self.actors) == list(other.actors)
            and list(self.actees) == list(other.actees)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class GlobalCategoricalAction:
    """The choice of the player as a whole: its index, its label and, where known, (C,) probs."""

    index: int
    label: str
    probs: npt.NDArray[np.float32] | None = None

    def __eq__(self, other: object) -> bool:
        """Equal choices; probabilities do not count."""
        return (
            isinstance(other, GlobalCategoricalAction)
            and self.index == other.index
            and self.label == other.label
        )

    __hash__ = None  # type: ignore[assignment]


Action: TypeAlias = Union[CategoricalAction, SelectEntityAction, GlobalCategoricalAction]
