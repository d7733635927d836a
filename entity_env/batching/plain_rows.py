"""Fast conversion of lists of rows of Python numbers to arrays, with checks of all types.

NumPy converts each number of a list separately. ``marshal`` writes a whole list several times as
fast, each value after a tag for its type. Rows of the same shape become records of the same size,
and comparing the tags checks all types. Other rows are converted by NumPy.
"""

from __future__ import annotations

import functools
import itertools
import marshal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["bool_rows", "number_rows"]

_VERSION = 2
"""The version of marshal's format without references and with binary floats."""
_HEAD = 5
"""The number of bytes before the items of a list or tuple: a tag, and four for its length."""
_NUMBERS = {float: (b"g", "<f8"), int: (b"i", "<i4")}


class _Run(NamedTuple):
    """Adjacent columns of one type, with field and tag in the record and place in the rows."""

    field: str
    tag: bytes
    columns: slice


def number_rows(rows: list[Any], width: int) -> npt.NDArray[np.float32] | None:
    """Return rows of floats and ints as float32. Shape: (N, width).

    Return None unless all rows are lists, or all are tuples, and each column is all ``float`` or
    all ``int`` of 32 bits. Floats that are too large for float32 become infinite, with NumPy's
    warning.
    """
    if not _is_row(rows, width):
        return None
    record = _number_record(tuple(map(type, rows[0])))
    if record is None:
        return None
    records = _records(rows, record.dtype)
    if records is None:
        return None
    array = np.empty((len(rows), width), np.float32)
    for field, tag, columns in record.runs:
        cells = records[field]
        if cells["tag"].tobytes() != tag * cells.size:
            return None
        array[:, columns] = cells["value"]
    return array


def bool_rows(rows: list[Any], width: int) -> npt.NDArray[np.bool_] | None:
    """Return rows of True and False as booleans. Shape: (N, width).

    Return None unless all rows are lists, or all are tuples, of ``bool``.
    """
    if not _is_row(rows, width):
        return None
    records = _records(rows, _bool_record(width))
    if records is None:
        return None
    values = records["value"].tobytes()
    if values.count(b"T") + values.count(b"F") != len(values):
        return None
    true: npt.NDArray[np.bool_] = np.frombuffer(values, np.uint8) == ord("T")
    return true.reshape(len(rows), width)


def _is_row(rows: list[Any], width: int) -> bool:
    return _KNOWN and len(rows) > 0 and type(rows[0]) in (list, tuple) and 0 < len(rows[0]) == width


def _records(rows: list[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return the rows in marshal's format, if all begin like the first row and have its size."""
    try:
        written = marshal.dumps(rows, _VERSION)
    except ValueError:  # objects that marshal cannot write
        return None
    if len(written) != _HEAD + len(rows) * dtype.itemsize:
        return None
    records = np.frombuffer(written, dtype, offset=_HEAD)
    alike = records["head"].tobytes() == written[_HEAD : 2 * _HEAD] * len(rows)
    return records if alike else None


class _Record(NamedTuple):
    """The binary form of rows of numbers."""

    dtype: np.dtype[Any]
    runs: list[_Run]


@functools.lru_cache(maxsize=256)
def _number_record(types: tuple[type, ...]) -> _Record | None:
    """Return the record of rows of these types; None if one is not a number."""
    if not set(types) <= _NUMBERS.keys():
        return None
    fields: list[Any] = [("head", f"V{_HEAD}")]
    runs = []
    start = 0
    for kind, run in itertools.groupby(types):
        tag, value = _NUMBERS[kind]
        count = len(list(run))
        fields.append((f"run{start}", [("tag", "V1"), ("value", value)], (count,)))
        runs.append(_Run(f"run{start}", tag, slice(start, start + count)))
        start += count
    return _Record(np.dtype(fields), runs)


@functools.lru_cache(maxsize=256)
def _bool_record(width: int) -> np.dtype[Any]:
    return np.dtype([("head", f"V{_HEAD}"), ("value", np.uint8, (width,))])


# Python does not guarantee the format; if it differs, NumPy converts all rows.
_KNOWN = marshal.dumps([[0.5, 7], (True, False)], _VERSION) == (
    b"[\x02\0\0\0" + b"[\x02\0\0\0g\0\0\0\0\0\0\xe0?i\x07\0\0\0" + b"(\x02\0\0\0TF"
)
