"""Job shops whose jobs arrive and are due: the weighted tardiness of unseen streams.

Eight dispatching rules beside greedy networks, on the same streams; in time units for each unit of
weight. The difference to the best rule is that of the means.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml
from ragged_envs.industry.job_shop import JobShopRows
from ragged_envs.industry.job_shop_scripts import RULES

from benchmarks.work.play import F64, load_runs, rules_of, spread, values_by, values_of
from ppo_trainer.runs.load_run import LoadedRun

__all__ = [
    "DYNAMIC",
    "add_arguments",
    "add_settings",
    "late_by",
    "run",
    "settings_of",
    "streams_of",
]

DYNAMIC = (
    "first_come", "shortest_processing_time", "weighted_shortest_processing_time",
    "earliest_due_date", "minimum_slack", "slack_per_operation", "critical_ratio",
    "apparent_tardiness_cost",
)  # fmt: skip
"""The rules that are meant for jobs that arrive and are due."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--machines", type=int, default=10)
    add_settings(parser)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the settings of the shops to the arguments of a command."""
    parser.add_argument("--set", nargs="*", default=[], help="settings, such as breakdowns=0.1")


def settings_of(given: argparse.Namespace) -> dict[str, Any]:
    """Return the values of ``--set``."""
    words = (word.partition("=") for word in given.set)
    return {name: yaml.safe_load(value) for name, _, value in words}


def run(given: argparse.Namespace) -> None:
    """Print a line for each player."""
    settings = {"jobs": given.jobs, "machines": given.machines, **settings_of(given)}
    print("player | weighted tardiness")
    best = np.inf
    for name in DYNAMIC:
        found = values_by(RULES[name], streams_of(given.streams, settings), "tardiness")
        best = min(best, found.mean())
        print(f"{name} | {spread(found)}", flush=True)
    for own in load_runs(given.runs):
        found = late_by(own, given.streams, settings)
        less = 100 * (1 - found.mean() / best)
        print(
            f"{own.run.path.name}, greedy | {spread(found)} | {less:.1f}% less than the best rule"
        )


def streams_of(count: int, settings: Mapping[str, Any]) -> JobShopRows:
    """Return the same streams for all players, a row for each stream."""
    return JobShopRows(count, seed=4242, arrivals=True, **settings)


def late_by(own: LoadedRun, count: int, settings: Mapping[str, Any]) -> F64:
    """Return the weighted tardiness of a network in each stream. Shape: (count,)."""
    rows = streams_of(count, {**settings, **rules_of(own)})
    return values_of(own, rows, "tardiness", greedy=True)
