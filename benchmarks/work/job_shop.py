"""Job shops: the gap to the best makespan known, in percent, of instances no training has seen.

Of files of which no best makespan is known, the makespan itself; with due dates the weighted
tardiness. Tries are half forwards and half backwards, the jobs from their last operations on.

Taillard's ten instances of each size, or those of files; the best dispatching rules beside greedy
and sampled networks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ragged_envs.industry.job_shop import JobShopRows
from ragged_envs.industry.job_shop_instances import Instance, find_instances
from ragged_envs.industry.job_shop_schedules import best_tries
from ragged_envs.industry.job_shop_scripts import RULES
from ragged_envs.industry.taillard import TAILLARD

from benchmarks.work.play import F64, MOST_ROWS, load_runs, rules_of, spread, values_by
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.load_run import LoadedRun

__all__ = ["add_arguments", "run"]

BEST_RULES = ("flow_due_date", "most_work_remaining")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", nargs="*")
    parser.add_argument(
        "--samples", type=int, default=64, help="in both directions together; 0: greedy only"
    )
    parser.add_argument("--sizes", nargs="*", default=None, help="such as 15x15; all eight if none")
    parser.add_argument("--instances", nargs="*", default=None, help="names or files instead")


def run(given: argparse.Namespace) -> None:
    """Print a line for each size."""
    loaded = load_runs(given.runs)
    groups = _by_size(given.sizes)
    if given.instances:
        groups = {", ".join(Path(name).name for name in given.instances): given.instances}
    tries = [1, 2, *([given.samples] if given.samples else [])]
    ways = ["greedy", "greedy both ways", *(f"best of {samples}" for samples in tries[2:])]
    columns = [*BEST_RULES, *(f"{own.run.path.name}, {how}" for own in loaded for how in ways)]
    metric = _measured(next(iter(groups.values()))).replace("gap", "gap in percent")
    print(f"{metric} | " + " | ".join([*columns, *(f"{how}, CPU-s" for how in ways)]))
    for size, names in groups.items():
        cells = [spread(_rule(rule, names)) for rule in BEST_RULES]
        spent = np.zeros(len(ways))
        for own in loaded:
            for i, samples in enumerate(tries):
                begun = time.process_time()
                cells.append(spread(_solve(own, names, samples)))
                spent[i] += (time.process_time() - begun) / len(loaded)
        print(" | ".join([size, *cells, *(f"{own:.1f}" for own in spent)]), flush=True)


def _by_size(sizes: Sequence[str] | None) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, (jobs, machines, *_) in TAILLARD.items():
        groups.setdefault(f"{jobs}x{machines}", []).append(name)
    return groups if not sizes else {size: groups[size] for size in sizes}


def _rule(rule: str, names: Sequence[str]) -> F64:
    rows = JobShopRows(len(names), instance=list(names))
    return values_by(RULES[rule], rows, _measured(names))


def _measured(names: Sequence[str | Instance]) -> str:
    """Return the metric that all of these instances have."""
    if any(one.due for one in find_instances(names)):
        return "tardiness"
    return "gap" if all(one.best for one in find_instances(names)) else "makespan"


def _solve(own: LoadedRun, names: Sequence[str], tries: int) -> F64:
    """Return the gap or cost of each instance: the best of several tries.

    One or two are greedy, more are drawn.
    """
    agent = NetworkAgent(own.net, seed=1, greedy=tries <= 2, precision=own.config.precision)
    at_once = max(1, MOST_ROWS // tries)
    found: list[float] = []
    for first in range(0, len(names), at_once):
        some = find_instances(list(names[first : first + at_once]))
        agent.reset()
        best = best_tries(agent, some, tries, seen=own.game.seen, **rules_of(own))
        found += [each.cost for each in best]
    if _measured(names) != "gap":
        return np.array(found)
    return 100 * (np.array(found) / [one.best for one in find_instances(names)] - 1)
