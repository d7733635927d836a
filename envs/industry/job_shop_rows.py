"""Job shops for all rows at once: the game of ``job_shop.py``, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.environment import Environment
from entity_env.errors import StateError
from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
)

from .job_shop import JobShop
from .job_shop_engine import (
    NEVER,
    bound_of,
    dispatch,
    draw_arrivals,
    draw_instance,
    draw_troubles,
    measure,
    move_on,
    start_of,
)
from .job_shop_instances import LONGEST, Instance
from .job_shop_rules import (
    ACTION_SPACE,
    BREAKDOWNS,
    JobShopSettings,
    obs_space_of,
)
from .job_shop_view import clock_features, job_features, machine_features, ready_jobs

__all__ = ["JobShopRows"]

_LATEST = 1_000_000_000
"""The latest time of saved states, half of what 32 bits count."""


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
    kept_settings = staticmethod(JobShop.kept_settings)

    def __init__(
        self, num_envs: int, seed: int = 0, *, copies: int = 1, threads: int = 1, **settings: Any
    ) -> None:
        self._alone = JobShop(**settings)
        given = self._alone.settings
        super().__init__(_game(given), num_envs, seed, threads=threads, copies=copies)
        self._given = [self._fields_of(one) for one in given.instances]
        for row in range(num_envs if self._given else 0):
            for name, value in self._given[row // copies % len(self._given)].items():
                self._fields[name][row] = value

    def _fields_of(self, one: Instance) -> dict[str, Any]:
        """Return what an instance says of the state of its row."""
        (jobs, machines), most = one.size, one.most_operations
        fields: dict[str, Any] = {"jobs": jobs, "machines": machines, "best": one.best or 0}
        for name in ("durations", "route", "ops", "release", "due", "weight"):
            fields[name] = np.zeros_like(self._fields[name][0])
        fields["durations"][:jobs, :most] = one.durations
        fields["route"][:jobs, :most] = one.machines.clip(0)
        fields["ops"][:jobs] = (one.machines >= 0).sum(1)
        for name in ("release", "due", "weight"):
            fields[name][:jobs] = getattr(one, name) or 0
        if self._alone.settings.has_times:
            times = fields["times"] = np.full_like(self._fields["times"][0], -1)
            if one.times is not None:
                times[:jobs, :most, :machines] = one.times
            else:  # each operation on its own machine
                job, op = np.nonzero(one.machines >= 0)
                times[job, op, one.machines[job, op]] = one.durations[job, op]
        return fields

    def load_game(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields, or StateError, also for an instance that is not among the given."""
        fields = super().load_game(saved)
        if self._given and not any(
            all(np.array_equal(fields[name], own[name]) for name in own) for own in self._given
        ):
            raise StateError(
                "the saved state is that of another instance",
                expected="one of those that the settings name",
                hint="begin another run",
            )
        return fields

    def draw_row(self, row: int, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the schedule of a row, as ``JobShop`` draws it."""
        self._alone.set_state(self.as_alone(row))
        return self._alone.render(**kwargs)

    def schedule(self, row: int) -> list[dict[str, Any]]:
        """Return the schedule of a row, as ``JobShop`` does."""
        self._alone.set_state(self.as_alone(row))
        return self._alone.schedule()

    def as_alone(self, row: int) -> dict[str, Any]:
        """Return the state of a row as ``JobShop`` saves it."""
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
        given = self._alone.settings.instances
        one = given[row // self._copies % len(given)] if given else None
        times = own["times"][:jobs, :, :machines].tolist()
        has_times = self._alone.settings.has_times
        return {
            "times": [row[:count] for row, count in zip(times, counts, strict=True)]
            if has_times
            else None,
            "job_names": one.jobs if one else (),
            "machine_names": one.machine_names if one else (),
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
            "jobs": Field(least=settings.jobs[0], most=jobs),
            "machines": Field(least=settings.machines[0], most=machines),
            "durations": Field((jobs, most), least=0, most=LONGEST),
            "times": Field(
                (jobs, most, machines) if settings.has_times else (1, 1, 1), least=-1, most=LONGEST
            ),
            "route": Field((jobs, most), least=0, most=machines - 1),
            "starts": Field((jobs, most), least=0, most=_LATEST),
            "ends": Field((jobs, most), least=0, most=_LATEST),
            "places": Field((jobs, most), least=0, most=machines - 1),
            "family": Field((jobs,), least=0, most=families - 1),
            "setup_times": Field((families, families), least=0, most=_LATEST),
            "set_for": Field((machines,), least=-1, most=families - 1),
            "last_job": Field((machines,), least=-1, most=jobs - 1),
            "ups": Field((machines, breaks), least=0, most=_LATEST),
            "downs": Field((machines, breaks), least=0, most=_LATEST),
            "broken": Field((machines,), least=0, most=_LATEST),
            "next_break": Field((machines,), least=0, most=NEVER),
            "ops": Field((jobs,), least=0, most=most),
            "op": Field((jobs,), least=0, most=most),
            **{
                name: Field((jobs,), least=0, most=_LATEST)
                for name in ("release", "due", "weight", "job_free", "job_work", "job_done")
            },
            "machine_free": Field((machines,), least=0, most=_LATEST),
            "machine_work": Field((machines,), least=0, most=_LATEST),
            "queue": Field((machines,), least=0, most=jobs),
            "here": Field((jobs,), least=0, most=jobs - 1),
            "num_here": Field(least=1, most=jobs),
            "come": Field(least=0, most=jobs),
            "now": Field(least=0, most=_LATEST),
            "best": Field(least=0, most=_LATEST),
            **{
                name: Field(dtype=np.float64, least=1e-9, most=1e18)
                for name in ("unit", "scale", "left")
            },
            "first": Field(dtype=np.float64, least=0 if settings.arrivals else 1, most=1e18),
            "bound": Field(dtype=np.float64, least=0, most=1e18),
            "makespan": Field(dtype=np.float64),
            "outcome": Field(dtype=np.float64),
            "gap": Field(dtype=np.float64),
        },
        settings={
            "given": bool(settings.instances),
            "arrivals": settings.arrivals,
            "dated": settings.dated,
            "has_times": settings.has_times,
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
        | ({"tardiness": "outcome"} if settings.dated else {"ratio": "outcome"})
        | ({"gap": "gap"} if any(one.best for one in settings.instances) else {}),
        problems=problems,
    )


def problems(g: Any, game: int) -> dict[str, bool]:
    """Return what a saved state must not have, and whether it has it."""
    machines, come, now = g.machines[game], g.come[game], g.now[game]
    ops, op = g.ops[game, : g.jobs[game]], g.op[game, : g.jobs[game]]
    places = np.arange(g.route.shape[2])
    exists = places < ops[:, np.newaxis]
    is_left = exists & (places >= op[:, np.newaxis])
    # Where an operation has several machines, their work is a mean over them.
    has_times = g.times.shape[1:3] == g.route.shape[1:3]
    times, route = g.durations[game, : len(ops)], g.route[game, : len(ops)]
    waits, here = np.flatnonzero(op[:come] < ops[:come]), g.here[game, : g.num_here[game]]
    if not np.array_equal(waits, here):
        return {"a wrong list of jobs": True}
    came = is_left & (np.arange(len(ops)) < come)[:, np.newaxis]
    work = np.bincount(route[came], times[came], len(g.queue[game]))
    queue = np.bincount(route[waits, op[waits]], minlength=len(g.queue[game]))
    return {
        "a job without operations": (ops < 1).any() or (op > ops).any(),
        "an operation on a machine that is not there": (route[exists] >= machines).any(),
        "other work": not has_times
        and (
            not np.array_equal((times * is_left).sum(1), g.job_work[game, : len(ops)])
            or not np.array_equal(work[:machines], g.machine_work[game, :machines])
            or not np.array_equal(queue[:machines], g.queue[game, :machines])
        ),
        "no job that can start": not any(start_of(g, game, job) <= now for job in here),
        "a breakdown in the past": (g.next_break[game, :machines] <= now).any(),
        "a repair without end": g.breakdowns > 0
        and min(g.ups[game, :machines].min(), g.downs[game, :machines].min()) < 1,
    }


def reset(g: Any, game: int) -> None:
    """Draw an instance, unless one is given, and let the first jobs arrive."""
    for machine in range(g.next_break.shape[1]):  # those beyond the shop's own, too
        g.next_break[game, machine] = NEVER
    if not g.given:
        draw_instance(g, game)
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
        draw_arrivals(g, game)
    draw_troubles(g, game)
    g.now[game] = g.num_here[game] = g.come[game] = 0
    move_on(g, game)
    g.first[game] = g.bound[game] = bound_of(g, game)
    if g.dated:
        weights = 0
        for job in range(jobs):
            weights += g.weight[game, job]
        g.scale[game] = weights * g.unit[game]
    else:
        g.scale[game] = g.first[game]


def step(g: Any, game: int, chosen: npt.NDArray[np.int64]) -> tuple[float, bool]:
    """Start what was chosen, and what has no alternative."""
    dispatch(g, game, g.here[game, chosen[0]])
    move_on(g, game)
    while True:
        ready, only = 0, 0
        for i in range(g.num_here[game]):
            if start_of(g, game, g.here[game, i]) <= g.now[game]:
                ready, only = ready + 1, g.here[game, i]
        if ready != 1:
            break
        dispatch(g, game, only)
        move_on(g, game)
    before = g.bound[game]
    g.bound[game] = bound_of(g, game)
    over = g.num_here[game] == 0
    if over:
        measure(g, game)
    return (before - g.bound[game]) * 10 / g.scale[game], over
