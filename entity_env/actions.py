"""Typed actions: the choices that an environment receives, by entity id and label.

One is made for each environment and step; a frozen dataclass takes four times as long to make.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.arguments import quick_arguments
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


def _same_sets(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(
        len(a) == len(b) and all(has_id(b, one) for one in a)
        for a, b in zip(left, right, strict=True)
    )


class _Chosen:
    """Equality of actions by what must be given; probabilities and distributions do not count."""

    __slots__ = ()
    _same: ClassVar[Mapping[str, Callable[[Any, Any], bool]]] = {
        "actors": same_ids,
        "actees": same_ids,
        "indices": np.array_equal,
        "values": np.array_equal,
        "index": operator.eq,
        "label": operator.eq,
        "index_to_label": lambda left, right: list(left) == list(right),
    }

    def __eq__(self, other: object) -> bool:
        chosen: Any = self
        names = [part.name for part in fields(chosen) if part.default is MISSING]
        return isinstance(other, type(self)) and all(
            self._same[name](getattr(self, name), getattr(other, name)) for name in names
        )

    __hash__ = None  # type: ignore[assignment]


@quick_arguments(ActionShapeError)
@dataclass(slots=True, eq=False)
class CategoricalAction(_Chosen):
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

    @property
    def labels(self) -> list[str]:
        """The label that each actor chose."""
        return [self.index_to_label[index] for index in self.indices]


@quick_arguments(ActionShapeError)
@dataclass(slots=True, eq=False)
class SelectEntityAction(_Chosen):
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


@quick_arguments(ActionShapeError)
@dataclass(slots=True, eq=False)
class SelectEntitiesAction(_Chosen):
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

    _same: ClassVar = {**_Chosen._same, "actees": _same_sets}  # whatever their order


@quick_arguments(ActionShapeError)
@dataclass(slots=True, eq=False)
class GlobalCategoricalAction(_Chosen):
    """The choice of the player as a whole: its index, its label and, where known, (C,) probs."""

    index: int
    label: str
    probs: npt.NDArray[np.float32] | None = None


@quick_arguments(ActionShapeError)
@dataclass(slots=True, eq=False)
class ContinuousAction(_Chosen):
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


@quick_arguments(ActionShapeError)
@dataclass(slots=True, eq=False)
class GlobalContinuousAction(_Chosen):
    """The numbers (K,) that the player sets, and where known ``mean`` and ``std`` (K,) of them."""

    values: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32] | None = None
    std: npt.NDArray[np.float32] | None = None


Action: TypeAlias = Union[
    CategoricalAction,
    SelectEntityAction,
    SelectEntitiesAction,
    GlobalCategoricalAction,
    ContinuousAction,
    GlobalContinuousAction,
]
