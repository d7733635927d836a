"""Spaces, features and settings of job shops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from entity_env.errors import shorten
from entity_env.spaces import ActionName, ActionSpace, Entity, ObsSpace, SelectEntityActionSpace

from ..errors import EnvConfigError, check_flag, check_number, check_span, check_whole
from .job_shop_instances import MOST_JOBS, MOST_MACHINES, Instance

__all__ = [
    "ACTION_SPACE",
    "JOB",
    "LABELS",
    "check_settings",
    "obs_space_of",
]

JOB = (
    "work", "operations", "duration", "ready", "wait", "machine work", "flow", "machine wait",
    "next machine wait", "rank", "next duration", "next machine work", "rivals", "path", "slack",
    "weight", "age", "job work", "setup", "urgency", "turn",
)  # fmt: skip
"""The features of a job, in their order.

Times are in mean durations of an operation, ``work`` in parts of the first bound; see ``JobShop``.
"""
LABELS = ("machine", "next machine")
"""With ``labels`` these follow, and the number of a machine."""
_MACHINE = ("wait", "work", "queue", "path")


def obs_space_of(labels: bool) -> ObsSpace:
    """Return the observation space, with or without the numbers of machines."""
    return ObsSpace(
        entities={
            "Job": Entity([*JOB, *(LABELS if labels else ())]),
            "Machine": Entity([*_MACHINE, *(["number"] if labels else [])]),
            "Clock": Entity(["left", "jobs", "ready", "machines"]),
        }
    )


ACTION_SPACE: dict[ActionName, ActionSpace] = {"Dispatch": SelectEntityActionSpace()}


def check_settings(
    instances: Sequence[Instance], jobs: Any, machines: Any, **given: Any
) -> dict[str, float]:
    """Return the settings of the compiled game.

    Args:
        instances: Given ones; empty: they are drawn.
        jobs: As for ``JobShop``.
        machines: As for ``JobShop``.
        given: The other settings of ``JobShop`` by name.

    Raises:
        EnvConfigError: A setting out of range, or two that do not go together.
    """
    arrivals = check_flag("arrivals", given["arrivals"])
    if instances and arrivals:
        raise EnvConfigError(
            "instance and arrivals do not go together",
            expected="arrivals=False: a table says itself when jobs can start (release), and "
            "when they are due",
        )
    if len({bool(own.due) for own in instances}) > 1:
        raise EnvConfigError(
            "some instances have due dates, and others have none",
            expected="due dates in all of them, whose tardiness counts, or in none",
        )
    flexible = check_whole("flexible", given["flexible"], 1, MOST_MACHINES)
    has_times = any(own.times is not None for own in instances)
    if has_times:
        if flexible != 1:
            raise EnvConfigError(
                "flexible does not go together with an instance whose operations have several "
                "machines",
                expected="flexible=1",
                received=flexible,
            )
        flexible = MOST_MACHINES  # all that work can come to is one work centre
    if instances:
        sizes = [own.size for own in instances]
        jobs, machines = np.transpose([np.min(sizes, 0), np.max(sizes, 0)]).tolist()
    jobs = check_span("jobs", jobs, 1, MOST_JOBS)
    machines = check_span("machines", machines, 1, MOST_MACHINES)
    setups = check_number("setups", given["setups"], 0.0, 1000.0)
    breakdowns = check_number("breakdowns", given["breakdowns"], 0.0, 0.9)
    families = check_whole("families", given["families"], 1, 1000) if setups else 1
    # Set-ups and breakdowns make operations longer, about so many times.
    delay = (1 + setups * (1 - 1 / families)) / (1 - breakdowns)
    tightest, loosest = _ascending("tightness", given["tightness"])
    return {
        "given": bool(instances),
        "arrivals": arrivals,
        "dated": arrivals or any(own.due for own in instances),
        "has_times": has_times,
        "load": check_number("load", given["load"], 1e-3, 1e4) / delay,
        "breakdowns": breakdowns,
        "repair": check_number("repair", given["repair"], 1e-3, 1e4),
        "setups": setups,
        "families": families,
        "flexible": flexible,
        "labels": check_flag("labels", given["labels"]),
        "loosest": loosest,
        "tightest": tightest,
        "least_jobs": jobs[0],
        "most_jobs": jobs[1],
        "least_machines": machines[0],
        "most_machines": machines[1],
    }


def _ascending(name: str, value: Any) -> tuple[float, float]:
    pair = value if isinstance(value, list | tuple) else (value, value)
    numbers = [check_number(name, own, 1e-3, 1e4) for own in pair]
    if len(numbers) != 2 or numbers[0] > numbers[1]:
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected="a number, or two, the smaller one first",
            received=shorten(value),
        )
    return numbers[0], numbers[1]
