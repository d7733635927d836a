"""Job shops whose jobs arrive and are due: the weighted tardiness of unseen streams.

Eight dispatching rules beside greedy networks, on the same streams; in time units for each unit of
weight. The difference to the best rule is that of the means.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import yaml
from ragged_envs.industry.job_shop import JobShopRows
from ragged_envs.industry.job_shop_scripts import RULES

from benchmarks.work.play import load_runs, rules_of, spread, values_by, values_of

__all__ = ["add_arguments", "run"]

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
    parser.add_argument("--set", nargs="*", default=[], help="settings, such as breakdowns=0.1")


def run(given: argparse.Namespace) -> None:
    """Print a line for each player."""
    changes = {
        key: yaml.safe_load(value) for key, _, value in (s.partition("=") for s in given.set)
    }
    settings: dict[str, Any] = {"jobs": given.jobs, "machines": given.machines, **changes}

    def streams(**rules: bool) -> JobShopRows:
        return JobShopRows(given.streams, seed=4242, arrivals=True, **rules, **settings)

    print("player | weighted tardiness")
    best = np.inf
    for name in DYNAMIC:
        found = values_by(RULES[name], streams(), "tardiness")
        best = min(best, found.mean())
        print(f"{name} | {spread(found)}", flush=True)
    for own in load_runs(given.runs):
        found = values_of(own, streams(**rules_of(own)), "tardiness", greedy=True)
        less = 100 * (1 - found.mean() / best)
        print(
            f"{own.run.path.name}, greedy | {spread(found)} | {less:.1f}% less than the best rule"
        )
