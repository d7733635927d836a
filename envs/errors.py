"""The error class of environments in this package, besides those of ``entity_env``."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env import arguments
from entity_env.errors import EntityEnvError, shorten

__all__ = ["EnvConfigError", "check_flag", "check_number", "check_span", "check_whole"]


class EnvConfigError(EntityEnvError):
    """An environment parameter of the wrong type, or one that makes the game impossible."""


def check_flag(name: str, value: Any) -> bool:
    """Return parameter ``name`` if it is True or False, else EnvConfigError."""
    if not isinstance(value, bool | np.bool_):
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected="True or False",
            received=shorten(value),
            about=name,
        )
    return bool(value)


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return parameter ``name`` if it is a whole number in this range, else EnvConfigError."""
    return arguments.check_whole(
        f"parameter {name}", value, least, most, EnvConfigError, about=name
    )


def check_number(name: str, value: Any, least: float, most: float) -> float:
    """Return parameter ``name`` if it is a number in this range, else EnvConfigError."""
    return arguments.check_number(f"parameter {name}", value, least, most, EnvConfigError, name)


def check_span(name: str, value: Any, least: int, most: int | None = None) -> tuple[int, int]:
    """Return parameter ``name``, a whole number in this range or a pair of them, as a pair."""
    pair = tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value, value)
    try:
        low, high = (check_whole(name, own, least, most) for own in pair)
    except ValueError:  # which an EnvConfigError is, too
        low, high = 1, 0
    if low > high:
        most_text = "" if most is None else f" and <= {most}"
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected=f"a whole number >= {least}{most_text}, or a pair of them, the smaller one "
            "first",
            received=shorten(value),
            about=name,
        )
    return low, high
