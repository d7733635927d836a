"""The rules of job shops, compiled: instances, starts, breakdowns, lower bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.rows.compiled import compiled, random_float, random_int

__all__ = [
    "BREAKDOWNS",
    "NEVER",
    "can_start",
    "centre_of",
    "centre_share",
    "machine_of",
    "problems",
    "reset",
    "resume",
    "setup_of",
    "start_of",
    "step",
    "time_of",
]

_SHORTEST, _LONGEST = 1, 99
"""Durations are drawn from these, both included."""
BREAKDOWNS = 16
"""Of each machine so many are drawn; after the last one the first one follows again."""
_WEIGHTS, _SHARES = np.array([1, 2, 4]), np.array([0.2, 0.6, 0.2])
"""Of jobs with due dates: the weights, and how likely each is."""
NEVER = 2_000_000_000


def reset(g: Any, game: int) -> None:
    """Draw an instance, unless one is given, and let the first jobs arrive."""
    for machine in range(g.next_break.shape[1]):  # those beyond the shop's own, too
        g.next_break[game, machine] = NEVER
    if not g.given:
        _draw_instance(g, game)
    jobs, machines = g.jobs[game], g.machines[game]
    total, operations = 0, 0
    for machine in range(machines):
        g.machine_free[game, machine] = g.machine_work[game, machine] = 0
        g.queue[game, machine] = 0
        g.set_for[game, machine] = g.last_job[game, machine] = -1
        g.broken[game, machine] = 0
    for job in range(jobs):
        work = 0
        for op in range(g.ops[game, job]):
            work += g.durations[game, job, op]
        operations += g.ops[game, job]
        g.job_work[game, job], g.job_done[game, job], g.op[game, job] = work, 0, 0
        g.job_free[game, job] = g.release[game, job]
        total += work
    g.unit[game] = total / operations
    if g.arrivals:
        _draw_arrivals(g, game)
    _draw_troubles(g, game)
    g.now[game] = g.num_here[game] = g.come[game] = 0
    _move_on(g, game)
    g.first[game] = g.bound[game] = _bound_of(g, game)
    if g.dated:
        weights = 0
        for job in range(jobs):
            weights += g.weight[game, job]
        g.scale[game] = weights * g.unit[game]
    else:
        g.scale[game] = g.first[game]


def step(g: Any, game: int, chosen: npt.NDArray[np.int64]) -> tuple[float, bool]:
    """Start the chosen operation, and then operations without an alternative."""
    _dispatch(g, game, g.here[game, chosen[0]])
    _move_on(g, game)
    while True:
        ready, only = 0, 0
        for i in range(g.num_here[game]):
            if can_start(g, game, g.here[game, i]):
                ready, only = ready + 1, g.here[game, i]
        if ready != 1:
            break
        _dispatch(g, game, only)
        _move_on(g, game)
    before = g.bound[game]
    g.bound[game] = _bound_of(g, game)
    over = g.num_here[game] == 0
    if over:
        _measure(g, game)
    return (before - g.bound[game]) * 10 / g.scale[game], over


def leave_out_unknown(g: Any, game: int) -> None:
    """Remove the jobs that have not arrived, and draw the next breakdowns anew."""
    g.jobs[game] = g.come[game]
    if g.breakdowns > 0:
        down = g.repair * g.unit[game]
        up = down * (1 - g.breakdowns) / g.breakdowns
        for machine in range(g.machines[game]):
            for k in range(g.ups.shape[2]):
                g.ups[game, machine, k] = 1 + _exponential(g, game, up)
                g.downs[game, machine, k] = 1 + _exponential(g, game, down)
            g.next_break[game, machine] = g.now[game] + g.ups[game, machine, 0]


def resume(
    g: Any,
    game: int,
    now: int,
    op: Sequence[int],
    job_free: Sequence[int],
    machine_free: Sequence[int],
) -> None:
    """Go on from a moment of an instance; ``JobShopRows.begin_at`` describes the arguments."""
    jobs, machines = g.jobs[game], g.machines[game]
    g.now[game], g.op[game, :jobs] = now, op
    g.job_free[game, :jobs] = np.maximum(job_free, g.release[game, :jobs])
    g.machine_free[game, :machines] = machine_free
    for name, own in _following(g, game).items():
        getattr(g, name)[game, : len(own)] = own
    g.num_here[game] = np.sum(g.op[game, :jobs] < g.ops[game, :jobs])
    _move_on(g, game)
    g.bound[game] = _bound_of(g, game)


def _following(g: Any, game: int) -> dict[str, npt.NDArray[np.int64]]:
    """Return the fields that follow from the operations that have been started."""
    jobs, machines, come = g.jobs[game], g.machines[game], g.come[game]
    ops, op = g.ops[game, :jobs], g.op[game, :jobs]
    times, route = g.durations[game, :jobs], g.route[game, :jobs]
    places = np.arange(route.shape[1])
    exists = places < ops[:, np.newaxis]
    is_left = exists & (places >= op[:, np.newaxis])
    came = is_left & (np.arange(jobs) < come)[:, np.newaxis]
    here = np.flatnonzero(op[:come] < ops[:come])
    queue = np.bincount(route[here, op[here]], minlength=machines)
    work = np.bincount(route[came], times[came], machines).astype(np.int64)
    return {
        "here": here,
        "job_work": (times * is_left).sum(1),
        "job_done": (times * (exists & ~is_left)).sum(1),
        "machine_work": work[:machines],
        "queue": queue[:machines],
    }


def problems(g: Any, game: int) -> dict[str, bool]:
    """Return descriptions of invalid states, with True for those of a saved state."""
    machines, now = g.machines[game], g.now[game]
    ops, op = g.ops[game, : g.jobs[game]], g.op[game, : g.jobs[game]]
    exists = np.arange(g.route.shape[2]) < ops[:, np.newaxis]
    following = _following(g, game)
    here = following.pop("here")
    return {
        "a wrong list of jobs": not np.array_equal(here, g.here[game, : g.num_here[game]]),
        "a job without operations": (ops < 1).any() or (op > ops).any(),
        "an operation on a machine that is not there": (
            g.route[game, : len(ops)][exists] >= machines
        ).any(),
        "other work": not all(
            np.array_equal(own, getattr(g, name)[game, : len(own)])
            for name, own in following.items()
        ),
        "no job that can start": not any(can_start(g, game, job) for job in here),
        "a breakdown in the past": (g.next_break[game, :machines] <= now).any(),
        "a repair without end": g.breakdowns > 0
        and min(g.ups[game, :machines].min(), g.downs[game, :machines].min()) < 1,
    }


@compiled
def _draw_instance(g: Any, game: int) -> None:
    """Durations and routes, all as likely as each other, as Taillard's generator draws them."""
    g.jobs[game] = random_int(g.random, game, g.least_jobs, g.most_jobs)
    g.machines[game] = machines = random_int(g.random, game, g.least_machines, g.most_machines)
    for job in range(g.jobs[game]):
        g.ops[game, job] = machines
        for op in range(machines):
            g.durations[game, job, op] = random_int(g.random, game, _SHORTEST, _LONGEST)
            g.route[game, job, op] = op
        for op in range(machines):
            other = random_int(g.random, game, op, machines - 1)
            kept = g.route[game, job, op]
            g.route[game, job, op] = g.route[game, job, other]
            g.route[game, job, other] = kept


@compiled
def _draw_arrivals(g: Any, game: int) -> None:
    """Draw the arrivals of jobs as a Poisson process, their due dates and weights."""
    time = 0.0
    for job in range(g.jobs[game]):
        g.release[game, job] = g.job_free[game, job] = int(time)
        time += -math.log(1 - random_float(g.random, game)) * g.unit[game] / g.load
        room = g.tightest + (g.loosest - g.tightest) * random_float(g.random, game)
        g.due[game, job] = g.release[game, job] + int(room * g.job_work[game, job])
        lot = random_float(g.random, game)
        g.weight[game, job] = _WEIGHTS[-1]
        for i in range(len(_WEIGHTS)):
            if lot < _SHARES[i]:
                g.weight[game, job] = _WEIGHTS[i]
                break
            lot -= _SHARES[i]


@compiled
def _draw_troubles(g: Any, game: int) -> None:
    """Draw families and set-up times, and the times and durations of breakdowns."""
    if g.setups > 0:
        for job in range(g.jobs[game]):
            g.family[game, job] = random_int(g.random, game, 0, g.families - 1)
        for i in range(g.families):
            for j in range(g.families):
                time = g.setups * g.unit[game] * (0.5 + random_float(g.random, game))
                g.setup_times[game, i, j] = 0 if i == j else max(1, int(time))
    if g.breakdowns > 0:
        down = g.repair * g.unit[game]
        up = down * (1 - g.breakdowns) / g.breakdowns
        for machine in range(g.machines[game]):
            for k in range(g.ups.shape[2]):
                g.ups[game, machine, k] = 1 + _exponential(g, game, up)
                g.downs[game, machine, k] = 1 + _exponential(g, game, down)
            g.next_break[game, machine] = g.ups[game, machine, 0]


@compiled
def _exponential(g: Any, game: int, mean: float) -> int:
    return int(-math.log(1 - random_float(g.random, game)) * mean)


@compiled
def centre_of(g: Any, game: int, machine: int) -> tuple[int, int]:
    """Return the first machine of a machine's work centre, and the one after the last."""
    begin = machine // g.flexible * g.flexible
    return begin, min(begin + g.flexible, g.machines[game])


@compiled
def centre_share(g: Any, game: int, machine: int) -> tuple[float, int]:
    """Return a machine's share of the work that comes to its work centre, and who waits for it."""
    begin, end = centre_of(g, game, machine)
    work, queue = 0, 0
    for one in range(begin, end):
        work += g.machine_work[game, one]
        queue += g.queue[game, one]
    return work / (end - begin), queue


@compiled
def setup_of(g: Any, game: int, job: int, machine: int) -> int:
    """Return the set-up time of a machine for a job."""
    last = g.set_for[game, machine]
    time: int = g.setup_times[game, last, g.family[game, job]] if last >= 0 else 0
    return time


@compiled
def time_of(g: Any, game: int, job: int, machine: int) -> int:
    """Return the duration of a job's next operation on a machine, -1 if it cannot do it."""
    op = g.op[game, job]
    time: int = g.times[game, job, op, machine] if g.has_times else g.durations[game, job, op]
    return time


@compiled
def machine_of(g: Any, game: int, job: int) -> int:
    """Return the machine on which the next operation of a job ends first, of equals the first."""
    machine: int = g.route[game, job, g.op[game, job]]
    if g.flexible == 1:
        return machine
    begin, end = centre_of(g, game, machine)
    earliest = max(g.job_free[game, job], g.now[game])
    best: int = begin
    least = NEVER
    for one in range(begin, end):
        own = time_of(g, game, job, one)
        time = max(g.machine_free[game, one], earliest) + setup_of(g, game, job, one) + own
        if own >= 0 and time < least:
            best, least = one, time
    return best


@compiled
def start_of(g: Any, game: int, job: int) -> int:
    """Return the time at which a job's next operation can start, or could have started."""
    start: int = max(g.job_free[game, job], g.machine_free[game, machine_of(g, game, job)])
    return start


@compiled
def can_start(g: Any, game: int, job: int) -> bool:
    """Return True if a job's next operation is one of the choices."""
    asked = g.asked[game]
    is_asked: bool = asked < 0 or machine_of(g, game, job) == asked
    return is_asked and start_of(g, game, job) < g.until[game]


@compiled
def _ask(g: Any, game: int) -> None:
    """Set the machine of the operations to choose from, and the time before which they can start.

    The machine is that on which an operation can end first, and the choices are its operations that
    could start before that end, also later than now (Giffler and Thompson, "Algorithms for solving
    production scheduling problems", Operations Research 8, 1960): one of them leads to an optimal
    schedule. If jobs arrive or machines break down, or without ``waiting``, only operations that
    can start now determine the machine. Without ``waiting`` they alone are the choices.
    """
    now = g.now[game]
    g.asked[game], g.until[game] = -1, now + 1
    is_known = g.waiting and not g.arrivals and g.breakdowns <= 0
    first = NEVER
    for i in range(g.num_here[game]):
        job = g.here[game, i]
        machine = machine_of(g, game, job)
        start = max(start_of(g, game, job), now)
        end = start + setup_of(g, game, job, machine) + time_of(g, game, job, machine)
        if end < first and (is_known or start == now):
            # One that takes no time is among them, too.
            g.asked[game], first = machine, end
            g.until[game] = max(end, start + 1) if g.waiting else now + 1


@compiled
def _dispatch(g: Any, game: int, job: int) -> None:
    """Start the next operation of a job, as soon as it can."""
    op = g.op[game, job]
    route, duration = g.route[game, job, op], g.durations[game, job, op]
    machine = machine_of(g, game, job)
    start = max(start_of(g, game, job), g.now[game])
    end = start + setup_of(g, game, job, machine) + time_of(g, game, job, machine)
    g.set_for[game, machine], g.last_job[game, machine] = g.family[game, job], job
    g.starts[game, job, op], g.ends[game, job, op] = start, end
    g.places[game, job, op] = machine
    g.job_free[game, job] = g.machine_free[game, machine] = end
    g.machine_work[game, route] -= duration
    g.job_work[game, job] -= duration
    g.job_done[game, job] += duration
    g.queue[game, route] -= 1
    g.op[game, job] = op + 1
    if op + 1 < g.ops[game, job]:
        g.queue[game, g.route[game, job, op + 1]] += 1
        return
    kept = 0
    for i in range(g.num_here[game]):
        other = g.here[game, i]
        g.here[game, kept] = other
        kept += other != job
    g.num_here[game] = kept


@compiled
def _move_on(g: Any, game: int) -> None:
    """Advance the time until an operation can start."""
    jobs = g.jobs[game]
    while True:
        while g.come[game] < jobs and (
            not g.arrivals or g.release[game, g.come[game]] <= g.now[game]
        ):
            job = g.come[game]
            g.here[game, g.num_here[game]] = job
            g.num_here[game] += 1
            g.come[game] += 1
            for op in range(g.ops[game, job]):
                g.machine_work[game, g.route[game, job, op]] += g.durations[game, job, op]
            g.queue[game, g.route[game, job, 0]] += 1
        for machine in range(g.machines[game]):
            while g.next_break[game, machine] <= g.now[game]:
                _repair(g, game, machine)
        if g.num_here[game] == 0 and g.come[game] == jobs:
            _work_off(g, game)
            break
        earliest = NEVER
        for i in range(g.num_here[game]):
            earliest = min(earliest, start_of(g, game, g.here[game, i]))
        if earliest <= g.now[game]:
            break
        if g.come[game] < jobs:
            earliest = min(earliest, g.release[game, g.come[game]])
        if g.breakdowns > 0:
            for machine in range(g.machines[game]):
                earliest = min(earliest, g.next_break[game, machine])
        g.now[game] = earliest
    _ask(g, game)
    _measure_left(g, game)


@compiled
def _measure_left(g: Any, game: int) -> None:
    """Write a lower bound of the time for the jobs that are here, from now on; at least 1."""
    left = 1
    for i in range(g.num_here[game]):
        job = g.here[game, i]
        wait = max(start_of(g, game, job) - g.now[game], 0)
        left = max(left, wait + g.job_work[game, job])
    for machine in range(0, g.machines[game], g.flexible):
        begin, end = centre_of(g, game, machine)
        time = 0
        for one in range(begin, end):
            time += max(g.machine_free[game, one] - g.now[game], 0) + g.machine_work[game, one]
        left = max(left, time // (end - begin))
    g.left[game] = left


@compiled
def _work_off(g: Any, game: int) -> None:
    """Repair what breaks down, in the order of time, until all that has been started is done."""
    while g.breakdowns > 0:
        at, machine = NEVER, -1
        for one in range(g.machines[game]):
            own = g.next_break[game, one]
            if own < g.machine_free[game, one] and own < at:
                at, machine = own, one
        if machine < 0:
            break
        _repair(g, game, machine)


@compiled
def _repair(g: Any, game: int, machine: int) -> None:
    """Repair a machine that breaks down.

    Its running operation ends later, or an operation that it waits for starts later. Operations of
    the same job that other machines wait for also start later.
    """
    at, free = g.next_break[game, machine], g.machine_free[game, machine]
    again = at + g.downs[game, machine, g.broken[game, machine] % BREAKDOWNS]
    g.broken[game, machine] += 1
    g.next_break[game, machine] = again + g.ups[game, machine, g.broken[game, machine] % BREAKDOWNS]
    if free <= at:
        g.machine_free[game, machine] = again
        return
    job = g.last_job[game, machine]
    last = g.op[game, job] - 1
    op = last
    while op > 0 and (g.places[game, job, op] != machine or g.ends[game, job, op] != free):
        op -= 1
    delay = again - at
    if g.starts[game, job, op] > at:
        delay = max(again - g.starts[game, job, op], 0)
        g.starts[game, job, op] += delay
    while True:
        g.ends[game, job, op] += delay
        g.machine_free[game, g.places[game, job, op]] = g.ends[game, job, op]
        if op == last:
            break
        delay = max(g.ends[game, job, op] - g.starts[game, job, op + 1], 0)
        op += 1
        g.starts[game, job, op] += delay
    g.job_free[game, job] = g.ends[game, job, last]


@compiled
def _bound_of(g: Any, game: int) -> float:
    """Return a lower bound of the makespan, or of the weighted tardiness."""
    now, bound = g.now[game], 0
    if g.dated:
        for job in range(g.come[game]):
            end = g.job_free[game, job]
            if g.op[game, job] < g.ops[game, job]:
                end = max(start_of(g, game, job), now) + g.job_work[game, job]
            bound += g.weight[game, job] * max(0, end - g.due[game, job])
        return float(bound)
    for i in range(g.num_here[game]):
        job = g.here[game, i]
        bound = max(bound, max(start_of(g, game, job), now) + g.job_work[game, job])
    for job in range(g.jobs[game]):
        bound = max(bound, g.job_free[game, job])
    for machine in range(0, g.machines[game], g.flexible):
        begin, end = centre_of(g, game, machine)
        time, work = 0, 0
        for one in range(begin, end):
            time += max(g.machine_free[game, one], now)
            work += g.machine_work[game, one]
        if work:
            bound = max(bound, (time + work) // (end - begin))
    return float(bound)


@compiled
def _measure(g: Any, game: int) -> None:
    """Write the metrics of a complete schedule."""
    makespan = 0
    for job in range(g.jobs[game]):
        makespan = max(makespan, g.job_free[game, job])
    g.makespan[game] = makespan
    if g.dated:
        weights = 0
        for job in range(g.jobs[game]):
            weights += g.weight[game, job]
        g.outcome[game] = g.bound[game] / weights
    else:
        g.outcome[game] = makespan / g.first[game]
    if g.best[game]:
        g.gap[game] = 100 * (makespan / g.best[game] - 1)
