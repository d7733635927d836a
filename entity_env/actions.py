"""Typed actions: the choices that an environment receives, by entity id and label.

One is made for each environment and step; a frozen dataclass takes four times as long to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.arguments import unknown_argument
from entity_env.errors import ActionShapeError
from entity_env.observation import EntityID

__all__ = [
    "Action",
    "CategoricalAction",
    "ContinuousAction",
    "GlobalCategoricalAction",
    "GlobalContinuousAction",
    "SelectEntitiesAction",
    "SelectEntityAction",
    "has_id",
    "same_ids",
]


_MISSING: Any = object()
"""Stands for an argument that must be given; Python's own check would raise its own error."""


def has_id(ids: Iterable[EntityID], wanted: object) -> bool:
    """Return True if ``wanted`` is one of ``ids``, as it would be a key: see ``same_ids``."""
    try:
        return wanted in set(ids)
    except Exception:  # no id: it cannot be hashed or compared
        return False


def same_ids(left: Sequence[object], right: Sequence[EntityID]) -> bool:
    """Return True if two lists have the same ids, as keys of a dict are the same.

    ``==`` would make an array of a NumPy number and a tuple, which is neither true nor false.
    """
    return len(left) == len(right) and all(has_id([b], a) for a, b in zip(left, right, strict=True))


@dataclass(slots=True)
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
        actors: Sequence[EntityID] = _MISSING,
        indices: npt.NDArray[np.int64] = _MISSING,
        index_to_label: Sequence[str] = _MISSING,
        probs: npt.NDArray[np.float32] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown or index_to_label is _MISSING or indices is _MISSING or actors is _MISSING:
            raise _wrong(CategoricalAction, unknown)
        self.actors = actors
        self.indices = indices
        self.index_to_label = index_to_label
        self.probs = probs

    @property
    def labels(self) -> list[str]:
        """The label that each actor chose."""
        return [self.index_to_label[index] for index in self.indices]

    def __eq__(self, other: object) -> bool:
        """Equal actors, choices and labels; probabilities do not count."""
        return (
            isinstance(other, CategoricalAction)
            and same_ids(self.actors, other.actors)
            and np.array_equal(self.indices, other.indices)
            and list(self.index_to_label) == list(other.index_to_label)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class SelectEntityAction:
    """The entities that several actors selected.

    Args:
        actors: Ids of the actors.
        actees: For each actor the id of the entity it selected.
        probs: The probability of each pair, where known; a column for each actee that the mask
            names, in the order of the mask. Shape: (A, E).
    """

    actors: Sequence[EntityID]
    actees: Sequence[EntityID]
    probs: npt.NDArray[np.float32] | None = None

    def __init__(
        self,
        actors: Sequence[EntityID] = _MISSING,
        actees: Sequence[EntityID] = _MISSING,
        probs: npt.NDArray[np.float32] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown or actees is _MISSING or actors is _MISSING:
            raise _wrong(SelectEntityAction, unknown)
        self.actors = actors
        self.actees = actees
        self.probs = probs

    def __eq__(self, other: object) -> bool:
        """Equal actors and actees; probabilities do not count."""
        return (
            isinstance(other, SelectEntityAction)
            and same_ids(self.actors, other.actors)
            and same_ids(self.actees, other.actees)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class SelectEntitiesAction:
    """The sets of entities that several actors selected.

    Args:
        actors: Ids of the actors.
        actees: For each actor the ids of the entities it selected, each once, in that order.
        probs: The probability of each pair to be the actor's first choice, where known. What is
            missing to 1 is that of the empty set. Columns as in ``SelectEntityAction``. Shape:
            (A, E).
    """

    actors: Sequence[EntityID]
    actees: Sequence[Sequence[EntityID]]
    probs: npt.NDArray[np.float32] | None = None

    def __init__(
        self,
        actors: Sequence[EntityID] = _MISSING,
        actees: Sequence[Sequence[EntityID]] = _MISSING,
        probs: npt.NDArray[np.float32] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown or actees is _MISSING or actors is _MISSING:
            raise _wrong(SelectEntitiesAction, unknown)
        self.actors = actors
        self.actees = actees
        self.probs = probs

    def __eq__(self, other: object) -> bool:
        """Equal actors and sets, whatever their order; probabilities do not count."""
        return (
            isinstance(other, SelectEntitiesAction)
            and same_ids(self.actors, other.actors)
            and len(self.actees) == len(other.actees)
            and all(
                len(own) == len(given) and all(has_id(given, one) for one in own)
                for own, given in zip(self.actees, other.actees, strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class GlobalCategoricalAction:
    """The choice of the player as a whole: its index, its label and, where known, (C,) probs."""

    index: int
    label: str
    probs: npt.NDArray[np.float32] | None = None

    def __init__(
        self,
        index: int = _MISSING,
        label: str = _MISSING,
        probs: npt.NDArray[np.float32] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown or label is _MISSING or index is _MISSING:
            raise _wrong(GlobalCategoricalAction, unknown)
        self.index = index
        self.label = label
        self.probs = probs

    def __eq__(self, other: object) -> bool:
        """Equal choices; probabilities do not count."""
        return (
            isinstance(other, GlobalCategoricalAction)
            and self.index == other.index
            and self.label == other.label
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class ContinuousAction:
    """The numbers that several actors set.

    Args:
        actors: Ids of the actors.
        values: What each of them sets. Shape: (A, K), float32, within the bounds of the space.
        mean: The means of the distributions that these were drawn from, where known. What is drawn
            beyond a bound becomes the bound. Shape: (A, K).
        std: Their deviations. Shape: (A, K).
    """

    actors: Sequence[EntityID]
    values: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32] | None = None
    std: npt.NDArray[np.float32] | None = None

    def __init__(
        self,
        actors: Sequence[EntityID] = _MISSING,
        values: npt.NDArray[np.float32] = _MISSING,
        mean: npt.NDArray[np.float32] | None = None,
        std: npt.NDArray[np.float32] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown or values is _MISSING or actors is _MISSING:
            raise _wrong(ContinuousAction, unknown, ("mean", "std"))
        self.actors = actors
        self.values = values
        self.mean = mean
        self.std = std

    def __eq__(self, other: object) -> bool:
        """Equal actors and values; distributions do not count."""
        return (
            isinstance(other, ContinuousAction)
            and same_ids(self.actors, other.actors)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class GlobalContinuousAction:
    """The numbers (K,) that the player sets, and where known ``mean`` and ``std`` (K,) of them."""

    values: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32] | None = None
    std: npt.NDArray[np.float32] | None = None

    def __init__(
        self,
        values: npt.NDArray[np.float32] = _MISSING,
        mean: npt.NDArray[np.float32] | None = None,
        std: npt.NDArray[np.float32] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown or values is _MISSING:
            raise _wrong(GlobalContinuousAction, unknown, ("mean", "std"))
        self.values = values
        self.mean = mean
        self.std = std

    def __eq__(self, other: object) -> bool:
        """Equal values; distributions do not count."""
        return isinstance(other, GlobalContinuousAction) and np.array_equal(
            self.values, other.values
        )

    __hash__ = None  # type: ignore[assignment]


Action: TypeAlias = Union[
    CategoricalAction,
    SelectEntityAction,
    SelectEntitiesAction,
    GlobalCategoricalAction,
    ContinuousAction,
    GlobalContinuousAction,
]


def _wrong(
    cls: Any, unknown: dict[str, Any], optional: Sequence[str] = ("probs",)
) -> ActionShapeError:
    """Return the error for an action that is made of other arguments than it has."""
    names = [field.name for field in fields(cls)]
    if unknown:
        return unknown_argument(ActionShapeError, cls.__name__, unknown, names)
    needed = [name for name in names if name not in optional]
    return ActionShapeError(f"{cls.__name__} is not whole", expected=", ".join(needed))
