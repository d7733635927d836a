"""Typed actions, which environments receive: choices by entity id and label.

They are not frozen: each step makes one for each environment, and a frozen dataclass takes four
times as long to make.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.arguments import quick_arguments
from entity_env.errors import ActionError
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
    """Return True if ``wanted`` is one of ``ids``, compared in the way of ``same_ids``."""
    try:
        return wanted in set(ids)
    except Exception:  # not an id: it cannot be hashed or compared
        return False


def same_ids(left: Sequence[object], right: Sequence[EntityID]) -> bool:
    """Return True if two lists have the same ids, compared like the keys of a dict.

    ``==`` between a NumPy number and a tuple would return an array, which has no truth value.
    """
    return len(left) == len(right) and all(has_id([b], a) for a, b in zip(left, right, strict=True))


def _same_sets(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(
        len(a) == len(b) and all(has_id(b, one) for one in a)
        for a, b in zip(left, right, strict=True)
    )


class _Chosen:
    """Equality of actions by their choices; probabilities and distributions do not count."""

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


@quick_arguments(ActionError)
@dataclass(slots=True, eq=False)
class CategoricalAction(_Chosen):
    """The choices of several actors.

    Args:
        actors: Ids of the actors; None for an actor whose type has no ids.
        indices: The index of each actor's choice. Shape: (A,), int64.
        index_to_label: The label of each index.
        probs: The probability of each choice for each actor, if known. Shape: (A, C).
    """

    actors: Sequence[EntityID]
    indices: npt.NDArray[np.int64]
    index_to_label: Sequence[str]
    probs: npt.NDArray[np.float32] | None = None

    @property
    def labels(self) -> list[str]:
        """The label of each actor's choice."""
        return [self.index_to_label[index] for index in self.indices]


@quick_arguments(ActionError)
@dataclass(slots=True, eq=False)
class SelectEntityAction(_Chosen):
    """The entities that several actors selected.

    Args:
        actors: Ids of the actors.
        actees: The id of the entity that each actor selected.
        probs: The probability of each pair, if known, with a column for each actee of the mask, in
            the order of the mask. Shape: (A, E).
    """

    actors: Sequence[EntityID]
    actees: Sequence[EntityID]
    probs: npt.NDArray[np.float32] | None = None


@quick_arguments(ActionError)
@dataclass(slots=True, eq=False)
class SelectEntitiesAction(_Chosen):
    """The sets of entities that several actors selected.

    Args:
        actors: Ids of the actors.
        actees: The ids of the entities that each actor selected, each once, in this order.
        probs: The probability that each actee is the actor's first choice, if known, with the
            columns of ``SelectEntityAction``. The rest to 1 is the probability of the empty set.
            Shape: (A, E).
    """

    actors: Sequence[EntityID]
    actees: Sequence[Sequence[EntityID]]
    probs: npt.NDArray[np.float32] | None = None

    _same: ClassVar = {**_Chosen._same, "actees": _same_sets}  # in any order


@quick_arguments(ActionError)
@dataclass(slots=True, eq=False)
class GlobalCategoricalAction(_Chosen):
    """The choice of the player as a whole: its index, its label and, if known, (C,) probs."""

    index: int
    label: str
    probs: npt.NDArray[np.float32] | None = None


@quick_arguments(ActionError)
@dataclass(slots=True, eq=False)
class ContinuousAction(_Chosen):
    """The numbers that several actors set.

    Args:
        actors: Ids of the actors.
        values: The numbers of each actor, within the bounds of the space. Shape: (A, K), float32.
        mean: The means of the distributions of the numbers before they are clipped to the bounds,
            if known. Shape: (A, K).
        std: The standard deviations of these distributions, if known. Shape: (A, K).
    """

    actors: Sequence[EntityID]
    values: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32] | None = None
    std: npt.NDArray[np.float32] | None = None


@quick_arguments(ActionError)
@dataclass(slots=True, eq=False)
class GlobalContinuousAction(_Chosen):
    """The numbers (K,) that the player sets and, if known, their ``mean`` and ``std`` (K,)."""

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
