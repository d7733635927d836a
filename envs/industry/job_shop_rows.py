"""Job shops for all rows at once: the game of ``job_shop.py``, compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.environment import Environment
from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
    compiled,
    random_float,
    random_int,
)

from .job_shop import JobShop
from .job_shop_rules import (
    ACTION_SPACE,
    BREAKDOWNS,
    SHORTEST_LONGEST,
    WEIGHTS,
    JobShopSettings,
    obs_space_of,
)

__all__ = ["JobShopRows"]

_SHORTEST, _LONGEST = SHORTEST_LONGEST
_WEIGHTS = np.array([weight for weight, _ in WEIGHTS])
_NEVER = 2_000_000_000
_SHARES = np.array([share for _, share in WEIGHTS])


class JobShopRows(CompiledRows):
    """R rows of job shops, compiled; ``JobShop`` says what the game is.

    Args:
        num_envs: The number of rows R.
        seed: Seeds all rows.
        copies: So many rows, one after the other, get the same instances, for baselines that
            compare several solutions of one.
        threads: How many threads share the rows.
        settings: The arguments of ``JobShop``. Of given instances, row i plays the i-th, and each
            again and again.

    Raises:
        EnvConfigError: Settings that ``JobShop`` refuses.
    """

    environment: ClassVar[type[Environment]] = JobShop

    def __init__(
        self, num_envs: int, seed: int = 0, *, copies: int = 1, threads: int = 1, **settings: Any
    ) -> None:
        self._alone = JobShop(**settings)
        given = self._alone.settings
        super().__init__(_game(given), num_envs, seed, threads=threads, copies=copies)
        for row in range(num_envs if given.instances else 0):
            one = given.instances[row // copies % len(given.instances)]
            jobs, machines = one.size
            self._fields["jobs"][row], self._fields["machines"][row] = jobs, machines
            most = one.most_operations
            self._fields["durations"][row, :jobs, :most] = one.durations
            self._fields["route"][row, :jobs, :most] = one.machines.clip(0)
            self._fields["ops"][row, :jobs] = (one.machines >= 0).sum(1)
            self._fields["best"][row] = one.best or 0

    def draw_row(self, row: int, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """The schedule of a row, as ``JobShop`` draws it."""
        self._alone.set_state(self.as_alone(row))
        return self._alone.render(**kwargs)

    def as_alone(self, row: int) -> dict[str, Any]:
        """The state of a row as ``JobShop`` saves it."""
        own: Mapping[str, Any] = {name: field[row] for name, field in self._fields.items()}
        jobs, machines = int(own["jobs"]), int(own["machines"])
        counts = own["ops"][:jobs].tolist()
        durations, route, starts, ends, places = (
            [row[:count] for row, count in zip(own[name].tolist(), counts, strict=False)]
            for name in ("durations", "route", "starts", "ends", "places")
        )
        bars = [
            [places[job][op], job, starts[job][op], ends[job][op]]
            for job in range(jobs)
            for op in range(int(own["op"][job]))
        ]
        return {
            "durations": durations,
            "machines": route,
            "bars": sorted(bars, key=lambda bar: bar[2]),
            "first": float(own["first"]),
            "bound": float(own["bound"]),
            "best": int(own["best"]) or None,
            "steps": int(own["steps"]),
            "turn": 0,
            **{
                name: own[name][:jobs].tolist()
                for name in ("release", "due", "weight", "op", "family")
            },
            **{
                name: own[name][:machines].tolist()
                for name in ("set_for", "last_job", "ups", "downs", "broken", "next_break")
            },
            "setup_times": own["setup_times"].tolist(),
            "job_free": own["job_free"][:jobs].tolist(),
            "machine_free": own["machine_free"][:machines].tolist(),
            "here": own["here"][: int(own["num_here"])].tolist(),
            "now": int(own["now"]),
        }


def _game(settings: JobShopSettings) -> CompiledGame:
    jobs, machines, most = settings.jobs[1], settings.machines[1], settings.most_operations
    families, breaks = settings.families, BREAKDOWNS if settings.breakdowns else 1
    return CompiledGame(
        obs_space=obs_space_of(settings.labels),
        action_space=ACTION_SPACE,
        state={
            "jobs": Field(least=1, most=jobs),
            "machines": Field(least=1, most=machines),
            "durations": Field((jobs, most), least=0),
            "route": Field((jobs, most), least=0, most=machines - 1),
            "starts": Field((jobs, most)),
            "ends": Field((jobs, most)),
            "places": Field((jobs, most)),
            "family": Field((jobs,), least=0, most=families - 1),
            "setup_times": Field((families, families), least=0),
            "set_for": Field((machines,), least=-1, most=families - 1),
            "last_job": Field((machines,), least=-1, most=jobs - 1),
            "ups": Field((machines, breaks), least=0),
            "downs": Field((machines, breaks), least=0),
            "broken": Field((machines,), least=0),
            "next_break": Field((machines,), least=1),
            "ops": Field((jobs,), least=0, most=most),
            "op": Field((jobs,), least=0, most=most),
            "release": Field((jobs,)),
            "due": Field((jobs,)),
            "weight": Field((jobs,)),
            "job_free": Field((jobs,)),
            "job_work": Field((jobs,)),
            "job_done": Field((jobs,)),
            "machine_free": Field((machines,)),
            "machine_work": Field((machines,)),
            "queue": Field((machines,)),
            "here": Field((jobs,), least=0, most=jobs - 1),
            "num_here": Field(least=0, most=jobs),
            "come": Field(least=0, most=jobs),
            "now": Field(),
            "best": Field(),
            "unit": Field(dtype=np.float64),
            "first": Field(dtype=np.float64),
            "bound": Field(dtype=np.float64),
            "scale": Field(dtype=np.float64),
            "left": Field(dtype=np.float64),
            "makespan": Field(dtype=np.float64),
            "outcome": Field(dtype=np.float64),
            "gap": Field(dtype=np.float64),
        },
        settings={
            "given": bool(settings.instances),
            "arrivals": settings.arrivals,
            "load": settings.load / settings.delay,
            "breakdowns": settings.breakdowns,
            "repair": settings.repair,
            "setups": settings.setups,
            "flexible": settings.flexible,
            "labels": settings.labels,
            "loosest": settings.tightness[1],
            "tightest": settings.tightness[0],
            "least_jobs": settings.jobs[0],
            "most_jobs": jobs,
            "least_machines": settings.machines[0],
            "most_machines": machines,
        },
        reset=reset,
        step=step,
        entities={
            "Job": Entities(job_features, count="num_here", most=jobs),
            "Machine": Entities(machine_features, count="machines", most=machines),
            "Clock": Entities(clock_features, count=1, most=1),
        },
        actions={"Dispatch": Actors("Clock", targets=("Job",), mask=ready_jobs)},
        metrics={"makespan": "makespan"}
        | ({"tardiness": "outcome"} if settings.arrivals else {"ratio": "outcome"})
        | ({"gap": "gap"} if any(one.best for one in settings.instances) else {}),
    )


def reset(g: Any, game: int) -> None:
    """Draw an instance, unless one is given, and let the first jobs arrive."""
    if not g.given:
        _draw(g, game)
    jobs, machines = g.jobs[game], g.machines[game]
    total, operations = 0, 0
    for machine in range(machines):
        g.machine_free[game, machine] = g.machine_work[game, machine] = 0
        g.queue[game, machine] = 0
        g.set_for[game, machine] = g.last_job[game, machine] = -1
        g.broken[game, machine], g.next_break[game, machine] = 0, _NEVER
    for job in range(jobs):
        work = 0
        for op in range(g.ops[game, job]):
            work += g.durations[game, job, op]
        operations += g.ops[game, job]
        g.job_work[game, job], g.job_done[game, job], g.op[game, job] = work, 0, 0
        g.release[game, job] = g.due[game, job] = g.weight[game, job] = g.job_free[game, job] = 0
        total += work
    g.unit[game] = total / operations
    if g.arrivals:
        _draw_arrivals(g, game)
    _draw_troubles(g, game)
    g.now[game] = g.num_here[game] = g.come[game] = 0
    _move_on(g, game)
    g.first[game] = g.bound[game] = _bound(g, game)
    if g.arrivals:
        weights = 0
        for job in range(jobs):
            weights += g.weight[game, job]
        g.scale[game] = weights * g.unit[game]
    else:
        g.scale[game] = g.first[game]


def step(g: Any, game: int, chosen: npt.NDArray[np.int64]) -> tuple[float, bool]:
    """Start what was chosen, and what has no alternative."""
    _dispatch(g, game, g.here[game, chosen[0]])
    _move_on(g, game)
    while True:
        ready, only = 0, 0
        for i in range(g.num_here[game]):
            if _start_of(g, game, g.here[game, i]) <= g.now[game]:
                ready, only = ready + 1, g.here[game, i]
        if ready != 1:
            break
        _dispatch(g, game, only)
        _move_on(g, game)
    before = g.bound[game]
    g.bound[game] = _bound(g, game)
    over = g.num_here[game] == 0
    if over:
        _measure(g, game)
    return (before - g.bound[game]) * 10 / g.scale[game], over


def ready_jobs(g: Any, game: int, clock: int, allowed: npt.NDArray[np.bool_]) -> None:
    """Allow the jobs that can start now."""
    for i in range(g.num_here[game]):
        allowed[i] = _start_of(g, game, g.here[game, i]) <= g.now[game]


def job_features(g: Any, game: int, i: int, out: npt.NDArray[np.float32]) -> None:
    """Those of the i-th job that is here."""
    job, now, unit = g.here[game, i], g.now[game], g.unit[game]
    op, count, jobs = g.op[game, job], g.machines[game], g.num_here[game]
    machine, duration = _machine_of(g, game, job), g.durations[game, job, op]
    setup = _setup(g, game, job, machine)
    own, done = g.job_work[game, job], g.job_done[game, job]
    start = max(_start_of(g, game, job) - now, 0)
    longer = 0
    for other in range(jobs):
        longer += g.job_work[game, g.here[game, other]] > own
    first = _first(g, game)
    out[0] = own / first
    out[1] = (g.ops[game, job] - op) / count
    out[2] = (duration + setup) / unit
    out[3] = start == 0
    out[4] = start / unit
    out[5] = _centre_work(g, game, machine) / first
    out[6] = (done + duration) / own
    out[7] = max(0, g.machine_free[game, machine] - now) / unit
    out[8] = out[10] = out[11] = 0.0
    following = -1
    if op + 1 < g.ops[game, job]:
        following = g.route[game, job, op + 1]
        begin, end = _centre(g, game, following)
        free = g.machine_free[game, begin]
        for one in range(begin + 1, end):
            free = min(free, g.machine_free[game, one])
        out[8] = max(0, free - now) / unit
        out[10] = g.durations[game, job, op + 1] / unit
        out[11] = _centre_work(g, game, following) / first
    out[9] = longer / jobs
    out[12] = (_centre_queue(g, game, machine) - 1) / jobs
    out[13] = (start + own) / g.left[game]
    out[14] = (g.due[game, job] - now - start - own) / unit if g.arrivals else 0.0
    out[15] = g.weight[game, job]
    out[16] = (now - g.release[game, job]) / unit if g.arrivals else 0.0
    out[17] = (done + own) / first
    out[18] = setup / unit
    out[19] = _urgency(g, game, job) if g.arrivals else 0.0
    out[20] = _turn(g, game, i) if start == 0 else 0.0
    if g.labels:
        out[21], out[22] = machine, following


@compiled
def _urgency(g: Any, game: int, job: int) -> float:
    """Weight over duration, less the more slack there is."""
    now, unit = g.now[game], g.unit[game]
    duration = g.durations[game, job, g.op[game, job]]
    duration += _setup(g, game, job, _machine_of(g, game, job))
    end = max(_start_of(g, game, job), now) + g.job_work[game, job]
    slack = max(0, g.due[game, job] - end) / unit
    urgency: float = g.weight[game, job] * unit / duration * math.exp(-slack / 2)
    return urgency


@compiled
def _haste(g: Any, game: int, job: int) -> float:
    """What the best rule goes by: the job with the most goes first."""
    if g.arrivals:
        haste: float = _urgency(g, game, job)
    else:
        done = g.job_done[game, job] + g.durations[game, job, g.op[game, job]]
        haste = -done / g.job_work[game, job]
    return haste


@compiled
def _turn(g: Any, game: int, i: int) -> float:
    """One over the place of the i-th job, which is ready, among those ready for its machine."""
    job, place = g.here[game, i], 1
    begin, end = _centre(g, game, g.route[game, job, g.op[game, job]])
    haste = _haste(g, game, job)
    for k in range(g.num_here[game]):
        other = g.here[game, k]
        is_rival = begin <= g.route[game, other, g.op[game, other]] < end
        if is_rival and k != i and _start_of(g, game, other) <= g.now[game]:
            own = _haste(g, game, other)
            place += own > haste or (own == haste and k < i)
    return 1.0 / place


def machine_features(g: Any, game: int, machine: int, out: npt.NDArray[np.float32]) -> None:
    """Those of a machine."""
    wait = max(0, g.machine_free[game, machine] - g.now[game])
    out[0] = wait / g.unit[game]
    work = _centre_work(g, game, machine)
    out[1] = work / _first(g, game)
    out[2] = _centre_queue(g, game, machine) / max(g.num_here[game], 1)
    out[3] = (wait + work) / g.left[game]
    if g.labels:
        out[4] = machine


def clock_features(g: Any, game: int, _: int, out: npt.NDArray[np.float32]) -> None:
    """What is left, and how much of it."""
    ready = 0
    for i in range(g.num_here[game]):
        ready += _start_of(g, game, g.here[game, i]) <= g.now[game]
    out[0] = g.left[game] / _first(g, game)
    out[1], out[2], out[3] = g.num_here[game] / 10, ready / 10, g.machines[game] / 10


@compiled
def _first(g: Any, game: int) -> float:
    """In parts of which work is shown."""
    first: float = g.machines[game] * g.unit[game] if g.arrivals else g.first[game]
    return first


@compiled
def _draw(g: Any, game: int) -> None:
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
    """Families and set-up times; when machines break down, and for how long."""
    if g.setups > 0:
        families = g.setup_times.shape[1]
        for job in range(g.jobs[game]):
            g.family[game, job] = random_int(g.random, game, 0, families - 1)
        for i in range(families):
            for j in range(families):
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
def _centre(g: Any, game: int, machine: int) -> tuple[int, int]:
    """The first of the machines that can do the same as this one, and the one after the last."""
    begin = machine // g.flexible * g.flexible
    return begin, min(begin + g.flexible, g.machines[game])


@compiled
def _centre_work(g: Any, game: int, machine: int) -> float:
    """What is still to come to a machine: its share of what comes to its work centre."""
    begin, end = _centre(g, game, machine)
    work = 0
    for one in range(begin, end):
        work += g.machine_work[game, one]
    share: float = work / (end - begin)
    return share


@compiled
def _centre_queue(g: Any, game: int, machine: int) -> int:
    begin, end = _centre(g, game, machine)
    queue = 0
    for one in range(begin, end):
        queue += g.queue[game, one]
    return queue


@compiled
def _setup(g: Any, game: int, job: int, machine: int) -> int:
    """How long a machine is set up for a job."""
    last = g.set_for[game, machine]
    time: int = g.setup_times[game, last, g.family[game, job]] if last >= 0 else 0
    return time


@compiled
def _machine_of(g: Any, game: int, job: int) -> int:
    """The machine on which the next operation of a job ends first, of equals the first."""
    machine: int = g.route[game, job, g.op[game, job]]
    if g.flexible == 1:
        return machine
    begin, end = _centre(g, game, machine)
    earliest = max(g.job_free[game, job], g.now[game])
    best: int = begin
    least = _NEVER
    for one in range(begin, end):
        time = max(g.machine_free[game, one], earliest) + _setup(g, game, job, one)
        if time < least:
            best, least = one, time
    return best


@compiled
def _start_of(g: Any, game: int, job: int) -> int:
    start: int = max(g.job_free[game, job], g.machine_free[game, _machine_of(g, game, job)])
    return start


@compiled
def _dispatch(g: Any, game: int, job: int) -> None:
    op = g.op[game, job]
    route, duration = g.route[game, job, op], g.durations[game, job, op]
    machine = _machine_of(g, game, job)
    end = g.now[game] + _setup(g, game, job, machine) + duration
    g.set_for[game, machine], g.last_job[game, machine] = g.family[game, job], job
    g.starts[game, job, op], g.ends[game, job, op] = g.now[game], end
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
    """Time goes on to where something can start; then ``left`` is what is left of the bound."""
    jobs = g.jobs[game]
    while True:
        while g.come[game] < jobs and g.release[game, g.come[game]] <= g.now[game]:
            job = g.come[game]
            g.here[game, g.num_here[game]] = job
            g.num_here[game] += 1
            g.come[game] += 1
            for op in range(g.ops[game, job]):
                g.machine_work[game, g.route[game, job, op]] += g.durations[game, job, op]
            g.queue[game, g.route[game, job, 0]] += 1
        _break_down(g, game, False)
        if g.num_here[game] == 0 and g.come[game] == jobs:
            _break_down(g, game, True)
            break
        earliest = _NEVER
        for i in range(g.num_here[game]):
            earliest = min(earliest, _start_of(g, game, g.here[game, i]))
        if earliest <= g.now[game]:
            break
        if g.come[game] < jobs:
            earliest = min(earliest, g.release[game, g.come[game]])
        if g.breakdowns > 0:
            for machine in range(g.machines[game]):
                earliest = min(earliest, g.next_break[game, machine])
        g.now[game] = earliest
    left = 1
    for i in range(g.num_here[game]):
        job = g.here[game, i]
        wait = max(_start_of(g, game, job) - g.now[game], 0)
        left = max(left, wait + g.job_work[game, job])
    for machine in range(0, g.machines[game], g.flexible):
        begin, end = _centre(g, game, machine)
        time = 0
        for one in range(begin, end):
            time += max(g.machine_free[game, one] - g.now[game], 0) + g.machine_work[game, one]
        left = max(left, time // (end - begin))
    g.left[game] = left


@compiled
def _break_down(g: Any, game: int, until_done: bool) -> None:
    """Machines whose time has come are repaired, and what they work on ends later."""
    if g.breakdowns <= 0:
        return
    for machine in range(g.machines[game]):
        while True:
            at, free = g.next_break[game, machine], g.machine_free[game, machine]
            if at > g.now[game] and not (until_done and at < free):
                break
            repair = g.downs[game, machine, g.broken[game, machine] % BREAKDOWNS]
            g.broken[game, machine] += 1
            if free > at:
                job = g.last_job[game, machine]
                g.ends[game, job, g.op[game, job] - 1] = free + repair
                g.machine_free[game, machine] = g.job_free[game, job] = free + repair
            else:
                g.machine_free[game, machine] = at + repair
            up = g.ups[game, machine, g.broken[game, machine] % BREAKDOWNS]
            g.next_break[game, machine] = at + repair + up


@compiled
def _bound(g: Any, game: int) -> float:
    """What the makespan, or the weighted tardiness, is at least."""
    now, bound = g.now[game], 0
    if g.arrivals:
        for job in range(g.come[game]):
            end = g.job_free[game, job]
            if g.op[game, job] < g.ops[game, job]:
                end = max(_start_of(g, game, job), now) + g.job_work[game, job]
            bound += g.weight[game, job] * max(0, end - g.due[game, job])
        return float(bound)
    for i in range(g.num_here[game]):
        job = g.here[game, i]
        bound = max(bound, max(_start_of(g, game, job), now) + g.job_work[game, job])
    for job in range(g.jobs[game]):
        bound = max(bound, g.job_free[game, job])
    for machine in range(0, g.machines[game], g.flexible):
        begin, end = _centre(g, game, machine)
        time, work = 0, 0
        for one in range(begin, end):
            time += max(g.machine_free[game, one], now)
            work += g.machine_work[game, one]
        if work:
            bound = max(bound, (time + work) // (end - begin))
    return float(bound)


@compiled
def _measure(g: Any, game: int) -> None:
    makespan = 0
    for job in range(g.jobs[game]):
        makespan = max(makespan, g.job_free[game, job])
    g.makespan[game] = makespan
    if g.arrivals:
        weights = 0
        for job in range(g.jobs[game]):
            weights += g.weight[game, job]
        g.outcome[game] = g.bound[game] / weights
    else:
        g.outcome[game] = makespan / g.first[game]
    if g.best[game]:
        g.gap[game] = 100 * (makespan / g.best[game] - 1)
