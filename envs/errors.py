"""The mistake that environments in this package report beside those of ``entity_env``."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.errors import EntityEnvError, shorten

__all__ = ["EnvConfigError", "check_whole"]


class EnvConfigError(EntityEnvError):
    """An environment parameter of the wrong type, or one that leaves no game to play."""


def check_whole(name: str, value: Any, minimum: int) -> int:
    """Return parameter ``name`` if it is a whole number >= ``minimum``, else EnvConfigError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected=f"a whole number >= {minimum}",
            received=shorten(value),
        )
    return int(value)
