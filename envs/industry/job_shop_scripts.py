"""Dispatching rules for job shops, as scripted players: they see what the network sees.

Each gives every job a number; of the ready ones that can start first the one with the smallest
starts, of equals the first. No machine waits, as where the rules have been studied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action, SelectEntityAction
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.observation import Observation
from entity_env.spaces import ActionName

from .job_shop_view import JOB

__all__ = [
    "RULES",
    "Rule",
    "apparent_tardiness_cost",
    "critical_ratio",
    "earliest_due_date",
    "first_come",
    "flow_due_date",
    "minimum_slack",
    "most_operations_remaining",
    "most_work_remaining",
    "shortest_processing_time",
    "slack_per_operation",
    "weighted_shortest_processing_time",
]

F64 = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Jobs = Mapping[str, F64]
"""The columns of jobs by name, each of shape (jobs,).

They are the features, ``work left`` in mean durations, where there are due dates, and ``mean
ready``, the mean duration of the next operations that are ready.
"""
RULES: dict[str, Rule] = {}
"""All rules by name."""


class Rule:
    """A dispatching rule: called with an observation, it is a scripted player.

    Args:
        priority: From the columns of jobs a number for each job; its name is that of the rule.
    """

    def __init__(self, priority: Callable[[Jobs], F64]) -> None:
        self.priority = priority
        functools.update_wrapper(self, priority)
        RULES[priority.__name__] = self

    def __call__(self, observation: Observation) -> dict[str, Action]:
        """Start the ready job with the smallest number."""
        seen: Any = observation
        features = np.array(seen.features["Job"], np.float64)
        machines = np.array([len(seen.features["Machine"])])
        (place,) = self._places(features, np.array([len(features)]), machines)
        chosen = list(seen.ids["Job"])[place]
        return {"Dispatch": SelectEntityAction(actors=list(seen.ids["Clock"]), actees=[chosen])}

    def act_rows(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """Return the choices of all shops at once."""
        jobs, machines = obs.features["Job"], obs.features["Machine"]
        features = np.asarray(jobs.as_array(), np.float64)
        places = self._places(features, np.asarray(jobs.size1()), np.asarray(machines.size1()))
        return obs.ragged_actions({"Dispatch": places})

    def _places(self, features: F64, lengths: Ints, machines: Ints) -> Ints:
        """Return the place of the job to start among those of each shop. Shape: (B,).

        Args:
            features: Features of the jobs of all shops. Shape: (N, F).
            lengths: Number of jobs of each shop. Shape: (B,).
            machines: Number of machines of each shop. Shape: (B,).
        """
        first = np.cumsum(lengths) - lengths
        jobs = dict(zip(JOB, features.T, strict=False))
        # With due dates ``work`` is in parts of as many mean durations as there are machines.
        jobs["work left"] = jobs["work"] * np.repeat(machines, lengths)
        ready = jobs["ready"] > 0
        total = np.add.reduceat(jobs["ready"] * jobs["duration"], first)
        mean = total / np.maximum(np.add.reduceat(jobs["ready"], first), 1)
        jobs["mean ready"] = np.repeat(mean, lengths)
        soonest = np.minimum.reduceat(np.where(ready, jobs["wait"], np.inf), first)
        ready &= jobs["wait"] == np.repeat(soonest, lengths)
        numbers = np.where(ready, self.priority(jobs), np.inf)
        is_least = numbers == np.repeat(np.minimum.reduceat(numbers, first), lengths)
        # Of equals the first: the place of the first True in each shop.
        places = np.where(is_least, np.arange(len(numbers)), len(numbers))
        found: Ints = np.minimum.reduceat(places, first) - first
        return found


@Rule
def shortest_processing_time(jobs: Jobs) -> F64:
    """Return the shortest next operation, its set-up included."""
    return jobs["duration"]


@Rule
def most_work_remaining(jobs: Jobs) -> F64:
    """Return the most work left."""
    return -jobs["work"]


@Rule
def most_operations_remaining(jobs: Jobs) -> F64:
    """Return the most operations left."""
    return -jobs["operations"]


@Rule
def flow_due_date(jobs: Jobs) -> F64:
    """Return the least work up to and with the next operation, over the work that is left.

    The best of the simple rules for the makespan.
    """
    return jobs["flow"]


@Rule
def first_come(jobs: Jobs) -> F64:
    """Return the negative age: the job that arrived first comes first."""
    return -jobs["age"]


@Rule
def earliest_due_date(jobs: Jobs) -> F64:
    """Return the time until the due date: the job that is due first comes first."""
    return jobs["slack"] + jobs["work left"]


@Rule
def minimum_slack(jobs: Jobs) -> F64:
    """Return the least time to spare."""
    return jobs["slack"]


@Rule
def slack_per_operation(jobs: Jobs) -> F64:
    """Return the least slack per remaining operation; late jobs by their lateness."""
    left = np.maximum(jobs["operations"], 1e-9)
    return np.where(jobs["slack"] > 0, jobs["slack"] / left, jobs["slack"])


@Rule
def critical_ratio(jobs: Jobs) -> F64:
    """Return the least time until it is due, over the work that is left."""
    work = np.maximum(jobs["work left"], 1e-9)
    ratio: F64 = (jobs["slack"] + work) / work
    return ratio


@Rule
def weighted_shortest_processing_time(jobs: Jobs) -> F64:
    """Return the shortest next operation for its weight."""
    weighted: F64 = jobs["duration"] / np.maximum(jobs["weight"], 1e-9)
    return weighted


@Rule
def apparent_tardiness_cost(jobs: Jobs) -> F64:
    """Weight over duration, less the more slack there is (Vepsalainen and Morton 1987).

    The slack is counted in twice the mean duration of the operations that are ready.
    """
    scale = np.maximum(2 * jobs["mean ready"], 1e-9)
    patience = np.exp(-np.maximum(jobs["slack"], 0.0) / scale)
    cost: F64 = -jobs["weight"] / np.maximum(jobs["duration"], 1e-9) * patience
    return cost
