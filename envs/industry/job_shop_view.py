"""Spaces and features of job shops: jobs, machines, the clock, and which jobs can start."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.rows.compiled import compiled
from entity_env.spaces import ActionName, ActionSpace, Entity, ObsSpace, SelectEntityActionSpace

from .job_shop_engine import (
    can_start,
    centre_of,
    centre_share,
    machine_of,
    setup_of,
    start_of,
    time_of,
)

__all__ = [
    "ACTION_SPACE",
    "JOB",
    "clock_features",
    "job_features",
    "machine_features",
    "obs_space_of",
    "ready_jobs",
]

JOB = (
    "work", "operations", "duration", "ready", "wait", "machine work", "flow", "machine wait",
    "next machine wait", "rank", "next duration", "next machine work", "rivals", "path", "slack",
    "weight", "age", "job work", "setup", "urgency", "turn",
)  # fmt: skip
"""The features of a job, in their order.

Times are in mean durations of an operation, ``work`` in parts of the first bound; see ``JobShop``.
"""
_LABELS = ("machine", "next machine")
"""With ``labels`` these follow, and the number of a machine."""
_MACHINE = ("wait", "work", "queue", "path")


def obs_space_of(labels: bool) -> ObsSpace:
    """Return the observation space, with or without the numbers of machines."""
    return ObsSpace(
        entities={
            "Job": Entity([*JOB, *(_LABELS if labels else ())]),
            "Machine": Entity([*_MACHINE, *(["number"] if labels else [])]),
            "Clock": Entity(["left", "jobs", "ready", "machines"]),
        }
    )


ACTION_SPACE: dict[ActionName, ActionSpace] = {"Dispatch": SelectEntityActionSpace()}


def ready_jobs(g: Any, game: int, clock: int, allowed: npt.NDArray[np.bool_]) -> None:
    """Allow the jobs that can be chosen."""
    for i in range(g.num_here[game]):
        allowed[i] = can_start(g, game, g.here[game, i])


def job_features(g: Any, game: int, i: int, out: npt.NDArray[np.float32]) -> None:
    """Write the features of the i-th job that is here."""
    job, now, unit = g.here[game, i], g.now[game], g.unit[game]
    op, count, jobs = g.op[game, job], g.machines[game], g.num_here[game]
    machine, duration = machine_of(g, game, job), g.durations[game, job, op]
    setup = setup_of(g, game, job, machine)
    own, done = g.job_work[game, job], g.job_done[game, job]
    start = max(start_of(g, game, job) - now, 0)
    longer = 0
    for other in range(jobs):
        longer += g.job_work[game, g.here[game, other]] > own
    first = _first(g, game)
    out[0] = own / first
    out[1] = (g.ops[game, job] - op) / count
    out[2] = (time_of(g, game, job, machine) + setup) / unit
    out[3] = can_start(g, game, job)
    out[4] = start / unit
    share, queue = centre_share(g, game, machine)
    out[5] = share / first
    out[6] = (done + duration) / max(own, 1)
    out[7] = max(0, g.machine_free[game, machine] - now) / unit
    out[8] = out[10] = out[11] = 0.0
    following = -1
    if op + 1 < g.ops[game, job]:
        following = g.route[game, job, op + 1]
        begin, end = centre_of(g, game, following)
        free = g.machine_free[game, begin]
        for one in range(begin + 1, end):
            free = min(free, g.machine_free[game, one])
        out[8] = max(0, free - now) / unit
        out[10] = g.durations[game, job, op + 1] / unit
        out[11] = centre_share(g, game, following)[0] / first
    out[9] = longer / jobs
    out[12] = (queue - 1) / jobs
    out[13] = (start + own) / g.left[game]
    out[14] = (g.due[game, job] - now - start - own) / unit if g.dated else 0.0
    out[15] = g.weight[game, job]
    out[16] = max(now - g.release[game, job], 0) / unit if g.dated else 0.0
    out[17] = (done + own) / first
    out[18] = setup / unit
    mean = _mean_ready(g, game) if g.dated else 0.0
    # At most as for one time unit: some operations take no time.
    out[19] = min(_haste(g, game, job, mean), g.weight[game, job]) * unit if g.dated else 0.0
    out[20] = _turn(g, game, i, mean) if out[3] else 0.0
    if g.labels:
        out[21], out[22] = machine, following


def machine_features(g: Any, game: int, machine: int, out: npt.NDArray[np.float32]) -> None:
    """Write the features of a machine."""
    wait = max(0, g.machine_free[game, machine] - g.now[game])
    out[0] = wait / g.unit[game]
    work, queue = centre_share(g, game, machine)
    out[1] = work / _first(g, game)
    out[2] = queue / max(g.num_here[game], 1)
    out[3] = (wait + work) / g.left[game]
    if g.labels:
        out[4] = machine


def clock_features(g: Any, game: int, _: int, out: npt.NDArray[np.float32]) -> None:
    """Write the features of the clock: the work that is left."""
    ready = 0
    for i in range(g.num_here[game]):
        ready += can_start(g, game, g.here[game, i])
    out[0] = g.left[game] / _first(g, game)
    out[1], out[2], out[3] = g.num_here[game] / 10, ready / 10, g.machines[game] / 10


@compiled
def _mean_ready(g: Any, game: int) -> float:
    """Return the mean duration of the choices, their set-ups included."""
    total, count = 0, 0
    for i in range(g.num_here[game]):
        job = g.here[game, i]
        if can_start(g, game, job):
            machine = machine_of(g, game, job)
            total += time_of(g, game, job, machine) + setup_of(g, game, job, machine)
            count += 1
    return total / max(count, 1)


@compiled
def _haste(g: Any, game: int, job: int, mean: float) -> float:
    """Return the key of the best rule: the job with the greatest one goes first."""
    if not g.dated:
        done = g.job_done[game, job] + g.durations[game, job, g.op[game, job]]
        flow: float = -done / max(g.job_work[game, job], 1)
        return flow
    machine = machine_of(g, game, job)
    duration = time_of(g, game, job, machine) + setup_of(g, game, job, machine)
    end = max(start_of(g, game, job), g.now[game]) + g.job_work[game, job]
    slack = max(0, g.due[game, job] - end) / max(2 * mean, 1e-9)
    haste: float = g.weight[game, job] / max(duration, 1e-9) * math.exp(-slack)
    return haste


@compiled
def _turn(g: Any, game: int, i: int, mean: float) -> float:
    """Return one over the place of the i-th job among the choices: by start, then by the rule."""
    job, place = g.here[game, i], 1
    haste, start = _haste(g, game, job, mean), max(start_of(g, game, job), g.now[game])
    for k in range(g.num_here[game]):
        other = g.here[game, k]
        if k == i or not can_start(g, game, other):
            continue
        begins = max(start_of(g, game, other), g.now[game])
        if begins == start:
            own = _haste(g, game, other, mean)
            place += own > haste or (own == haste and k < i)
        else:
            place += begins < start
    return 1.0 / place


@compiled
def _first(g: Any, game: int) -> float:
    """In parts of which work is shown."""
    first: float = g.machines[game] * g.unit[game] if g.dated else g.first[game]
    return first
