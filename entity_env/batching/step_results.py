"""Reader of the results of a step: its reward, the end of the episode, and metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env.batching.features import LARGEST, NUMBERS
from entity_env.batching.frame import RESERVED_METRICS
from entity_env.errors import ObservationError, shorten
from entity_env.observation import Observation

__all__ = ["is_over", "is_true", "read_end", "read_metrics", "read_reward"]


def read_reward(reward: object) -> float:
    """Return the reward as one finite float."""
    value = _finite(reward)
    if value is None or abs(value) > LARGEST:
        raise ObservationError(
            "the reward is not one finite number",
            expected="a number within the range of float32",
            received=shorten(reward),
        )
    return value


def _finite(number: object) -> float | None:
    """Return a number, also of an array without dimensions, as a float; None for other objects."""
    number = _array_of_one(number)
    if isinstance(number, np.ndarray | np.generic):
        real = number.ndim == 0 and number.dtype.kind in NUMBERS
    else:
        real = isinstance(number, int | float)
    try:
        value = float(number) if real else math.nan  # type: ignore[arg-type]
    except OverflowError:  # an integer that is too large for a float
        return None
    return value if math.isfinite(value) else None


def read_end(observation: Observation) -> tuple[bool, bool]:
    """Return two booleans: the episode is over, and a limit ended it."""
    done, truncated = (_truth(name, getattr(observation, name)) for name in ("done", "truncated"))
    if truncated and not done:
        raise ObservationError(
            "an observation is truncated but not done",
            expected="done=True if truncated=True",
            received="done=False",
        )
    return done, truncated


def is_over(observation: object) -> bool:
    """Return True if an observation is done; False for any other object."""
    return isinstance(observation, Observation) and is_true(observation.done)


def is_true(given: object) -> bool:
    """Return True if ``done`` or ``truncated`` is set; False for values that are not booleans."""
    return given is True or (given is not False and _finite(given) == 1.0)


def _truth(name: str, given: object) -> bool:
    """Return a boolean, or a number that is 0 or 1, also as an array without dimensions."""
    if _finite(given) not in (0.0, 1.0):
        raise ObservationError(
            f"Observation.{name} is not a boolean",
            expected="True or False",
            received=shorten(given),
        )
    return is_true(given)


def _array_of_one(number: object) -> object:
    """Return the value of a tensor or the like as an array; numbers unchanged."""
    if isinstance(number, int | float | np.ndarray | np.generic):
        return number
    try:
        return np.asarray(number) if hasattr(number, "__array__") else number
    except Exception:  # a tensor that NumPy cannot read, or another object
        return number


def read_metrics(metrics: Mapping[Any, Any]) -> dict[str, float]:
    """Return the metrics as finite floats."""
    checked = {}
    for name, given in metrics.items():
        if not isinstance(name, str):
            raise ObservationError(
                "the name of a metric is not a string",
                expected="a dict from name to number",
                received=shorten(name),
            )
        value = _finite(given)
        if value is None:
            raise ObservationError(
                f"metric {shorten(name)} is not one finite number",
                expected="a dict from name to number",
                received=shorten(given),
            )
        if name in RESERVED_METRICS:
            raise ObservationError(f"the name of metric {name!r} is reserved")
        checked[name] = value
    return checked
