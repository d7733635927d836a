"""Job shop scheduling as dispatching: which job's next operation starts now?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.environment import Environment
from entity_env.observation import Observation, SelectEntityActionMask
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

from ..checks import check_running, check_started, read_selection, reading_state
from ..errors import check_whole
from .job_shop_chart import Bar, draw_chart
from .job_shop_instances import Instance
from .job_shop_rules import ACTION_SPACE, OBS_SPACE, SHORTEST_LONGEST, WEIGHTS, JobShopSettings

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
        of it, in parts of the first bound. Times are in mean durations of an operation.
        Machine: ``wait`` until it is free, ``work`` left to come to it, in parts of the first
        bound, ``queue`` of jobs whose next operation needs it, in parts of the jobs, and ``path``
        as for jobs.
        Clock: what is ``left`` of the bound, in parts of the first one; ``jobs`` here and
        ``ready`` in tens, ``machines`` in tens.
    Actions:
        Dispatch: the clock selects a job that is ready.
    Reward:
        Minus what the choice adds to a lower bound of the makespan, times 10 / the first bound.
        With ``arrivals`` minus what is added to the weighted tardiness that can no longer be
        avoided, in mean durations for each unit of weight of all jobs, times 10.
    End:
        All operations have been started.
    Randomness:
        Durations of 1 to 99, machines in any order; with ``arrivals`` exponential times between
        them, due dates and weights.
    Metrics:
        makespan; ratio: of the makespan to the first bound; gap: in percent above the best
        makespan known, of given instances; tardiness: the weighted mean, in time units.
    Source:
        Taillard, "Benchmarks for basic scheduling problems", EJOR 64, 1993.

    Args:
        jobs: How many; or the least and the most, from which each episode draws.
        machines: The same. Jobs that are drawn visit each machine once.
        instance: ``ta01`` to ``ta80``, a file (text in the usual format, or a ``.csv`` with the
            columns job, machine, duration), or a list of them, played in turn.
        arrivals: Jobs arrive over time, and have due dates and weights.
        load: With ``arrivals``, the share of the time that the machines are busy, about.
        tightness: With ``arrivals``, how many times its work a job's due date is after its
            arrival; two numbers are the least and the most.
        copies: Of many rows, so many neighbours get the same instance; alone it changes nothing.

    Raises:
        EnvConfigError: No such instance, a damaged one, or a number out of range.
    """

    def __init__(
        self,
        jobs: int | tuple[int, int] | list[int] = (6, 15),
        machines: int | tuple[int, int] | list[int] = (5, 15),
        instance: Any = None,
        arrivals: bool = False,
        load: float = 0.9,
        tightness: float | tuple[float, float] | list[float] = (1.5, 4.0),
        copies: int = 1,
    ) -> None:
        check_whole("copies", copies, 1)
        self.settings = JobShopSettings.check(jobs, machines, instance, arrivals, load, tightness)
        self.turn, self.steps, self.over = 0, -1, False
        self.bars: list[Bar] = []
        self.op: list[int] = []
        self.due: list[int] = []
        self.weight: list[int] = []
        self.job_free: list[int] = []
        self.machine_free: list[int] = []
        self.now = 0

    def obs_space(self) -> ObsSpace:
        """Jobs, machines, and the clock that dispatches."""
        return OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Dispatch."""
        return ACTION_SPACE

    def reset(self) -> Observation:
        """The next given instance, or one that is drawn."""
        given = self.settings.instances
        if given:
            instance = given[self.turn % len(given)]
            self.turn += 1
        else:
            instance = self._drawn()
        jobs = len(instance.durations)
        self._begin(instance, [0] * jobs, [0] * jobs, [0] * jobs)
        if self.settings.arrivals:
            self._draw_arrivals()
        self._move_on()
        self.first = self.bound = self._bound()
        self.steps, self.over = 0, False
        return self._shown(0.0)

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
        """A Gantt chart of what has been started."""
        check_started(self.steps)
        return draw_chart(self.bars, len(self.machine_free), self.now, **kwargs)

    def get_state(self) -> dict[str, Any]:
        """The instance and its schedule."""
        check_started(self.steps)
        names = ("release", "due", "weight", "op", "job_free", "machine_free", "here", "now")
        return {
            "durations": self.durations,
            "machines": self.machines,
            "bars": [list(bar) for bar in self.bars],
            "first": self.first,
            "bound": self.bound,
            "best": self.best,
            "steps": self.steps,
            "turn": self.turn,
            **{name: getattr(self, name) for name in names},
        }

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go on with it."""
        with reading_state("a job shop", state):
            tables = state["durations"], state["machines"]
            instance = Instance.of(*tables, len(state["machine_free"]), state["best"])
            self._begin(instance, state["release"], state["due"], state["weight"])
            self.op, self.here = list(state["op"]), list(state["here"])
            self.job_free, self.machine_free = list(state["job_free"]), list(state["machine_free"])
            self.bars = [Bar(*bar) for bar in state["bars"]]
            self.now, self.first, self.bound = state["now"], state["first"], state["bound"]
            self.steps, self.turn, self.over = state["steps"], state["turn"], False
            return self._shown(0.0)

    def _drawn(self) -> Instance:
        """An instance whose size and numbers are drawn."""
        jobs = int(self.rng.integers(*self.settings.jobs, endpoint=True))
        machines = int(self.rng.integers(*self.settings.machines, endpoint=True))
        durations = self.rng.integers(*SHORTEST_LONGEST, (jobs, machines), np.int32, True)
        order = self.rng.permuted(np.tile(np.arange(machines, dtype=np.int32), (jobs, 1)), axis=1)
        return Instance(durations, order, machines)

    def _begin(
        self, instance: Instance, release: list[int], due: list[int], weight: list[int]
    ) -> None:
        # As lists: single numbers of an array are read at a tenth of the speed.
        counts = (instance.machines >= 0).sum(1).tolist()
        tables = instance.durations.tolist(), instance.machines.tolist()
        self.durations: list[list[int]]
        self.machines: list[list[int]]
        self.durations, self.machines = (
            [row[:count] for row, count in zip(table, counts, strict=True)] for table in tables
        )
        self.best = instance.best
        jobs, machines = instance.size
        self.unit = sum(map(sum, self.durations)) / sum(counts)
        self.release, self.due, self.weight = list(release), list(due), list(weight)
        self.op = [0] * jobs
        self.job_free = list(self.release)
        self.machine_free = [0] * machines
        self.here = list(range(jobs))
        self.now = 0
        self.bars = []

    def _draw_arrivals(self) -> None:
        """When jobs come, when they are due, and how much that matters."""
        between = self.unit / self.settings.load
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

    def start_of(self, job: int) -> int:
        """When the next operation of a job can start."""
        machine = self.machines[job][self.op[job]]
        return max(self.job_free[job], self.machine_free[machine])

    def _can_start(self, job: int) -> bool:
        return self.start_of(job) <= self.now

    def _work(self, job: int) -> int:
        """What is left of a job."""
        return sum(self.durations[job][self.op[job] :])

    def _dispatch(self, job: int) -> None:
        """Start the next operation of a job now."""
        op = self.op[job]
        machine = self.machines[job][op]
        end = self.now + self.durations[job][op]
        self.bars.append(Bar(machine, job, self.now, end))
        self.job_free[job] = self.machine_free[machine] = end
        self.op[job] += 1
        if self.op[job] == len(self.machines[job]):
            self.here.remove(job)

    def _move_on(self) -> None:
        """Move time on to where some operation can start, and let jobs arrive."""
        while True:
            self._admit()
            if any(self._can_start(job) for job in self.here):
                return
            coming = [time for time in self.release if time > self.now][:1]
            times = [self.start_of(job) for job in self.here] + coming
            if not times:
                return
            self.now = min(times)

    def _admit(self) -> None:
        if self.settings.arrivals:
            for job, time in enumerate(self.release):
                if time <= self.now and self.op[job] == 0 and job not in self.here:
                    self.here.append(job)

    def _machine_work(self) -> list[int]:
        """What is still to come to each machine, of jobs that are here."""
        work = [0] * len(self.machine_free)
        for job in self.here:
            for op in range(self.op[job], len(self.machines[job])):
                work[self.machines[job][op]] += self.durations[job][op]
        return work

    def _bound(self) -> float:
        """What the makespan, or the weighted tardiness, is at least."""
        if self.settings.arrivals:
            return float(sum(self._tardiness(job) for job in range(len(self.op))))
        ends = [max(self.start_of(job), self.now) + self._work(job) for job in self.here]
        work = self._machine_work()
        ends += [
            max(free, self.now) + left
            for free, left in zip(self.machine_free, work, strict=True)
            if left
        ]
        return float(max([*ends, *self.machine_free]))

    def _tardiness(self, job: int) -> int:
        """The weighted tardiness of a job if nothing delays it any more; 0 before it has come."""
        if job in self.here:
            end = max(self.start_of(job), self.now) + self._work(job)
        elif self.op[job] == len(self.machines[job]):
            end = self.job_free[job]
        else:
            return 0
        return self.weight[job] * max(0, end - self.due[job])

    def _scale(self) -> float:
        return sum(self.weight) * self.unit if self.settings.arrivals else self.first

    def _shown(self, reward: float) -> Observation:
        work, jobs, count = self._machine_work(), len(self.here), len(self.machine_free)
        # Of due dates there is no bound of the makespan: what is there to do takes its place.
        first = count * self.unit if self.settings.arrivals else self.first
        left = self._left(work)
        queues = [0] * count
        for job in self.here:
            queues[self.machines[job][self.op[job]]] += 1
        works = {job: self._work(job) for job in self.here}
        features = {
            "Job": [self._job(job, works, work, queues, first, left) for job in self.here],
            "Machine": [
                [
                    max(0, free - self.now) / self.unit,
                    own / first,
                    queue / max(jobs, 1),
                    (max(0, free - self.now) + own) / left,
                ]
                for free, own, queue in zip(self.machine_free, work, queues, strict=True)
            ],
            "Clock": [
                [
                    left / first,
                    jobs / 10,
                    sum(self._can_start(job) for job in self.here) / 10,
                    count / 10,
                ]
            ],
        }
        ready = [("Job", job) for job in self.here if self._can_start(job)]
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
        """The time that what is here takes at least, from now on; 1 if nothing does."""
        ends = [max(self.start_of(job) - self.now, 0) + self._work(job) for job in self.here]
        ends += [
            max(free - self.now, 0) + own for free, own in zip(self.machine_free, work, strict=True)
        ]
        return float(max([*ends, 1]))

    def _job(
        self,
        job: int,
        works: Mapping[int, int],
        work: list[int],
        queues: list[int],
        first: float,
        left: float,
    ) -> list[float]:
        op, count, unit, now = self.op[job], len(self.machine_free), self.unit, self.now
        machine, duration = self.machines[job][op], self.durations[job][op]
        own, start = works[job], max(self.start_of(job) - now, 0)
        done = sum(self.durations[job][:op])
        after = [0.0, 0.0, 0.0]
        if op + 1 < len(self.machines[job]):
            following = self.machines[job][op + 1]
            after = [
                self.durations[job][op + 1] / unit,
                max(0, self.machine_free[following] - now) / unit,
                work[following] / first,
            ]
        jobs = len(works)
        has_due = self.settings.arrivals
        return [
            own / first,
            (len(self.machines[job]) - op) / count,
            duration / unit,
            float(start == 0),
            start / unit,
            work[machine] / first,
            (done + duration) / own,
            max(0, self.machine_free[machine] - now) / unit,
            after[1],
            sum(other > own for other in works.values()) / jobs,
            after[0],
            after[2],
            (queues[machine] - 1) / jobs,
            (start + own) / left,
            (self.due[job] - now - start - own) / unit if has_due else 0.0,
            float(self.weight[job]),
            (now - self.release[job]) / unit if has_due else 0.0,
            (done + own) / first,
        ]

    def _metrics(self) -> dict[str, float]:
        makespan = float(max(self.machine_free))
        if self.settings.arrivals:
            return {"makespan": makespan, "tardiness": self.bound / sum(self.weight)}
        found = {"makespan": makespan, "ratio": makespan / self.first}
        if self.best is not None:
            found["gap"] = 100 * (makespan / self.best - 1)
        return found
