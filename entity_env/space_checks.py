"""Checks of the parts of spaces: names, lists, numbers. Without NumPy."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from entity_env.arguments import check_whole, whole
from entity_env.errors import SpaceError, counted, shorten

__all__ = [
    "check_name",
    "check_unique",
    "checked_bounds",
    "checked_flags",
    "checked_labels",
    "checked_shape",
    "checked_size",
    "in_order",
    "inner_float32",
    "is_finite_number",
    "plain_number",
]

_MOST_VALUES = 2**24
_MOST_FLAGS = 24
_WHY_SO_FEW = "features are float32, which cannot represent all larger integers"
_SIDES = "height and width, two whole numbers of at least 1"


def check_name(kind: str, name: object) -> None:
    """Raise SpaceError unless ``name`` is a non-empty string."""
    if not isinstance(name, str) or not _behaves(name) or not name:
        raise SpaceError(f"{kind} name is not a non-empty string", received=shorten(name))


def _behaves(name: str) -> bool:
    """Return True if a string, perhaps of a subclass, can be looked up and printed."""
    if type(name) is str:
        return True
    try:
        return name in {name: str(name)} and bool(repr(name)) and bool(name) == bool(list(name))
    except Exception:
        return False


def check_unique(kind: str, names: list[str]) -> None:
    """Raise SpaceError if a name occurs twice."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SpaceError(f"{kind} {twice!r} is given twice", received=shorten(names))


def is_finite_number(value: Any) -> bool:
    """Return True for a number, of Python's or NumPy's, that is finite as a float32."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(struct.unpack("f", struct.pack("f", value))[0])
    except Exception:  # too large for float32, or another class
        return False


def plain_number(value: Any) -> Any:
    """Convert NumPy numbers to Python's, for JSON; return other objects unchanged."""
    kept: tuple[type, ...] = (int, float)
    return float(value) if isinstance(value, Real) and type(value) not in kept else value


def in_order(what: str, items: object, expected: str, hint: str | None = None) -> tuple[Any, ...]:
    """Return the items of a list or another ordered collection.

    Raises:
        SpaceError: A string, a dict, a set, or an object without items; ``hint`` is for dicts.
    """
    unordered = isinstance(items, set | frozenset)
    if isinstance(items, str | Mapping) or unordered or not isinstance(items, Iterable):
        if not isinstance(items, Mapping):
            hint = "a set has no fixed order: use a list" if unordered else None
        raise SpaceError(
            f"{what} are not a list", expected=expected, received=shorten(items), hint=hint
        )
    try:
        return tuple(items)
    except Exception as error:  # an object may raise anything
        raise SpaceError(
            f"{what} cannot be read: {shorten(error)}", expected=expected, received=shorten(items)
        ) from error


def checked_labels(labels: object) -> tuple[str, ...]:
    """Return the labels of a categorical action; check that there are some, without repetition."""
    expected = "a list of strings, one for each choice"
    checked = in_order("the labels of an action", labels, expected)
    if not checked:
        raise SpaceError("an action has no choices", expected="at least one label")
    for label in checked:
        check_name("label", label)
    check_unique("label", list(checked))
    return checked


def checked_names(feature: str, n: int, names: object) -> tuple[str, ...]:
    """Return the names of a discrete feature's values: no names, or n different names."""
    expected = f"a list of {n} strings, one for each value, or none"
    checked = in_order(f"the names of {feature!r}", names, expected)
    for name in checked:
        check_name("value", name)
    check_unique("value", list(checked))
    if checked and len(checked) != n:
        raise SpaceError(
            f"discrete feature {feature!r} has {counted(n, 'value')}, "
            f"but {counted(len(checked), 'name')}",
            expected=expected,
            received=shorten(names),
        )
    return checked


def checked_size(feature: str, n: Any) -> int:
    """Return the number of values of a discrete feature as an int."""
    what = f"number of values of the discrete feature {feature!r}"
    hint = f"{_WHY_SO_FEW}: use several features, or a continuous one"
    return check_whole(what, n, 1, _MOST_VALUES, SpaceError, hint)


def checked_flags(feature: str, count: Any) -> int:
    """Return the number of flags as an int."""
    return check_whole(
        f"number of flags of {feature!r}", count, 1, _MOST_FLAGS, SpaceError, _WHY_SO_FEW
    )


def checked_shape(shape: object) -> tuple[int, int]:
    """Return the height and the width of a grid."""
    sides = [whole(side) or 0 for side in in_order("the sides of a Grid", shape, _SIDES)]
    if len(sides) != 2 or min(sides) < 1:
        raise SpaceError("a Grid has a wrong shape", expected=_SIDES, received=shorten(shape))
    return sides[0], sides[1]


def checked_bounds(low: object, high: object) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the lower and upper bounds of the numbers of a continuous action.

    Args:
        low: One number, or a list of K numbers; None or infinity for no bound.
        high: Upper bounds, likewise.

    Raises:
        SpaceError: The numbers of bounds differ, a bound is not a number, or there is no float32
            between two bounds.
    """
    lows, highs = _bounds("low", low, -math.inf), _bounds("high", high, math.inf)
    if len(lows) != len(highs) or not lows:
        raise SpaceError(
            "a continuous action has different numbers of low and high bounds"
            if lows or highs
            else "a continuous action has no numbers",
            expected="the same number of both, at least one",
            received=f"{len(lows)} and {len(highs)}",
        )
    for place, (least, greatest) in enumerate(zip(lows, highs, strict=True)):
        if not inner_float32(least, up=True) < inner_float32(greatest, up=False):
            raise SpaceError(
                f"number {place} of a continuous action has bounds without numbers in between",
                expected="low < high, and more than one float32 in between",
                received=f"low={least!r}, high={greatest!r}",
            )
    return lows, highs


def inner_float32(bound: float, *, up: bool) -> float:
    """Round a bound to float32, upwards (``up``) or downwards."""
    try:
        near: float = struct.unpack("f", struct.pack("f", bound))[0]
    except OverflowError:  # too large for float32
        return math.copysign(_LARGEST if (bound < 0) == up else math.inf, bound)
    if near == bound or (near > bound) == up:
        return near
    if near == 0.0:  # the bound is smaller than all float32 but 0
        return _SMALLEST if up else -_SMALLEST
    # The float32 numbers of the same sign are ordered like their bits.
    bits = struct.unpack("i", struct.pack("f", near))[0] + (1 if (near > 0) == up else -1)
    inner: float = struct.unpack("f", struct.pack("i", bits))[0]
    return inner


_LARGEST = (2 - 2**-23) * 2.0**127
_SMALLEST = 2.0**-149


def _bounds(what: str, given: Any, absent: float) -> tuple[float, ...]:
    items = given
    try:
        is_one = not isinstance(given, Iterable) or getattr(given, "shape", None) == ()
    except Exception:  # nested tensors of torch have no shape
        is_one = True
    if is_one or isinstance(given, str):
        items = [given]
    bounds = in_order(f"the {what} bounds of an action", items, "a number, or a list of numbers")
    return tuple(absent if bound is None else _bound(what, bound, absent) for bound in bounds)


def _bound(what: str, bound: Any, absent: float) -> float:
    try:
        if type(bound).__name__ in ("bool", "bool_") or isinstance(bound, str | bytes):
            raise TypeError
        number = float(bound)
    except Exception as error:  # an object may raise anything
        raise SpaceError(
            f"a {what} bound of a continuous action is not a number",
            expected="a number, or None for no bound",
            received=shorten(bound),
        ) from error
    if math.isnan(number) or number == -absent:
        raise SpaceError(
            f"a {what} bound of a continuous action cannot be {number}",
            expected="a number, or None for no bound",
            received=shorten(bound),
        )
    return number
