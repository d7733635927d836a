"""Rows of numbers of many lists and arrays as one array, if they have common shapes.

See ``feature_columns.py`` for the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.features import LISTS, NUMBERS, as_booleans, every, valid_values
from entity_env.batching.plain_rows import bool_rows, number_rows
from entity_env.spaces import Feature, discrete_features

__all__ = [
    "ARRAYS",
    "Bools",
    "Floats",
    "Ints",
    "UnusualError",
    "are_given",
    "boolean_table",
    "booleans",
    "finite_table",
    "sizes",
    "table",
]

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

ARRAYS = {list, tuple, np.ndarray}
"""The containers of rows, ids and masks."""

_EXACT = 2.0**53
"""Integers up to this are exact in float64, and all numbers up to it are finite in float32."""


class UnusualError(Exception):
    """An error for observations that do not have common shapes, or are not valid."""


def are_given(column: Sequence[Any]) -> bool:
    """Return True if any part is not None; raise an error for other objects than lists."""
    kinds = set(map(type, column))
    if not kinds <= ARRAYS | {NoneType}:
        raise UnusualError
    return kinds != {NoneType}


def sizes(column: Sequence[Any]) -> Ints:
    """Return the length of each part. Shape: (B,)."""
    return np.fromiter(map(len, column), np.int64, len(column))


def table(
    column: Sequence[Any],
    kinds: Set[type],
    width: int,
    plain: Callable[[list[Any], int], npt.NDArray[Any] | None] = number_rows,
) -> npt.NDArray[Any]:
    """Return the rows of several lists or arrays as one array of any type. Shape: (N, width).

    Args:
        column: The rows of each frame.
        kinds: The types of the rows.
        width: The number of values in a row.
        plain: Fast function for rows of Python numbers, which returns None for others.
    """
    if kinds <= LISTS:
        rows = list(chain.from_iterable(column))
        array = plain(rows, width)
        if array is None:
            if np.ma.MaskedArray in map(type, rows):
                raise UnusualError
            array = np.array(rows) if rows else np.zeros((0, width), np.float32)
    elif kinds <= ARRAYS:
        array = _joined(column, width)
    else:
        raise UnusualError
    if array.ndim != 2 or array.shape[1] != width:
        raise UnusualError
    return array


def boolean_table(column: Sequence[Any], kinds: Set[type], width: int) -> Bools:
    """Return a table of booleans, given as booleans or as integers 0 and 1."""
    return booleans(table(column, kinds, width, bool_rows))


def booleans(array: npt.NDArray[Any]) -> Bools:
    """Convert booleans, or integers 0 and 1, to booleans; raise an error for other values."""
    truths = as_booleans(array)
    if truths is None:
        raise UnusualError
    return truths


def finite_table(array: npt.NDArray[Any], features: Sequence[Feature]) -> Floats:
    """Return a float32 table; raise if a value is not finite, too large or not discrete."""
    if array.dtype.kind not in NUMBERS:
        raise UnusualError
    if array.dtype == np.float32:
        if not every(np.isfinite(array)):
            raise UnusualError
    elif array.size and not -_EXACT < float(array.min()) <= float(array.max()) < _EXACT:
        raise UnusualError  # NaN, too, compares as False
    rows: Floats = array.astype(np.float32, copy=False)
    for column, feature in discrete_features(features).items():
        if not every(valid_values(rows[:, column], feature)):
            raise UnusualError
    return rows


def _joined(column: Sequence[Any], width: int) -> npt.NDArray[Any]:
    """Return the rows of several arrays, or of arrays and lists."""
    if set(map(type, column)) == {np.ndarray} and all(part.ndim == 2 for part in column):
        return np.concatenate(column)
    parts = [np.asarray(part) for part in column]
    if not {part.dtype.kind for part in parts} <= NUMBERS:
        raise UnusualError
    # Without rows an array may have one dimension, and any dtype.
    parts = [part for part in parts if part.shape != (0,)]
    return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)
