"""Conversion of a table of an observation to entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.errors import SettingError, SpaceError, counted, nearest, shorten
from entity_env.interop.translated.rows import Rows
from entity_env.interop.translated.space_parts import counts_of
from entity_env.spaces import Discrete, EntityName, Feature

__all__ = ["RowTable", "is_table", "table_of"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class RowTable:
    """The conversion of the rows of a table to entities.

    Args:
        features: The features of the entities.
        kept: The column of each feature. Shape: (F,).
        width: The number of columns.
        starts: The first value of each discrete column. Shape: (width,).
        rows: The slice of the table's rows to read.
        presence: The column that is 0 in rows without an object.
        zeros_absent: True if rows of zeros have no object, too.
    """

    features: list[Feature]
    kept: npt.NDArray[np.int64]
    width: int
    starts: Array | None
    rows: slice
    presence: int | None
    zeros_absent: bool

    def read(self, given: Any) -> Array:
        """Return a copy of the features of the objects. Shape: (N, F)."""
        table = np.asarray(given)
        if table.ndim != 2 or table.shape[1] != self.width:
            raise ValueError(
                f"a table of {counted(self.width, 'column')} has the shape {table.shape}"
            )
        table = table[self.rows]
        if self.presence is not None:
            there = table[:, self.presence]
            if there.dtype.kind == "f" and np.isnan(there).any():
                raise ValueError(f"the presence column {self.presence} holds NaN")
            table = table[there != 0]
        if self.zeros_absent:
            table = table[(table != 0).any(axis=1)]
        if self.starts is not None:
            table = table - self.starts
        return table[:, self.kept]


def is_table(space: spaces.Space[Any]) -> bool:
    """Return True if a space has rows and columns of numbers."""
    kinds = spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary
    return isinstance(space, kinds) and len(space.shape) == 2


def table_of(
    space: spaces.Space[Any], entity: EntityName, asked: Rows, columns: Sequence[str] | None
) -> RowTable:
    """Return the table for an entity type.

    Args:
        space: The space of the table, for which ``is_table`` is True.
        entity: The entity type of its rows.
        asked: The settings of rows and columns.
        columns: Names of the columns from the environment, used if their number is right.

    Raises:
        SettingError: A column does not exist, or the number of names is wrong.
        SpaceError: The values of a discrete column differ from row to row.
    """
    assert space.shape is not None
    width = int(space.shape[1])
    names = asked.features
    if names is None and columns is not None and len(columns) == width:
        names = columns
    if names is not None and len(names) != width:
        raise SettingError(
            f"the rows of entity type {entity!r} have {counted(width, 'column')}",
            expected=f"features with {counted(width, 'name')}, with that of the presence column",
            received=shorten(names),
        )
    presence = _column(asked.presence, entity, names, width)
    kept = [column for column in range(width) if column != presence]
    own = [f"value[{i}]" for i in range(width)] if names is None else list(names)
    counts, starts = _counts(space, entity)
    features: list[Feature] = [
        own[i] if counts is None else Discrete(own[i], counts[i]) for i in kept
    ]
    rows = slice(None) if asked.rows is None else slice(*asked.rows)
    if asked.rows is not None and asked.rows[1] > space.shape[0]:
        raise SettingError(
            f"the rows of entity type {entity!r} end after the table",
            expected=f"rows=(first, end) with an end of at most {space.shape[0]}",
            received=asked.rows,
        )
    return RowTable(
        features, np.array(kept, np.int64), width, starts, rows, presence, bool(asked.zeros_absent)
    )


def _column(
    presence: int | str | None, entity: EntityName, names: Sequence[str] | None, width: int
) -> int | None:
    """Return the index of the presence column."""
    if presence is None:
        return None
    if isinstance(presence, str):
        if names is not None and presence in names:
            return list(names).index(presence)
        raise SettingError(
            f"entity type {entity!r} has no presence column {presence!r}"
            + (": its columns have no names" if names is None else ""),
            expected=f"a column from 0 to {width - 1}, or features=[...] with the names of all"
            if names is None
            else None,
            options=names,
            hint=None if names is None else nearest(presence, names),
        )
    if not -width <= presence < width:
        raise SettingError(
            f"entity type {entity!r} has no presence column {presence}",
            expected=f"from 0 to {width - 1}",
            received=presence,
        )
    return int(presence) % width


def _counts(space: spaces.Space[Any], entity: EntityName) -> tuple[list[int] | None, Array | None]:
    """Return the number of values of each column and the first of them; None for real numbers."""
    counted = counts_of(space)
    if counted is None:
        return None, None
    counts, starts = counted
    same = (counts == counts[0]).all() and (starts == starts[0]).all()
    if not same:
        raise SpaceError(
            f"the rows of entity type {entity!r} have discrete columns that differ",
            expected="the same number of values in every row",
            received=shorten(space),
        )
    return counts[0].tolist(), starts[0]
