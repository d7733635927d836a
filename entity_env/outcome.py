"""Reads what a step led to: its reward, the end of the episode, and metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env.errors import MetricError, ObservationError, RewardError, shorten
from entity_env.features import LARGEST
from entity_env.frame import RESERVED_METRICS
from entity_env.observation import Observation

__all__ = ["read_end", "read_metrics", "read_reward"]


def read_reward(reward: object) -> float:
    """The reward as one finite float."""
    value = _finite(reward)
    if value is None or abs(value) > LARGEST:
        raise RewardError(
            "the reward is not one finite number",
            expected="a number within the range of float32",
            received=shorten(reward),
        )
    return value


def _finite(number: object) -> float | None:
    """A Python or NumPy number, also as an array without dimensions; None for all else."""
    if isinstance(number, np.ndarray | np.generic):
        real = number.ndim == 0 and number.dtype.kind in "fiub"
    else:
        real = isinstance(number, int | float)
    try:
        value = float(number) if real else math.nan  # type: ignore[arg-type]
    except OverflowError:  # a whole number that no float holds
        return None
    return value if math.isfinite(value) else None


def read_end(observation: Observation) -> tuple[bool, bool]:
    """Whether the episode is over, and whether a limit ended it."""
    for name in ("done", "truncated"):
        if not isinstance(getattr(observation, name), bool | np.bool_):
            raise ObservationError(
                f"Observation.{name} is not a boolean",
                expected="True or False",
                received=shorten(getattr(observation, name)),
            )
    if observation.truncated and not observation.done:
        raise ObservationError(
            "an observation is truncated but not done",
            expected="done=True beside truncated=True",
            received="done=False",
        )
    return bool(observation.done), bool(observation.truncated)


def read_metrics(metrics: Mapping[Any, Any]) -> dict[str, float]:
    """The metrics as finite floats."""
    checked = {}
    for name, given in metrics.items():
        if not isinstance(name, str):
            raise MetricError(
                "the name of a metric is not a string",
                expected="a dict from name to number",
                received=shorten(name),
            )
        value = _finite(given)
        if value is None:
            raise MetricError(
                f"metric {shorten(name)} is not one finite number",
                expected="a dict from name to number",
                received=shorten(given),
            )
        if name in RESERVED_METRICS:
            raise MetricError(f"metric {name!r} is one that the framework counts itself")
        checked[name] = value
    return checked
