"""Job shop scheduling as dispatching: which job's next operation starts now?"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.environment import Environment
from entity_env.observation import Observation, SelectEntityActionMask
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

from ..checks import check_running, check_started, read_selection, reading_state
from ..errors import EnvConfigError, check_whole
from ..given_files import is_kept, keep_files
from .job_shop_chart import Bar, draw_chart
from .job_shop_instances import Instance
from .job_shop_rules import (
    ACTION_SPACE,
    BREAKDOWNS,
    SHORTEST_LONGEST,
    WEIGHTS,
    JobShopSettings,
    obs_space_of,
)
from .taillard import TAILLARD

__all__ = ["JobShop"]


class JobShop(Environment):
    """Time stands where some operation can start; a job that can is chosen, and starts.

    When no further operation can start, time moves on to where one can. Where a single one can,
    it starts by itself, so that what is asked is a choice (but for the first one of an episode).

    Entities:
        Job: each that is here and not finished. ``work`` is left of it, in parts of the first
        bound; ``operations`` are left, in parts of the machines. Of its next operation:
        ``duration``, whether it is ``ready`` to start, the ``wait`` until it can be, its machine's
        ``machine wait`` and ``machine work`` left, how many other jobs (``rivals``, in parts of
        the jobs) wait for the same machine. The same of the operation after it: ``next duration``,
        ``next machine wait``, ``next machine work``; 0 where there is none. ``flow``: the work up
        to and with the next operation over the work that is left. ``rank`` by the work left, 0 for
        the most. ``path``: how long it takes at least, in parts of the bound that is left.
        ``slack`` to its due date, ``weight`` and ``age`` are 0 without due dates. ``job work``: all
        of it, in parts of the first bound; ``setup``: the part of ``duration`` that its machine
        is set up for; ``urgency``: weight over duration, less the more slack there is (Vepsalainen
        and Morton 1987), 0 without due dates; ``turn``: of jobs that are ready, 1 for the one of
        those for its machine that the best rule starts first (flow due date over work left; the
        most urgent with due dates), 1/2 for the second, and so on; 0 for others. Times are in mean
        durations of an operation.
        Machine: ``wait`` until it is free, ``work`` left to come to it, in parts of the first
        bound, ``queue`` of jobs whose next operation needs it, in parts of the jobs, and ``path``
        as for jobs.
        Clock: what is ``left`` of the bound, in parts of the first one; ``jobs`` here and
        ``ready`` in tens, ``machines`` in tens.
    Actions:
        Dispatch: the clock selects a job that is ready.
    Reward:
        Minus what the choice adds to a lower bound of the makespan, times 10 / the first bound.
        With due dates minus what is added to the weighted tardiness that can no longer be
        avoided, in mean durations for each unit of weight of all jobs, times 10.
    End:
        All operations have been started.
    Randomness:
        Durations of 1 to 99, machines in any order; with ``arrivals`` exponential times between
        them, due dates and weights; families of jobs, set-up times, breakdowns and repairs.
    Metrics:
        makespan; ratio: of the makespan to the first bound; gap: in percent above the best
        makespan known, of given instances; tardiness: the weighted mean, in time units.
    Source:
        Taillard, "Benchmarks for basic scheduling problems", EJOR 64, 1993.

    Args:
        jobs: How many; or the least and the most, from which each episode draws.
        machines: The same. Jobs that are drawn visit each machine once.
        instance: ``ta01`` to ``ta80``, a file, or a list of them, played in turn. A file is text in
            the usual format or Taillard's, or a ``.csv`` with the columns job, machine, duration
            and perhaps due, weight, release. With due dates tardiness counts, as with ``arrivals``,
            but all jobs are known from the beginning.
        arrivals: Jobs arrive over time, and have due dates and weights.
        load: With ``arrivals``, the share of the time that the machines are busy, about.
        tightness: With ``arrivals``, how many times its work a job's due date is after its
            arrival; two numbers are the least and the most.
        breakdowns: The share of the time that a machine is down, from 0 to 0.9. What it works on
            then waits for the repair, and goes on.
        repair: How long repairs take on average, in mean durations; exponential, as are the times
            between them.
        setups: How long set-ups take on average, in mean durations, from half to one and a half
            times as long. A machine is set up before a job of another family than the last one;
            each pair of families has its own time.
        families: Of jobs, where there are set-ups.
        flexible: So many neighbouring machines form a work centre: an operation is done on the one
            of them on which it ends first. An ``.fjs`` file says itself which machines can do an
            operation, and how fast; what is shown of work and queues is then that of all machines.
        labels: Show the numbers of machines, for ``net.relations``: ``machine`` and ``next
            machine`` of a job (-1 for none), ``number`` of a machine.
        copies: Of many rows, so many neighbours get the same instance; alone it changes nothing.

    Raises:
        EnvConfigError: No such instance, a damaged one, or a number out of range.
    """

    consent_settings: ClassVar = {"instance": lambda one: str(one) in TAILLARD or is_kept(one)}
    """Other instances are files."""

    def __init__(
        self,
        jobs: int | tuple[int, int] | list[int] = (6, 15),
        machines: int | tuple[int, int] | list[int] = (5, 15),
        instance: Any = None,
        arrivals: bool = False,
        load: float = 0.9,
        tightness: float | tuple[float, float] | list[float] = (1.5, 4.0),
        breakdowns: float = 0.0,
        repair: float = 5.0,
        setups: float = 0.0,
        families: int = 3,
        flexible: int = 1,
        labels: bool = False,
        copies: int = 1,
    ) -> None:
        check_whole("copies", copies, 1)
        self.settings = JobShopSettings.check(
            jobs, machines, instance, arrivals=arrivals, load=load, tightness=tightness,
            breakdowns=breakdowns, repair=repair, setups=setups, families=families,
            flexible=flexible, labels=labels,
        )  # fmt: skip
        self.turn, self.steps, self.over = 0, -1, False
        self.bars: list[Bar] = []
        self.op: list[int] = []
        self.here: list[int] = []
        self.due: list[int] = []
        self.weight: list[int] = []
        self.job_free: list[int] = []
        self.machine_free: list[int] = []
        self.now = 0

    @staticmethod
    def kept_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings that hold the texts of the files that they name, for a run folder."""
        if settings.get("instance") is None:
            return dict(settings)
        return {**settings, "instance": keep_files("instance", settings["instance"], TAILLARD)}

    def obs_space(self) -> ObsSpace:
        """Jobs, machines, and the clock that dispatches."""
        return obs_space_of(self.settings.labels)

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Dispatch."""
        return ACTION_SPACE

    def reset(self) -> Observation:
        """Return the next given instance, or one that is drawn."""
        given = self.settings.instances
        if given:
            instance = given[self.turn % len(given)]
            self.turn += 1
        else:
            instance = self._drawn()
        self._begin(instance)
        if self.settings.arrivals:
            self._draw_arrivals()
        self._draw_troubles()
        self._start()
        return self._shown(0.0)

    def begin_at(
        self, now: int, op: Sequence[int], job_free: Sequence[int], machine_free: Sequence[int]
    ) -> Observation:
        """Return the observation of the given instance at a moment of its work.

        It is what an episode observes at that moment, where there are no set-ups and breakdowns.

        Args:
            now: The time.
            op: How many operations of each job have been started. Shape: (jobs,).
            job_free: When the next operation of each job can start. Shape: (jobs,).
            machine_free: When each machine is free. Shape: (machines,).

        Raises:
            EnvConfigError: The environment has been made without ``instance``.
        """
        if not self.settings.instances:
            raise EnvConfigError("no instance to begin at", expected="JobShop(instance=...)")
        self._begin(self.settings.instances[0])
        self._start()
        self.now, self.op, self.machine_free = now, list(op), list(machine_free)
        self.job_free = [max(times) for times in zip(job_free, self.release, strict=True)]
        self.here = [job for job in self.here if self.op[job] < len(self.machines[job])]
        self.bound, self.over = self._bound(), not self.here
        return self._shown(0.0)

    def _start(self) -> None:
        self._move_on()
        self.first = self.bound = self._bound()
        self.steps, self.over = 0, False

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Start the job's operation, and move on to the next choice."""
        check_running(self.steps, self.over)
        options = [("Job", job) for job in self.here if self._can_start(job)]
        chosen: Any = read_selection(actions, "Dispatch", "clock", options)
        self.steps += 1
        self._dispatch(chosen[1])
        self._move_on()
        while len(ready := [job for job in self.here if self._can_start(job)]) == 1:
            self._dispatch(ready[0])
            self._move_on()
        before, self.bound = self.bound, self._bound()
        self.over = not self.here
        return self._shown(-(self.bound - before) * 10 / self._scale())

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return a Gantt chart of what has been started."""
        check_started(self.steps)
        due = self.due if self.settings.dated else ()
        return draw_chart(self.bars, self.job_names, self.machine_names, self.now, due, **kwargs)

    def schedule(self) -> list[dict[str, Any]]:
        """Return what has been started: a job, machine, start and end for each operation.

        Jobs and machines are named as in their instance, or else by their numbers.
        """
        check_started(self.steps)
        return [
            {
                "job": self.job_names[bar.job],
                "machine": self.machine_names[bar.machine],
                "start": bar.start,
                "end": bar.end,
            }
            for bar in sorted(self.bars, key=lambda bar: (bar.start, bar.machine))
        ]

    def get_state(self) -> dict[str, Any]:
        """Return the instance and its schedule."""
        check_started(self.steps)
        names = ["release", "due", "weight", "op", "job_free", "machine_free", "here", "now"]
        names += _TROUBLES
        return {
            "durations": self.durations,
            "machines": self.machines,
            "bars": [list(bar) for bar in self.bars],
            "first": self.first,
            "bound": self.bound,
            "best": self.best,
            "steps": self.steps,
            "turn": self.turn,
            "times": self.times,
            "job_names": self.job_names,
            "machine_names": self.machine_names,
            **{name: _copied(getattr(self, name)) for name in names},
        }

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go on with it."""
        with reading_state("a job shop", state):
            tables = state["durations"], state["machines"]
            given = {name: state[name] for name in ("release", "due", "weight")}
            given["jobs"] = state.get("job_names", ())
            given["machine_names"] = state.get("machine_names", ())
            given["times"] = state.get("times")
            self._begin(Instance.of(*tables, len(state["machine_free"]), state["best"], **given))
            self.op, self.here = list(state["op"]), list(state["here"])
            for name in _TROUBLES:
                setattr(self, name, _copied(state[name]))
            self.job_free, self.machine_free = list(state["job_free"]), list(state["machine_free"])
            self.bars = [Bar(*bar) for bar in state["bars"]]
            self.now, self.first, self.bound = state["now"], state["first"], state["bound"]
            self.steps, self.turn, self.over = state["steps"], state["turn"], False
            return self._shown(0.0)

    def _drawn(self) -> Instance:
        """Return an instance whose size and numbers are drawn."""
        jobs = int(self.rng.integers(*self.settings.jobs, endpoint=True))
        machines = int(self.rng.integers(*self.settings.machines, endpoint=True))
        durations = self.rng.integers(*SHORTEST_LONGEST, (jobs, machines), np.int32, True)
        order = self.rng.permuted(np.tile(np.arange(machines, dtype=np.int32), (jobs, 1)), axis=1)
        return Instance(durations, order, machines)

    def _begin(self, instance: Instance) -> None:
        # As lists: single numbers of an array are read at a tenth of the speed.
        counts = (instance.machines >= 0).sum(1).tolist()
        tables = instance.durations.tolist(), instance.machines.tolist()
        self.durations: list[list[int]]
        self.machines: list[list[int]]
        self.durations, self.machines = (
            [row[:count] for row, count in zip(table, counts, strict=True)] for table in tables
        )
        self.best = instance.best
        self.times: list[list[list[int]]] | None = None
        if instance.times is not None:
            own_times = zip(instance.times.tolist(), counts, strict=True)
            self.times = [own[:count] for own, count in own_times]
        jobs, machines = instance.size
        self.unit = sum(map(sum, self.durations)) / sum(counts)
        none = [0] * jobs
        self.release, self.due, self.weight = (
            list(own or none) for own in (instance.release, instance.due, instance.weight)
        )
        self.job_names = list(instance.jobs or map(str, range(jobs)))
        self.machine_names = list(instance.machine_names or map(str, range(machines)))
        self.op = [0] * jobs
        self.job_free = list(self.release)
        self.machine_free = [0] * machines
        self.here = list(range(jobs))
        self.now = 0
        self.bars = []
        self.family, self.setup_times = [0] * jobs, [[0]]
        self.set_for, self.last_job = [-1] * machines, [-1] * machines
        self.ups: list[list[int]] = [[0] for _ in range(machines)]
        self.downs: list[list[int]] = [[0] for _ in range(machines)]
        self.broken, self.next_break = [0] * machines, [_NEVER] * machines

    def _draw_arrivals(self) -> None:
        """Draw the arrivals, due dates and weights of jobs."""
        between = self.unit * self.settings.delay / self.settings.load
        low, high = self.settings.tightness
        time = 0.0
        for job, durations in enumerate(self.durations):
            self.release[job] = self.job_free[job] = int(time)
            time += -math.log(1 - self.rng.random()) * between
            room = low + (high - low) * self.rng.random()
            self.due[job] = self.release[job] + int(room * sum(durations))
            lot, self.weight[job] = self.rng.random(), WEIGHTS[-1][0]
            for weight, share in WEIGHTS:
                if lot < share:
                    self.weight[job] = weight
                    break
                lot -= share
        self.here = []

    def _draw_troubles(self) -> None:
        """Families and set-up times; when machines break down, and for how long."""
        own, draw, unit = self.settings, self.rng, self.unit
        if own.setups:
            self.family = draw.integers(own.families, size=len(self.op)).tolist()
            times = np.maximum(1, own.setups * unit * (0.5 + draw.random((own.families,) * 2)))
            np.fill_diagonal(times, 0)
            self.setup_times = times.astype(int).tolist()
        if own.breakdowns:
            size = len(self.machine_free), BREAKDOWNS
            up = own.repair * unit * (1 - own.breakdowns) / own.breakdowns
            self.ups = (1 + draw.exponential(up, size).astype(int)).tolist()
            self.downs = (1 + draw.exponential(own.repair * unit, size).astype(int)).tolist()
            self.next_break = [each[0] for each in self.ups]

    def _centre(self, machine: int) -> range:
        """Return the machines that can do the same as this one."""
        size = self.settings.flexible
        first = machine // size * size
        return range(first, min(first + size, len(self.machine_free)))

    def _setup(self, job: int, machine: int) -> int:
        """Return the set-up time of a machine for a job."""
        last = self.set_for[machine]
        return self.setup_times[last][self.family[job]] if last >= 0 else 0

    def machine_of(self, job: int) -> int:
        """Return the machine on which a job's next operation ends first."""
        return min(
            self._able(job),
            key=lambda machine: (
                max(self.job_free[job], self.machine_free[machine], self.now)
                + self._setup(job, machine)
                + self._time(job, machine)
            ),
        )

    def _able(self, job: int) -> Sequence[int]:
        """Return the machines that can do the next operation of a job."""
        if self.times is None:
            return self._centre(self.machines[job][self.op[job]])
        return [one for one, time in enumerate(self.times[job][self.op[job]]) if time >= 0]

    def _time(self, job: int, machine: int) -> int:
        """Return how long the next operation of a job takes on a machine."""
        op = self.op[job]
        return self.durations[job][op] if self.times is None else self.times[job][op][machine]

    def start_of(self, job: int) -> int:
        """Return the time at which a job's next operation, or its set-up, can start."""
        return max(self.job_free[job], self.machine_free[self.machine_of(job)])

    def _can_start(self, job: int) -> bool:
        return self.start_of(job) <= self.now

    def _work(self, job: int) -> int:
        """Return the remaining work of a job."""
        return sum(self.durations[job][self.op[job] :])

    def _dispatch(self, job: int) -> None:
        """Start the next operation of a job now."""
        machine = self.machine_of(job)
        end = self.now + self._setup(job, machine) + self._time(job, machine)
        self.set_for[machine], self.last_job[machine] = self.family[job], job
        self.bars.append(Bar(machine, job, self.now, end))
        self.job_free[job] = self.machine_free[machine] = end
        self.op[job] += 1
        if self.op[job] == len(self.machines[job]):
            self.here.remove(job)

    def _move_on(self) -> None:
        """Move time on to where some operation can start, and let jobs arrive."""
        while True:
            self._admit()
            self._break_down()
            if any(self._can_start(job) for job in self.here):
                return
            coming = self.release if self.settings.arrivals else []
            coming = [time for time in coming if time > self.now][:1]
            times = [self.start_of(job) for job in self.here] + coming
            if not times:
                self._break_down(until_done=True)
                return
            self.now = min([*times, *self.next_break])

    def _break_down(self, until_done: bool = False) -> None:
        """Machines whose time has come are repaired, and what they work on ends later."""
        for machine in range(len(self.machine_free)):
            while True:
                at, free = self.next_break[machine], self.machine_free[machine]
                if at > self.now and not (until_done and at < free):
                    break
                number = self.broken[machine] = self.broken[machine] + 1
                repair = self.downs[machine][(number - 1) % BREAKDOWNS]
                if free > at:
                    self.machine_free[machine] = self.job_free[self.last_job[machine]] = (
                        free + repair
                    )
                    own = max(i for i, bar in enumerate(self.bars) if bar.machine == machine)
                    self.bars[own] = self.bars[own]._replace(end=free + repair)
                else:
                    self.machine_free[machine] = at + repair
                self.next_break[machine] = at + repair + self.ups[machine][number % BREAKDOWNS]

    def _admit(self) -> None:
        if self.settings.arrivals:
            for job, time in enumerate(self.release):
                if time <= self.now and self.op[job] == 0 and job not in self.here:
                    self.here.append(job)

    def _machine_work(self) -> list[int]:
        """Return the work still to come to each machine, of jobs that are here."""
        work = [0] * len(self.machine_free)
        for job in self.here:
            for op in range(self.op[job], len(self.machines[job])):
                work[self.machines[job][op]] += self.durations[job][op]
        return work

    def _bound(self) -> float:
        """Return a lower bound of the makespan, or of the weighted tardiness."""
        if self.settings.dated:
            return float(sum(self._tardiness(job) for job in range(len(self.op))))
        ends = [max(self.start_of(job), self.now) + self._work(job) for job in self.here]
        work = self._machine_work()
        for machine in range(0, len(work), self.settings.flexible):
            centre = self._centre(machine)
            if left := sum(work[one] for one in centre):
                free = sum(max(self.machine_free[one], self.now) for one in centre)
                ends.append((free + left) // len(centre))
        return float(max([*ends, *self.job_free]))

    def _tardiness(self, job: int) -> int:
        """Return the weighted tardiness of a job without further delays; 0 before it comes."""
        if job in self.here:
            end = max(self.start_of(job), self.now) + self._work(job)
        elif self.op[job] == len(self.machines[job]):
            end = self.job_free[job]
        else:
            return 0
        return self.weight[job] * max(0, end - self.due[job])

    def _scale(self) -> float:
        return sum(self.weight) * self.unit if self.settings.dated else self.first

    def _shown(self, reward: float) -> Observation:
        jobs, count = len(self.here), len(self.machine_free)
        own_work = self._machine_work()
        work = [
            sum(own_work[one] for one in centre) / len(centre)
            for centre in map(self._centre, range(count))
        ]
        # Of due dates there is no bound of the makespan: what is there to do takes its place.
        first = count * self.unit if self.settings.dated else self.first
        left = self._left(own_work)
        queues = [0] * count
        for job in self.here:
            for one in self._centre(self.machines[job][self.op[job]]):
                queues[one] += 1
        order = sorted(map(self._work, self.here))
        turns = self._turns([job for job in self.here if self._can_start(job)])
        features = {
            "Job": [self._job(job, order, turns, work, queues, first, left) for job in self.here],
            "Machine": [
                [
                    max(0, free - self.now) / self.unit,
                    own / first,
                    queue / max(jobs, 1),
                    (max(0, free - self.now) + own) / left,
                    *([float(number)] if self.settings.labels else []),
                ]
                for number, (free, own, queue) in enumerate(
                    zip(self.machine_free, work, queues, strict=True)
                )
            ],
            "Clock": [
                [
                    left / first,
                    jobs / 10,
                    len(turns) / 10,
                    count / 10,
                ]
            ],
        }
        ready = [("Job", job) for job in self.here if job in turns]
        return Observation(
            features=features,
            ids={
                "Job": [("Job", job) for job in self.here],
                "Machine": [("Machine", i) for i in range(count)],
                "Clock": ["clock"],
            },
            actions={"Dispatch": SelectEntityActionMask(actor_types=["Clock"], actee_ids=ready)}
            if self.here
            else {},
            reward=reward,
            done=not self.here,
            metrics=self._metrics() if not self.here else {},
        )

    def _left(self, work: list[int]) -> float:
        """Return the time that what is here takes at least, from now on; 1 if nothing does."""
        ends = [max(self.start_of(job) - self.now, 0) + self._work(job) for job in self.here]
        for machine in range(0, len(work), self.settings.flexible):
            centre = self._centre(machine)
            waits = sum(max(self.machine_free[one] - self.now, 0) for one in centre)
            ends.append((waits + sum(work[one] for one in centre)) // len(centre))
        return float(max([*ends, 1]))

    def _job(
        self,
        job: int,
        order: list[int],
        turns: Mapping[int, float],
        work: list[float],
        queues: list[int],
        first: float,
        left: float,
    ) -> list[float]:
        op, count, unit, now = self.op[job], len(self.machine_free), self.unit, self.now
        machine, duration = self.machine_of(job), self.durations[job][op]
        setup = self._setup(job, machine)
        own, start = self._work(job), max(self.start_of(job) - now, 0)
        done = sum(self.durations[job][:op])
        after, following = [0.0, 0.0, 0.0], -1
        if op + 1 < len(self.machines[job]):
            following = self.machines[job][op + 1]
            after = [
                self.durations[job][op + 1] / unit,
                max(0, min(self.machine_free[one] for one in self._centre(following)) - now) / unit,
                work[following] / first,
            ]
        jobs = len(order)
        has_due = self.settings.dated
        return [
            own / first,
            (len(self.machines[job]) - op) / count,
            (self._time(job, machine) + setup) / unit,
            float(start == 0),
            start / unit,
            work[machine] / first,
            (done + duration) / max(own, 1),
            max(0, self.machine_free[machine] - now) / unit,
            after[1],
            (jobs - bisect_right(order, own)) / jobs,
            after[0],
            after[2],
            (queues[machine] - 1) / jobs,
            (start + own) / left,
            (self.due[job] - now - start - own) / unit if has_due else 0.0,
            float(self.weight[job]),
            max(now - self.release[job], 0) / unit if has_due else 0.0,
            (done + own) / first,
            setup / unit,
            self._urgency(job) if has_due else 0.0,
            turns.get(job, 0.0),
            *([float(machine), float(following)] if self.settings.labels else []),
        ]

    def _urgency(self, job: int) -> float:
        machine = self.machine_of(job)
        duration = self._time(job, machine) + self._setup(job, machine)
        end = max(self.start_of(job), self.now) + self._work(job)
        slack = max(0, self.due[job] - end) / self.unit
        return float(self.weight[job] * self.unit / max(duration, 1) * math.exp(-slack / 2))

    def _haste(self, job: int) -> float:
        """Return the key of the best rule: the job with the greatest one goes first."""
        if self.settings.dated:
            return self._urgency(job)
        through = self.op[job] + 1
        return -sum(self.durations[job][:through]) / max(self._work(job), 1)

    def _turns(self, ready: list[int]) -> dict[int, float]:
        """Return one over the place of each ready job among those ready for its machine."""
        waiting: dict[int, list[int]] = {}
        for job in ready:
            centre = self.machines[job][self.op[job]] // self.settings.flexible
            if self.times is not None:
                centre = self.machine_of(job)
            waiting.setdefault(centre, []).append(job)
        return {
            job: 1 / place
            for rivals in waiting.values()
            for place, job in enumerate(sorted(rivals, key=self._haste, reverse=True), 1)
        }

    def _metrics(self) -> dict[str, float]:
        makespan = float(max(self.job_free))
        if self.settings.dated:
            return {"makespan": makespan, "tardiness": self.bound / sum(self.weight)}
        found = {"makespan": makespan, "ratio": makespan / self.first}
        if self.best is not None:
            found["gap"] = 100 * (makespan / self.best - 1)
        return found


_NEVER = 2_000_000_000
_TROUBLES = (
    "family", "setup_times", "set_for", "last_job", "ups", "downs", "broken", "next_break",
)  # fmt: skip


def _copied(value: Any) -> Any:
    return [_copied(own) for own in value] if isinstance(value, list) else value
