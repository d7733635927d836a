"""Checks of the arguments that wrappers take."""

from __future__ import annotations

import math

import numpy as np

from entity_env.errors import SettingError, shorten

__all__ = ["checked_number", "checked_whole"]


def checked_whole(what: str, value: object) -> int:
    """``value`` as an int of at least 1, or a SettingError about ``what``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SettingError(f"{what} is not a whole number of at least 1", received=shorten(value))
    return int(value)


def checked_number(what: str, value: object) -> float:
    """``value`` as a finite float, or a SettingError about ``what``."""
    real = isinstance(value, int | float | np.integer | np.floating)
    try:
        number = float(value) if real and not isinstance(value, bool) else math.nan  # type: ignore[arg-type]
    except OverflowError:  # a whole number that no float holds
        number = math.nan
    if not math.isfinite(number):
        raise SettingError(f"{what} is not a finite number", received=shorten(value))
    return number
