"""The mistake that environments in this package report beside those of ``entity_env``."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.errors import EntityEnvError, shorten

__all__ = ["EnvConfigError", "check_span", "check_whole"]


class EnvConfigError(EntityEnvError):
    """An environment parameter of the wrong type, or one that leaves no game to play."""


def check_whole(name: str, value: Any, minimum: int) -> int:
    """Return parameter ``name`` if it is a whole number >= ``minimum``, else EnvConfigError."""
    if not _is_whole(value) or value < minimum:
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected=f"a whole number >= {minimum}",
            received=shorten(value),
        )
    return int(value)


def check_span(name: str, value: Any, minimum: int) -> tuple[int, int]:
    """Parameter ``name`` as (least, most): a whole number >= ``minimum``, or a pair of them."""
    pair = tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value, value)
    if len(pair) != 2 or not all(map(_is_whole, pair)) or not minimum <= pair[0] <= pair[1]:
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected=f"a whole number >= {minimum}, or a pair of them, the smaller one first",
            received=shorten(value),
        )
    return int(pair[0]), int(pair[1])


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
