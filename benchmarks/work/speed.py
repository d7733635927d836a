"""Job shops: how long a network takes to dispatch, and how that grows with the jobs.

CPU time of one thread, by ``load_agent``; ``alone`` asks about one observation, as a service does.
Memory is the peak of the process above what it needs before, for ten shops of so many jobs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
from ragged_envs.industry.job_shop import JobShopRows
from ragged_envs.industry.job_shop_instances import Instance

from benchmarks.work.play import rules_of
from entity_env.scripted_agent import ScriptedAgent
from ppo_trainer.agent import load_agent

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run")
    parser.add_argument("--jobs", nargs="*", type=int, default=[25, 50, 100, 200, 400])
    parser.add_argument("--machines", type=int, default=20)
    parser.add_argument("--plot", default=None, help="a PNG of time and memory over the jobs")


def run(given: argparse.Namespace) -> None:
    """Print a line for each number of jobs."""
    _seconds(given.run, 6, 5, 2)  # compiles, or loads what has been compiled
    taillard = [f"ta{i}" for i in range(71, 81)]
    one, _ = _rows(given.run, taillard[:1])
    ten, _ = _rows(given.run, taillard)
    alone, _ = _rows(given.run, taillard[:1], alone=True)
    print(f"100 x 20, one schedule: {one:.2f} CPU-s in rows, {alone:.2f} alone; ten: {ten:.2f}")
    print(f"jobs x {given.machines} | CPU-s for ten | decisions | ms a decision | MiB")
    table = []
    for jobs in given.jobs:
        spent, decisions = _seconds(given.run, jobs, given.machines, 10)
        memory = _memory(given.run, jobs, given.machines)
        table.append((jobs, 1000 * spent / decisions, memory))
        print(
            f"{jobs} | {spent:.2f} | {decisions} | {1000 * spent / decisions:.3f} | {memory:.0f}",
            flush=True,
        )
    if given.plot:
        _plot(table, given.plot)


def _instances(jobs: int, machines: int, count: int) -> list[Instance]:
    rng = np.random.default_rng(jobs)
    order = np.tile(np.arange(machines, dtype=np.int32), (jobs, 1))
    return [
        Instance(
            rng.integers(1, 100, (jobs, machines), np.int32), rng.permuted(order, axis=1), machines
        )
        for _ in range(count)
    ]


def _seconds(run: str, jobs: int, machines: int, count: int) -> tuple[float, int]:
    return _rows(run, _instances(jobs, machines, count))


def _rows(
    run: str, instances: list[str] | list[Instance], alone: bool = False
) -> tuple[float, int]:
    """Return the CPU seconds of a greedy schedule of each instance, and its decisions."""
    agent: Any = load_agent(run, device="cpu", greedy=True)
    rows = JobShopRows(len(instances), instance=instances, **rules_of(agent.loaded))
    over, decisions = np.zeros(len(instances), bool), 0
    obs = rows.reset()
    agent.reset()
    if alone:
        agent = ScriptedAgent(agent.act, rows.obs_space(), rows.action_space())
    begun = time.process_time()
    while not over.all():
        decisions += int((~over).sum())
        obs = rows.act(agent.act_rows(obs))
        over |= obs.done
    return time.process_time() - begun, decisions


def _memory(run: str, jobs: int, machines: int) -> float:
    """In a process of its own, since a peak never falls again."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (run, jobs, machines))


def _peak(run: str, jobs: int, machines: int) -> float:
    _seconds(run, 6, 5, 2)
    # The peak so far is that of compiling: forget it (Linux, proc(5)).
    Path("/proc/self/clear_refs").write_text("5")
    before = _most_memory()
    _seconds(run, jobs, machines, 10)
    return (_most_memory() - before) / 1024


def _most_memory() -> int:
    """Return the peak memory of this process since then, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def _plot(table: list[tuple[int, float, float]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    jobs = [own[0] for own in table]
    for axis, column, label in zip(axes, (1, 2), ("ms a decision", "MiB"), strict=True):
        axis.plot(jobs, [own[column] for own in table], marker="o")
        axis.set(xlabel="jobs", ylabel=label, xlim=(0, None), ylim=(0, None))
    figure.savefig(path, dpi=120)
