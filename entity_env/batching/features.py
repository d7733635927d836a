"""Reader of features, which converts nested numbers to a checked float32 array."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set, ValuesView
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from entity_env.errors import FeatureError, counted, shorten
from entity_env.spaces import Discrete, Feature, discrete_features, feature_name

__all__ = [
    "LARGEST",
    "LISTS",
    "NUMBERS",
    "as_booleans",
    "check_values",
    "every",
    "feature_rows",
    "in_list",
    "is_listed",
    "is_masked",
    "numbers",
    "odd_part",
    "shape_of_numbers",
    "valid_values",
]

LARGEST = float(np.finfo(np.float32).max)
"""The largest absolute value of features and rewards."""
LISTS = {list, tuple}
NUMBERS = frozenset("fiub")
"""The kinds of dtypes that hold real numbers."""


def numbers(what: str, values: object, width: int | None = None) -> npt.NDArray[np.float32]:
    """Convert nested real numbers to float32; raise an error for text, objects and complex numbers.

    ``width`` is the expected length of rows, for messages.
    """
    values = in_list(values)
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise FeatureError(
            f"the features of {what} have rows of different widths",
            expected="rows of the same width"
            if width is None
            else f"{counted(width, 'number')} in each row",
            received=odd_part(values, None if width is None else (width,)),
        ) from error
    except Exception as error:  # a tensor that NumPy cannot read, or another object
        raise FeatureError(
            f"the features of {what} cannot be read: {shorten(error)}", received=shorten(values)
        ) from error
    if is_masked(values):
        raise FeatureError(
            f"the features of {what} have masked values",
            expected="real numbers",
            received=shorten(values),
            hint="replace them by numbers with filled()",
        )
    if array.dtype.kind not in NUMBERS:
        raise FeatureError(
            f"the features of {what} are not numbers",
            expected="real numbers; integers of at most 64 bits",
            received=f"dtype {array.dtype}: {odd_part(values)}",
        )
    # ``errstate`` takes longer than all the rest, so use it only if values may overflow.
    if (
        array.dtype.kind != "f"
        or array.dtype.itemsize <= 4
        or np.maximum.reduce(np.abs(array), axis=None, initial=0) <= LARGEST
    ):
        return array.astype(np.float32)
    with np.errstate(over="ignore"):  # values that overflow become infinite, which is an error
        return array.astype(np.float32)


def is_masked(values: object) -> bool:
    """Return True if values of an array are masked, because conversions drop the mask."""
    if type(values) in LISTS:  # fast for lists of numbers, the usual case
        rows: Sequence[object] = values  # type: ignore[assignment]
        is_of_arrays = len(rows) > 0 and isinstance(rows[0], np.ndarray)
        return is_of_arrays and any(map(is_masked, rows))
    return bool(np.ma.is_masked(values))  # type: ignore[no-untyped-call]


def odd_part(values: object, expected: tuple[int, ...] | None = None, at: str = "") -> str:
    """Return the first part of nested lists that is not a number, for messages.

    If all are numbers, return the first without the ``expected`` shape, or that of the part before.
    """
    if isinstance(values, list | tuple):
        for place, part in enumerate(values):
            shape = shape_of_numbers(part)
            if shape is None:
                return odd_part(part, None, f"{at}[{place}]")
            if shape != (expected or shape):
                return f"{shorten(part)} at {at}[{place}]"
            expected = shape
    return f"{shorten(values)} at {at}" if at else shorten(values)


def is_listed(names: object) -> TypeGuard[Collection[Any]]:
    """Return True if names or ids are in a list, a set or the like, or in an array with a length.

    Iterators are not accepted, because an observation may be read more than once.
    """
    return type(names) is list or (
        isinstance(names, Sequence | Set | ValuesView | np.ndarray)
        and not isinstance(names, str)
        and getattr(names, "ndim", 1) > 0
    )


def in_list(values: object) -> object:
    """Return sets, and keys and values of dicts, as lists; other values unchanged."""
    return list(values) if isinstance(values, Set | ValuesView) else values


def shape_of_numbers(part: object) -> tuple[int, ...] | None:
    """Return the shape of an array of numbers, or None for another value."""
    try:
        array = np.asarray(part)
    except Exception:
        return None
    return array.shape if array.dtype.kind in NUMBERS else None


def feature_rows(what: str, values: object, features: Sequence[Feature]) -> npt.NDArray[np.float32]:
    """Return rows of features, (N, F) float32; None and an empty list have no rows."""
    width = len(features)
    if values is None:
        return np.zeros((0, width), dtype=np.float32)
    rows = numbers(what, values, width)
    if rows.ndim == 1 and len(rows) == 0:
        rows = rows.reshape(0, width)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise FeatureError(
            f"the features of {what} have the wrong shape",
            expected=f"(entities, {width}): {', '.join(map(feature_name, features)) or 'none'}",
            received=f"shape {rows.shape}: {shorten(values)}",
        )
    check_values(what, rows, features)
    return rows


def check_values(what: str, rows: npt.NDArray[np.float32], features: Sequence[Feature]) -> None:
    """Raise an error for values that are not finite, and discrete values out of range."""
    if not every(np.isfinite(rows)):
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise FeatureError(
            f"{what}, row {row}: feature {feature_name(features[column])!r} is not finite",
            expected="a finite number within the range of float32",
            received=rows[row, column],
        )
    for column, feature in discrete_features(features).items():
        values = rows[:, column]
        valid = valid_values(values, feature)
        if not every(valid):
            row = int(np.argmin(valid))
            raise FeatureError(
                f"{what}, row {row}: discrete feature {feature.name!r} is out of range",
                expected=f"a whole number from 0 to {feature.n - 1}",
                received=values[row],
            )


def valid_values(values: npt.NDArray[np.float32], feature: Discrete) -> npt.NDArray[np.bool_]:
    """Return a mask of the values (N,) that a discrete feature may have."""
    valid: npt.NDArray[np.bool_]
    valid = (values >= 0) & (values < feature.n) & (values == np.floor(values))
    return valid


def as_booleans(array: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
    """Convert an array of booleans, or of integers 0 and 1, to booleans; None for another."""
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind not in "iu" or not every((array == 0) | (array == 1)):
        return None
    return array.astype(np.bool_)


def every(truths: npt.NDArray[np.bool_]) -> bool:
    """Return ``truths.all()``, four to ten times as fast for up to some 10,000 values."""
    return 0 not in truths.tobytes()
