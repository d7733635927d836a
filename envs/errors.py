"""The mistake that environments in this package report beside those of ``entity_env``."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.errors import EntityEnvError, shorten

__all__ = ["EnvConfigError", "check_flag", "check_number", "check_span", "check_whole"]


class EnvConfigError(EntityEnvError):
    """An environment parameter of the wrong type, or one that leaves no game to play."""


def check_flag(name: str, value: Any) -> bool:
    """Return parameter ``name`` if it is True or False, else EnvConfigError."""
    if not isinstance(value, bool | np.bool_):
        raise EnvConfigError(
            f"invalid parameter {name}", expected="True or False", received=shorten(value)
        )
    return bool(value)


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return parameter ``name`` if it is a whole number in this range, else EnvConfigError."""
    if not _is_within(value, least, most):
        raise EnvConfigError(
            f"invalid parameter {name}", expected=_range(least, most), received=shorten(value)
        )
    return int(value)


def check_number(name: str, value: Any, least: float, most: float) -> float:
    """Return parameter ``name`` if it is a number in this range, else EnvConfigError."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected=f"a number from {least:g} to {most:g}",
            received=shorten(value),
        )
    return float(value)


def check_span(name: str, value: Any, least: int, most: int | None = None) -> tuple[int, int]:
    """Parameter ``name`` as (lower, upper): a whole number in this range, or a pair of them."""
    pair = tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value, value)
    good = len(pair) == 2 and all(_is_within(n, least, most) for n in pair)
    if not good or pair[0] > pair[1]:
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected=f"{_range(least, most)}, or a pair of them, the smaller one first",
            received=shorten(value),
        )
    return int(pair[0]), int(pair[1])


def _is_within(value: Any, least: int, most: int | None) -> bool:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and bool(value >= least) and (most is None or bool(value <= most))


def _range(least: int, most: int | None) -> str:
    return f"a whole number >= {least}" + ("" if most is None else f" and <= {most}")
