"""Filter of the usual observations, without reading them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from entity_env.observation import (
    EntityID,
    GlobalCategoricalActionMask,
    GlobalContinuousActionMask,
    Observation,
    SelectEntityActionMask,
)
from entity_env.spaces import EntityName
from entity_env.wrappers.selection import Selection

__all__ = ["QuickFilter"]


class QuickFilter:
    """A filter of observations whose masks do not name entities that are left out.

    It does not check the parts that are kept, which the reader of the filtered observation does.

    Args:
        selection: The kept types and features.
    """

    def __init__(self, selection: Selection) -> None:
        whole, part = selection.whole, selection.part
        self._left_out = frozenset(whole.entities) - frozenset(part.entities)
        self._is_ordered = selection.keeps_types
        self._columns = {
            name: (columns.tolist(), len(whole.entities[name].features))
            for name, columns in selection.columns.items()
        }
        self._global_columns = selection.global_columns.tolist()
        self._globals = len(whole.global_features)

    def filter(self, observation: Observation) -> Observation | None:
        """Return the kept part, or None if the observation must be read first."""
        try:
            return self._filter(observation) if self._is_usual(observation) else None
        except Exception:  # an object may raise anything
            return None

    def _is_usual(self, observation: Observation) -> bool:
        """Return True if no mask changes."""
        ids: Mapping[EntityName, Any] = observation.ids or {}
        gone = {one for name in self._left_out if ids.get(name) is not None for one in ids[name]}
        for mask in (observation.actions or {}).values():
            if isinstance(mask, GlobalCategoricalActionMask | GlobalContinuousActionMask):
                continue
            if not self._stays(mask.actor_ids, mask.actor_types, gone):
                return False
            if isinstance(mask, SelectEntityActionMask) and not self._stays(
                mask.actee_ids, mask.actee_types, gone
            ):
                return False
        return True

    def _stays(
        self,
        ids: Iterable[EntityID] | None,
        types: Iterable[EntityName] | None,
        gone: set[EntityID],
    ) -> bool:
        if ids is not None:
            return not gone or gone.isdisjoint(ids)
        # Without ids and types, all entities are meant, in the order of the space.
        return self._is_ordered if types is None else self._left_out.isdisjoint(types)

    def _filter(self, observation: Observation) -> Observation | None:
        features = {}
        for name, rows in (observation.features or {}).items():
            if name in self._columns:
                columns, width = self._columns[name]
                features[name] = rows if rows is None else _some_columns(rows, columns, width)
            elif name not in self._left_out:
                return None
        return replace(
            observation,
            features=features,
            ids=self._kept(observation.ids),
            visible=self._kept(observation.visible),
            global_features=_some_columns(
                [observation.global_features], self._global_columns, self._globals
            )[0],
        )

    def _kept(self, part: Mapping[EntityName, Any] | None) -> dict[EntityName, Any]:
        return {name: own for name, own in (part or {}).items() if name not in self._left_out}


def _some_columns(rows: Any, columns: list[int], width: int) -> Any:
    """Return some columns of rows of ``width``; raise ValueError for another width."""
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ValueError("rows of another width")
        return rows[:, columns]
    if not isinstance(rows, Sequence) or any(len(row) != width for row in rows):
        raise ValueError("rows of another width")
    return [[row[column] for column in columns] for row in rows]
