"""Reader of action masks, which converts actors to entity indices and masks to booleans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.features import as_booleans, every, in_list, is_listed, is_masked, odd_part
from entity_env.batching.frame import entity_name
from entity_env.errors import (
    EntityEnvError,
    MaskError,
    ObservationError,
    counted,
    shorten,
    unknown_name,
)
from entity_env.observation import EntityID
from entity_env.spaces import EntityName

__all__ = ["ONCE_ONLY", "MaskReader", "bool_array"]

ONCE_ONLY = "convert it by list(...), because a generator can be read only once"
"""The hint for generators in the place of lists."""


@dataclass(frozen=True, slots=True)
class MaskReader:
    """A reader of the action masks of one frame.

    Args:
        counts: The number of entities of each type, in the order of the space.
        visible: A mask of each type with hidden entities. Shape: (N,).
        ids: The id of each entity by index.
        index_of: The index of each id.
    """

    counts: Mapping[EntityName, int]
    visible: Mapping[EntityName, npt.NDArray[np.bool_]]
    ids: Sequence[EntityID]
    index_of: Mapping[EntityID, int]

    def entities(self, action: str, role: str, ids: Any, types: Any) -> list[int]:
        """Return the entities that a mask names by ``ids`` or ``types``; with neither, all of them.

        Args:
            action: The name of the action.
            role: Role of the entities: ``actor``, or ``actee``.
            ids: Their ids.
            types: Their types.

        Raises:
            ObservationError: A name is not valid.
        """
        if ids is not None:
            indices = [self._index(action, role, entity) for entity in _listed(action, role, ids)]
        elif types is not None:
            indices = self._of_types(action, role, _listed(action, role, types, ordered=True))
        else:
            indices = list(range(len(self.ids)))
        if len(set(indices)) != len(indices):
            twice = next(index for index in indices if indices.count(index) > 1)
            raise MaskError(
                f"action {action!r} names an {role} twice",
                expected=f"each {role} once",
                received=self._name(role, twice),
            )
        if self.visible:
            self._check_visible(action, role, indices)
        return indices

    def _index(self, action: str, role: str, entity_id: EntityID) -> int:
        try:
            return self.index_of[entity_id]
        except TypeError as error:
            raise ObservationError(
                f"action {action!r}: an {role} id cannot be hashed", received=shorten(entity_id)
            ) from error
        except KeyError:
            pass
        if len(self.index_of) < len(self.ids) and not self.index_of:
            raise ObservationError(
                f"action {action!r} names an {role} by id, but the entities have no ids",
                expected="ids in the observation, or actor_types and actee_types in the mask",
                received=shorten(entity_id),
            )
        raise MaskError(
            f"action {action!r}: {role} {shorten(entity_id)} is not in the frame",
            options=list(self.index_of)[:20],
        )

    def _of_types(self, action: str, role: str, types: Sequence[EntityName]) -> list[int]:
        starts: dict[EntityName, int] = {}
        total = 0
        for name, count in self.counts.items():
            starts[name] = total
            total += count
        indices: list[int] = []
        for name in types:
            if not isinstance(name, str) or name not in starts:
                raise unknown_name(
                    ObservationError,
                    f"action {action!r}: unknown entity type {shorten(name)} in {role}_types",
                    name,
                    self.counts,
                )
            indices.extend(range(starts[name], starts[name] + self.counts[name]))
        return indices

    def _check_visible(self, action: str, role: str, indices: list[int]) -> None:
        shown = np.concatenate(
            [
                self.visible.get(name, np.ones(count, dtype=np.bool_))
                for name, count in self.counts.items()
            ]
        )
        for index in indices:
            if not shown[index]:
                raise ObservationError(
                    f"action {action!r}: {self._name(role, index)} is hidden",
                    expected=f"{role}s that the policy can see; cells of a Grid must be declared "
                    "with cells=True",
                )

    def allowed(
        self, action: str, mask: object, actors: Sequence[int], width: int, columns: str
    ) -> npt.NDArray[np.bool_] | None:
        """Return the mask as (actors, width) booleans with at least one True in each row.

        Args:
            action: The name of the action.
            mask: The given mask; None allows everything.
            actors: The indices of the actors.
            width: The number of columns.
            columns: Name of the columns, for errors.

        Raises:
            MaskError: The mask is not valid.
        """
        if mask is None:
            return None
        values = bool_array(f"the mask of action {action!r}", mask, MaskError)
        if not actors and values.size == 0:
            return None
        if values.shape != (len(actors), width):
            raise MaskError(
                f"the mask of action {action!r} has the wrong shape",
                expected=f"({counted(len(actors), 'actor')}, {width} {columns})",
                received=f"shape {values.shape}",
            )
        if not every(np.logical_or.reduce(values, axis=1)):
            actor = actors[int(np.argmin(values.any(axis=1)))]
            absent = "actor" if actor < len(self.ids) else "action"
            raise MaskError(
                f"action {action!r}: the mask leaves {self._name('actor', actor)} without a choice",
                expected=f"at least one True among {width} {columns}, or leave the {absent} out",
            )
        return values

    def _name(self, role: str, index: int) -> str:
        return entity_name(role, index, self.ids, self.counts)


def bool_array(what: str, values: object, error: type[EntityEnvError]) -> npt.NDArray[np.bool_]:
    """Convert booleans, or integers 0 and 1, to a new boolean array."""
    values = in_list(values)
    try:
        array = np.array(values)
    except ValueError as cause:
        kind = MaskError if error is MaskError else error
        raise kind(
            f"{what} has rows of different widths",
            expected="rows of the same width",
            received=odd_part(values),
        ) from cause
    except Exception as cause:  # a tensor that NumPy cannot read, or another object
        raise error(f"{what} cannot be read: {shorten(cause)}", received=shorten(values)) from cause
    if is_masked(values):
        raise error(
            f"{what} has masked values", expected="True and False", received=shorten(values)
        )
    truths = as_booleans(array) if array.size else array.astype(np.bool_)
    if truths is None:
        raise error(
            f"{what} is not boolean",
            expected="True and False",
            received=f"dtype {array.dtype}: {odd_part(values)}",
        )
    return truths


def _listed(action: str, role: str, names: Any, ordered: bool = False) -> Sequence[Any]:
    """Return names as a list; ``ordered`` excludes sets, whose order differs between runs."""
    if not is_listed(names) or (ordered and isinstance(names, set | frozenset)):
        raise MaskError(
            f"action {action!r}: the {role}s are not a list",
            expected=f"a list of {role} ids or entity types",
            received=shorten(names),
            hint=ONCE_ONLY if isinstance(names, Iterator) else None,
        )
    return list(names)
