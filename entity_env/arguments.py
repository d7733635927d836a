"""Checks of arguments and settings: unknown names, and values out of range.

The TypeError that Python raises for a wrong name does not list the valid names.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from inspect import signature
from numbers import Real
from typing import Any, TypeAlias, TypeVar

from entity_env.errors import EntityEnvError, SettingError, nearest, shorten
from entity_env.habits import argument_hint

__all__ = [
    "ABOVE_0",
    "FRACTION",
    "LARGEST",
    "Check",
    "Range",
    "at_least",
    "check_fields",
    "check_flag",
    "check_number",
    "check_span",
    "check_whole",
    "checked",
    "named_arguments",
    "named_settings",
    "one_of",
    "or_none",
    "quick_arguments",
    "unknown_argument",
    "whole",
    "wrong_arguments",
]

C = TypeVar("C", bound=type)
E = TypeVar("E", bound=EntityEnvError)
Hint: TypeAlias = Callable[[str, list[str]], str | None]


def named_arguments(error: type[EntityEnvError], hint: Hint = argument_hint) -> Callable[[C], C]:
    """Return a class decorator that raises ``error`` for wrong arguments.

    It makes the constructor a little slower; see ``quick_arguments`` for frequent calls.

    Args:
        error: The class of the error for wrong arguments.
        hint: A function of an unknown name and the valid names that returns what was meant.
    """

    def decorate(cls: C) -> C:
        init = cls.__init__  # type: ignore[misc]

        @functools.wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                init(self, *args, **kwargs)
            except TypeError:
                wrong = wrong_arguments(error, cls.__name__, init, (self, *args), kwargs, hint)
                if wrong is None:
                    raise
                raise wrong from None

        cls.__init__ = checked  # type: ignore[misc]
        return cls

    return decorate


@contextlib.contextmanager
def named_settings(typed: Mapping[str, Any]) -> Iterator[None]:
    """Begin errors about arguments with the settings that gave these arguments.

    Args:
        typed: Values of settings by dotted name, such as ``env.width``, whose last part is the
            name of the argument. Of two settings for one argument, the later one counts.
    """
    try:
        yield
    except ValueError as error:  # those of ragged_net carry names of arguments, too
        about = getattr(error, "about", "").split()
        given = {path.rpartition(".")[2]: path for path in typed}
        if where := [f"{given[n]}={shorten(typed[given[n]], 60)}" for n in about if n in given]:
            error.where = " ".join(where)  # type: ignore[attr-defined]
        raise


def wrong_arguments(
    error: type[EntityEnvError],
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    hint: Hint = argument_hint,
) -> EntityEnvError | None:
    """Return the error for a call that does not fit a function's signature, else None."""
    try:
        signature(function).bind(*args, **kwargs)
    except TypeError as cause:
        valid = [key for key in signature(function).parameters if key != "self"]
        unknown = [key for key in kwargs if key not in valid]
        if unknown:
            return unknown_argument(error, name, unknown, valid, hint)
        return error(f"{name} was called with wrong arguments: {cause}", options=valid)
    return None


def unknown_argument(
    error: type[E],
    name: str,
    unknown: Iterable[str],
    valid: Iterable[str],
    hint: Hint = argument_hint,
) -> E:
    """Return the error for unknown arguments, of which there is at least one."""
    valid, first = list(valid), next(iter(unknown))
    return error(f"{name} has no argument {first!r}", options=valid, hint=hint(first, valid))


def check_whole(
    what: str,
    value: Any,
    least: int = 1,
    most: int | None = None,
    error: type[EntityEnvError] = SettingError,
    hint: str | None = None,
) -> int:
    """Return ``value`` as an int if it is an integer in this range, or raise ``error``.

    Args:
        what: The name of the argument, or words for it.
        value: The value to check; integers of NumPy and torch are integers.
        least: The smallest valid value.
        most: The largest valid value; None for no limit.
        error: The class of the error.
        hint: A hint on how to correct the mistake.
    """
    number = whole(value)
    if number is None or number < least or (most is not None and number > most):
        raise error(
            f"invalid {what}",
            expected=f"a whole number >= {least}" + ("" if most is None else f" and <= {most}"),
            received=shorten(value),
            hint=hint,
            about=what if what.isidentifier() else "",
        )
    return number


def whole(value: Any) -> int | None:
    """Return an integer of any type as an int, and None for all other objects."""
    try:  # booleans by name, because a NumPy boolean would be a valid index
        return None if type(value).__name__ in ("bool", "bool_") else int(operator.index(value))
    except Exception:  # an object may raise anything
        return None


def check_number(
    what: str, value: Any, least: float = -sys.float_info.max, most: float = sys.float_info.max
) -> float:
    """Return ``value`` as a float if it is a finite number in this range, else SettingError."""
    expected = "a finite number"
    if most < sys.float_info.max:
        expected = f"a number from {least:g} to {most:g}"
    elif least > -sys.float_info.max:
        expected = f"a finite number >= {least:g}"
    Range(least, most, expected)(what, value)
    return _real(value)


def _real(value: Any) -> float:
    """Return a real number as a float, infinite if it is too large, and NaN for other objects."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    number: Any = value
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def check_flag(what: str, value: Any) -> bool:
    """Return ``value`` as a bool if it is one, also of NumPy, else SettingError."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise SettingError(
            f"invalid {what}", expected="True or False", received=shorten(value), about=what
        )
    return bool(value)


def check_span(what: str, value: Any, least: int, most: int | None = None) -> tuple[int, int]:
    """Return a whole number in this range, or a pair of them, as a pair; else SettingError."""
    pair = list(value) if hasattr(value, "__iter__") and not isinstance(value, str) else [value] * 2
    numbers = [number for number in map(whole, pair) if number is not None]
    low, high = numbers if len(numbers) == len(pair) == 2 else (1, 0)
    if not least <= low <= high or (most is not None and high > most):
        most_text = "" if most is None else f" and <= {most}"
        raise SettingError(
            f"invalid {what}",
            expected=f"a whole number >= {least}{most_text}, or a pair of them, the smaller one "
            "first",
            received=shorten(value),
            about=what,
        )
    return low, high


Check: TypeAlias = Callable[[str, Any], Any]
"""A function of a setting's name and value that returns the value or raises SettingError."""


@dataclass(frozen=True)
class Range:
    """The check of a number from ``least`` to ``most``, which ``expected`` describes."""

    least: float
    most: float
    expected: str

    def __call__(self, where: str, value: Any) -> Any:
        """Return ``value`` if it is in the range."""
        number = _real(value)
        if not self.least <= number <= self.most:  # False for NaN, too
            is_float32 = not abs(number) > LARGEST and not 0 < abs(number) < SMALLEST
            is_clear = is_float32 or "finite" in self.expected
            raise SettingError(
                f"{where} is out of range",
                expected=self.expected + ("" if is_clear else ", finite in float32"),
                received=shorten(value),
                about=where if where.isidentifier() else "",
            )
        return value


LARGEST, SMALLEST = 2.0**127, 2.0**-149
"""Powers of two that are finite and above 0 in float32."""
ABOVE_0 = Range(SMALLEST, LARGEST, "a number > 0")
FRACTION = Range(0, 1, "from 0 to 1")


def at_least(least: float) -> Range:
    """Return the check of a number that is at least ``least``."""
    return Range(least, LARGEST, f">= {least}")


def one_of(*options: str) -> Check:
    """Return the check of a name among ``options``."""

    def check(where: str, value: Any) -> Any:
        if not isinstance(value, str) or value not in options:
            raise SettingError(
                f"{where} does not exist",
                received=shorten(value),
                options=options,
                hint=nearest(value, options),
            )
        return value

    return check


def or_none(check: Check) -> Check:
    """Return the check of a value that may be None."""
    return lambda where, value: None if value is None else check(where, value)


def checked(check: Check, default: Any = MISSING) -> Any:
    """Return the field of a setting with a check."""
    return field(default=default, metadata={"check": check})


def check_fields(config: Any, path: str = "") -> None:
    """Check the fields of a dataclass, and those of dataclasses in it.

    Each value is replaced by that which its check returns. The dotted name of the field begins
    the error.

    Args:
        config: The dataclass; it may be frozen.
        path: The beginning of the names in errors, such as ``ppo.``.
    """
    for part in fields(config):
        value, where = getattr(config, part.name), path + part.name
        if is_dataclass(value):
            check_fields(value, f"{where}.")
        elif "check" in part.metadata:
            try:
                checked_value = part.metadata["check"](where, value)
            except EntityEnvError as error:
                error.about = part.name
                if not path:
                    error.where = type(config).__name__
                raise
            if checked_value is not value:
                object.__setattr__(config, part.name, checked_value)


def quick_arguments(error: type[EntityEnvError], *apart: tuple[str, str]) -> Callable[[C], C]:
    """Return a decorator for dataclasses that are made at each step.

    It writes an ``__init__`` that is as fast as that of the dataclass, and raises ``error`` for
    wrong arguments.

    Args:
        error: The class of the error.
        apart: Pairs of arguments of which only one may be given.
    """

    def decorate(cls: C) -> C:
        parts = fields(cls)
        names = [part.name for part in parts]
        needed = [part.name for part in parts if part.default is MISSING]

        def wrong(given: Mapping[str, Any], unknown: Mapping[str, Any]) -> EntityEnvError:
            if unknown:
                return unknown_argument(error, cls.__name__, unknown, names)
            if any(given[name] is MISSING for name in needed):
                return error(f"{cls.__name__} misses arguments", expected=", ".join(needed))
            one, other = next(
                pair for pair in apart if None not in (given[pair[0]], given[pair[1]])
            )
            return error(
                f"{cls.__name__} has both {one} and {other}",
                expected="one of them, or neither for all entities",
                received=f"{one}={shorten(given[one], 60)}, {other}={shorten(given[other], 60)}",
            )

        mistakes = ["unknown", *(f"{name} is MISSING" for name in needed)]
        mistakes += [f"({one} is not None and {other} is not None)" for one, other in apart]
        values = "{" + ", ".join(f"{name!r}: {name}" for name in names) + "}"
        # The __init__ of a frozen dataclass sets fields one by one, which takes four times as long.
        is_frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
        sets = [f"self.__dict__.update({values})"] if is_frozen else []
        sets = sets or [f"self.{name} = {name}" for name in names] or ["pass"]
        text = [f"def __init__({', '.join(['self', *(f'{n}=None' for n in names)])}, **unknown):"]
        text += [f"  if {' or '.join(mistakes)}:", f"    raise wrong({values}, unknown)"]
        made: dict[str, Any] = {"MISSING": MISSING, "wrong": wrong}
        exec("\n".join([*text, *(f"  {line}" for line in sets)]), made)
        init, plain = made["__init__"], cls.__init__  # type: ignore[misc]
        init.__defaults__ = tuple(part.default for part in parts)
        init.__annotations__, init.__qualname__ = plain.__annotations__, plain.__qualname__
        cls.__init__ = init  # type: ignore[misc]
        return cls

    return decorate
