"""Dispatching rules for job shops, as scripted players: they see what the network sees.

Each gives every job a number; the ready one with the smallest starts, of equals the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from entity_env.actions import Action, SelectEntityAction
from entity_env.observation import Observation

from .job_shop_rules import JOB

__all__ = [
    "RULES",
    "apparent_tardiness_cost",
    "earliest_due_date",
    "first_come",
    "flow_due_date",
    "minimum_slack",
    "most_operations_remaining",
    "most_work_remaining",
    "shortest_processing_time",
    "weighted_shortest_processing_time",
]

Job = Mapping[str, float]


def shortest_processing_time(observation: Observation) -> dict[str, Action]:
    """The shortest next operation."""
    return _least(observation, lambda job: job["duration"])


def most_work_remaining(observation: Observation) -> dict[str, Action]:
    """The most work left."""
    return _least(observation, lambda job: -job["work"])


def most_operations_remaining(observation: Observation) -> dict[str, Action]:
    """The most operations left."""
    return _least(observation, lambda job: -job["operations"])


def flow_due_date(observation: Observation) -> dict[str, Action]:
    """The least work up to and with the next operation, over the work that is left.

    The best of the simple rules for the makespan.
    """
    return _least(observation, lambda job: job["flow"])


def first_come(observation: Observation) -> dict[str, Action]:
    """Whoever has come first."""
    return _least(observation, lambda job: -job["age"])


def earliest_due_date(observation: Observation) -> dict[str, Action]:
    """Whoever is due first."""
    return _least(observation, lambda job: job["slack"] + job["work left"])


def minimum_slack(observation: Observation) -> dict[str, Action]:
    """The least time to spare."""
    return _least(observation, lambda job: job["slack"])


def weighted_shortest_processing_time(observation: Observation) -> dict[str, Action]:
    """The shortest next operation for its weight."""
    return _least(observation, lambda job: job["duration"] / max(job["weight"], 1e-9))


def apparent_tardiness_cost(observation: Observation) -> dict[str, Action]:
    """Weight over duration, less the more slack there is (Vepsalainen and Morton 1987).

    The slack is counted in twice the mean duration of the operations that are ready.
    """
    jobs = [job for job in _jobs(observation) if job["ready"]]
    mean = sum(job["duration"] for job in jobs) / max(len(jobs), 1)

    def cost(job: Job) -> float:
        patience = math.exp(-max(0.0, job["slack"]) / (2 * max(mean, 1e-9)))
        return -job["weight"] / job["duration"] * patience

    return _least(observation, cost)


RULES: dict[str, Callable[[Observation], dict[str, Action]]] = {
    rule.__name__: rule
    for rule in (
        shortest_processing_time,
        most_work_remaining,
        most_operations_remaining,
        flow_due_date,
        first_come,
        earliest_due_date,
        minimum_slack,
        weighted_shortest_processing_time,
        apparent_tardiness_cost,
    )
}


def _jobs(observation: Observation) -> list[dict[str, float]]:
    """The features of each job by name, and ``work left`` in mean durations."""
    features: Any = observation.features
    machines = features["Clock"][0][3] * 10
    jobs = [dict(zip(JOB, row, strict=True)) for row in features["Job"]]
    for job in jobs:
        # With due dates ``work`` is in parts of as many mean durations as there are machines.
        job["work left"] = job["work"] * machines
    return jobs


def _least(observation: Observation, number: Callable[[Job], float]) -> dict[str, Action]:
    ids: Any = observation.ids
    jobs = _jobs(observation)
    ready = [i for i, job in enumerate(jobs) if job["ready"]]
    chosen = min(ready, key=lambda i: number(jobs[i]))
    return {
        "Dispatch": SelectEntityAction(actors=list(ids["Clock"]), actees=[list(ids["Job"])[chosen]])
    }
