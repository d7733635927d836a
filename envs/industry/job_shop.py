"""Job shop scheduling as dispatching: the agent selects the job whose operation starts next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_flag, check_number, check_span, check_whole
from entity_env.batching.ragged import RaggedBufferI64
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import SettingError, StateError, shorten
from entity_env.observation import Observation
from entity_env.rows.compiled import Actors, CompiledGame, CompiledRows, Entities, Field
from entity_env.rows.game_kernel import SHOW
from entity_env.rows.jit import interpreted
from entity_env.rows.single_game import CompiledEnvironment

from ..given_files import is_kept, keep_files
from .job_shop_chart import Bar, bars_of, draw_chart, named_bars, names_of, turned
from .job_shop_engine import BREAKDOWNS, NEVER, leave_out_unknown, problems, reset, resume, step
from .job_shop_instances import LONGEST, MOST_JOBS, MOST_MACHINES, Instance, find_instances
from .job_shop_view import (
    ACTION_SPACE,
    clock_features,
    job_features,
    machine_features,
    obs_space_of,
    ready_jobs,
)
from .taillard import TAILLARD

__all__ = ["JobShop", "JobShopRows"]

_LATEST = 1_000_000_000
"""The latest time of saved states, half of what 32 bits count."""


class JobShopRows(CompiledRows):
    """R rows of job shops, compiled; ``JobShop`` describes the game.

    With given instances, row i plays the i-th instance in all episodes.

    Args:
        num_envs: The number of rows R; None: 1.
        seed: Seed of all rows.
        copies: Number of consecutive rows with the same instances, for baselines that compare
            several solutions of an instance.
        threads: Number of threads that share the rows.
        jobs, machines, instance, backwards, arrivals, load, tightness, breakdowns, repair, setups,
            families, flexible, labels, waiting: See ``JobShop``.

    Raises:
        SettingError: A setting is not valid.
    """

    consent_settings: ClassVar = {"instance": lambda one: str(one) in TAILLARD or is_kept(one)}
    """Other instances are files."""

    def __init__(
        self,
        num_envs: int | None,
        seed: int = 0,
        *,
        jobs: int | tuple[int, int] | list[int] = (6, 15),
        machines: int | tuple[int, int] | list[int] = (5, 15),
        instance: Path | Any = None,
        backwards: bool = False,
        arrivals: bool = False,
        load: float = 0.9,
        tightness: float | tuple[float, float] | list[float] = (1.5, 4.0),
        breakdowns: float = 0.0,
        repair: float = 5.0,
        setups: float = 0.0,
        families: int = 3,
        flexible: int = 1,
        labels: bool = False,
        waiting: bool = True,
        copies: int = 1,
        threads: int = 1,
    ) -> None:
        self.instances = () if instance is None else tuple(find_instances(instance))
        self.backwards = check_flag("backwards", backwards)
        if self.backwards:
            self.instances = _reversed(self.instances)
        settings = _checked(
            self.instances, jobs, machines, arrivals=arrivals, load=load, tightness=tightness,
            breakdowns=breakdowns, repair=repair, setups=setups, families=families,
            flexible=flexible, labels=labels, waiting=waiting,
        )  # fmt: skip
        game = _game(self.instances, settings)
        super().__init__(game, num_envs, seed, threads=threads, copies=copies)
        self._given = [self._fields_of(one) for one in self.instances]
        for row in range(len(self)):
            self.put_instance(row, row // copies)

    @staticmethod
    def kept_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings that hold the texts of the files that they name, for a run folder."""
        if settings.get("instance") is None:
            return dict(settings)
        return {**settings, "instance": keep_files("instance", settings["instance"], TAILLARD)}

    def put_instance(self, row: int, number: int) -> None:
        """Let a row play a given instance from the next ``reset`` on; without any, do nothing.

        Args:
            row: The number of the row.
            number: Number of the instance; after the last one they begin again.
        """
        if self._given:
            number %= len(self._given)
            for name, value in {**self._given[number], "instance": number}.items():
                self._fields[name][row] = value

    def begin_at(
        self, now: int, op: Sequence[int], job_free: Sequence[int], machine_free: Sequence[int]
    ) -> VecObs:
        """Return the observation of given instances at a moment of their work, in all rows.

        Without set-ups and breakdowns, it equals the observation of an episode at that moment.

        Args:
            now: The time.
            op: Number of started operations of each job. Shape: (jobs,).
            job_free: Earliest start of the next operation of each job. Shape: (jobs,).
            machine_free: Time at which each machine is free. Shape: (machines,).

        Raises:
            SettingError: The rows have been made without ``instance``.
        """
        if not self._given:
            raise SettingError("no instance to begin at", expected="instance=...")
        self.reset()
        g = SimpleNamespace(**self._fields, **self._game.settings)
        for row in range(len(self)):
            interpreted(resume)(g, row, now, op, job_free, machine_free)
        self._last = self._first(SHOW)
        return self._last

    def load_game(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields, or StateError, also for an instance that is not among the given."""
        fields = super().load_game(saved)
        if self._given:
            fits = [
                number
                for number, own in enumerate(self._given)
                if all(np.array_equal(fields[name], own[name]) for name in own)
            ]
            if not fits:
                raise StateError(
                    "the saved state is that of another instance",
                    expected="one of those that the settings name",
                    hint="begin another run",
                )
            if fields["instance"] not in fits:
                fields["instance"][...] = fits[0]
        return fields

    def draw_row(self, row: int, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return a Gantt chart of the started operations of a row. Shape: (H, W, 3), uint8.

        Args:
            row: The number of the row.
            kwargs: ``width`` and ``row``, see ``draw_chart``.
        """
        own, bars, names = self._played(row)
        due = own["due"] if self._game.settings["dated"] else ()
        return draw_chart(bars, *names, own["now"], due, **kwargs)

    def schedule(self, row: int) -> list[dict[str, Any]]:
        """Return the started operations of a row: job, machine, start and end of each.

        Jobs and machines are named as in their instance, or else by their numbers.

        Args:
            row: The number of the row.
        """
        _, bars, names = self._played(row)
        return named_bars(bars, *names)

    def played(self, choices: Sequence[int]) -> dict[str, Any]:
        """Return the state after choices, of which the last one may end the game, as it is then.

        Args:
            choices: The places of the jobs among those that are there, for the first row alone.
        """
        for own in choices[:-1]:
            self.act({"Dispatch": RaggedBufferI64.from_array(np.full((len(self), 1, 1), own))})
        g = SimpleNamespace(**self._fields, **self._game.settings)
        interpreted(step)(g, 0, np.array(choices[-1:], np.int64))
        return self.save_game(0)

    def _played(self, row: int) -> tuple[dict[str, Any], list[Bar], tuple[list[str], list[str]]]:
        """Return the state of a row, its bars, and the names of its jobs and machines."""
        self._check_begun()
        own = self.save_game(row)
        bars = turned(bars_of(own)) if self.backwards else bars_of(own)
        if self.instances:
            return own, bars, names_of(self.instances[own["instance"]])
        jobs, machines = (list(map(str, range(own[name]))) for name in ("jobs", "machines"))
        return own, bars, (jobs, machines)

    def _fields_of(self, one: Instance) -> dict[str, npt.NDArray[np.int32]]:
        """Return the fields of a row that an instance determines."""
        jobs, machines = one.size
        given: dict[str, Any] = {
            "jobs": jobs, "machines": machines, "best": one.best or 0,
            "durations": one.durations, "route": one.machines.clip(0),
            "ops": (one.machines >= 0).sum(1),
            "release": one.release, "due": one.due, "weight": one.weight,
        }  # fmt: skip
        if self._game.settings["has_times"]:
            given["times"] = one.times
            if one.times is None:  # each operation on its own machine
                given["times"] = np.full((*one.durations.shape, machines), -1)
                job, op = np.nonzero(one.machines >= 0)
                given["times"][job, op, one.machines[job, op]] = one.durations[job, op]
        fields = {}
        for name, values in given.items():
            fields[name] = np.full_like(self._fields[name][0], -1 if name == "times" else 0)
            fields[name][tuple(map(slice, np.shape(values)))] = values
        return fields


def _reversed(instances: Sequence[Instance]) -> tuple[Instance, ...]:
    """Return the instances backwards, or raise SettingError."""
    if not instances:
        raise SettingError(
            "no instance to schedule backwards", expected="instance=...", about="backwards"
        )
    if any(one.is_dated for one in instances):
        raise SettingError(
            "jobs with due dates or release times cannot be scheduled backwards",
            expected="backwards=False, or instances without them",
            about="backwards instance",
        )
    return tuple(one.backwards() for one in instances)


def _checked(
    instances: Sequence[Instance], jobs: Any, machines: Any, **given: Any
) -> dict[str, float]:
    """Return the settings of the compiled game, or raise SettingError."""
    arrivals = check_flag("arrivals", given["arrivals"])
    if instances and arrivals:
        raise SettingError(
            "instance and arrivals do not go together",
            expected="arrivals=False: a table says itself when jobs can start (release), and "
            "when they are due",
            about="instance arrivals",
        )
    if len({bool(own.due) for own in instances}) > 1:
        raise SettingError(
            "some instances have due dates, and others have none",
            expected="due dates in all of them, whose tardiness counts, or in none",
            about="instance",
        )
    flexible = check_whole("flexible", given["flexible"], 1, MOST_MACHINES)
    has_times = any(own.times is not None for own in instances)
    if has_times:
        if flexible != 1:
            raise SettingError(
                "flexible does not go together with an instance whose operations have several "
                "machines",
                expected="flexible=1",
                received=flexible,
                about="flexible instance",
            )
        flexible = MOST_MACHINES  # all that work can come to is one work centre
    if instances:
        sizes = [own.size for own in instances]
        jobs, machines = np.transpose([np.min(sizes, 0), np.max(sizes, 0)]).tolist()
    jobs = check_span("jobs", jobs, 1, MOST_JOBS)
    machines = check_span("machines", machines, 1, MOST_MACHINES)
    setups = check_number("setups", given["setups"], 0.0, 1000.0)
    breakdowns = check_number("breakdowns", given["breakdowns"], 0.0, 0.9)
    families = check_whole("families", given["families"], 1, 1000) if setups else 1
    # Set-ups and breakdowns make operations longer, about so many times.
    delay = (1 + setups * (1 - 1 / families)) / (1 - breakdowns)
    tightest, loosest = _ascending("tightness", given["tightness"])
    return {
        "given": bool(instances),
        "arrivals": arrivals,
        "dated": arrivals or any(own.due for own in instances),
        "has_times": has_times,
        "load": check_number("load", given["load"], 1e-3, 1e4) / delay,
        "breakdowns": breakdowns,
        "repair": check_number("repair", given["repair"], 1e-3, 1e4),
        "setups": setups,
        "families": families,
        "flexible": flexible,
        "labels": check_flag("labels", given["labels"]),
        "waiting": check_flag("waiting", given["waiting"]),
        "loosest": loosest,
        "tightest": tightest,
        "least_jobs": jobs[0],
        "most_jobs": jobs[1],
        "least_machines": machines[0],
        "most_machines": machines[1],
    }


def _ascending(name: str, value: Any) -> tuple[float, float]:
    pair = value if isinstance(value, list | tuple) else (value, value)
    numbers = [check_number(name, own, 1e-3, 1e4) for own in pair]
    if len(numbers) != 2 or numbers[0] > numbers[1]:
        raise SettingError(
            f"invalid {name}",
            expected="a number, or two, the smaller one first",
            about=name,
            received=shorten(value),
        )
    return numbers[0], numbers[1]


def _game(instances: Sequence[Instance], settings: dict[str, Any]) -> CompiledGame:
    jobs, machines = settings["most_jobs"], settings["most_machines"]
    most = max((own.most_operations for own in instances), default=machines)
    families, breaks = settings["families"], BREAKDOWNS if settings["breakdowns"] else 1
    of_times = (jobs, most, machines) if settings["has_times"] else (1, 1, 1)
    return CompiledGame(
        obs_space=obs_space_of(settings["labels"]),
        action_space=ACTION_SPACE,
        state={
            "jobs": Field(least=settings["least_jobs"], most=jobs),
            "machines": Field(least=settings["least_machines"], most=machines),
            "durations": Field((jobs, most), least=0, most=LONGEST),
            "times": Field(of_times, least=-1, most=LONGEST),
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
            "asked": Field(least=-1, most=machines - 1),
            "until": Field(least=0, most=NEVER),
            "instance": Field(least=0, most=max(len(instances) - 1, 0)),
            "best": Field(least=0, most=_LATEST),
            **{
                name: Field(dtype=np.float64, least=1e-9, most=1e18)
                for name in ("unit", "scale", "left")
            },
            "first": Field(dtype=np.float64, least=0 if settings["arrivals"] else 1, most=1e18),
            "bound": Field(dtype=np.float64, least=0, most=1e18),
            "makespan": Field(dtype=np.float64),
            "outcome": Field(dtype=np.float64),
            "gap": Field(dtype=np.float64),
        },
        settings=settings,
        reset=reset,
        step=step,
        entities={
            "Job": Entities(job_features, count="num_here", most=jobs),
            "Machine": Entities(machine_features, count="machines", most=machines),
            "Clock": Entities(clock_features, count=1, most=1),
        },
        actions={"Dispatch": Actors("Clock", targets=("Job",), mask=ready_jobs)},
        metrics={"makespan": "makespan"}
        | ({"tardiness": "outcome"} if settings["dated"] else {"ratio": "outcome"})
        | ({"gap": "gap"} if any(one.best for one in instances) else {}),
        hides=settings["arrivals"] or settings["breakdowns"] > 0,
        resample=leave_out_unknown,
        problems=problems,
    )


class JobShop(CompiledEnvironment):
    """A shop that asks for the next job of the machine on which an operation can end first.

    The choices are all jobs whose next operation could start there before that end: the machine may
    wait for one of them. Such choices lead to all active schedules, which include an optimal one
    (Giffler and Thompson 1960). If jobs arrive or machines break down, only operations that can
    start now determine the machine; it can wait for a job whose previous operation has started.
    Without ``waiting`` the choices are the jobs that can start on the machine now.

    The time is the earliest at which some operation can start. A single choice is taken
    automatically, except for the first one of an episode.

    Entities:
        Job: each that is here and not finished. ``work`` is left of it, in parts of the first
        bound; ``operations`` are left, in parts of the machines. Of its next operation:
        ``duration``, whether it is a choice (``ready``), the ``wait`` until it can start, its
        machine's ``machine wait`` and ``machine work`` left, how many other jobs (``rivals``, in
        parts of the jobs) wait for the same machine. The same of the operation after it: ``next
        duration``, ``next machine wait``, ``next machine work``; 0 where there is none. ``flow``:
        the work up to and with the next operation over the work that is left. ``rank`` by the work
        left, 0 for the most. ``path``: the least time until it is finished, in parts of the bound
        that is left.
        ``slack`` to its due date, ``weight`` and ``age`` are 0 without due dates. ``job work``: all
        of it, in parts of the first bound; ``setup``: the part of ``duration`` that its machine
        is set up for; ``urgency``: weight over duration, less the more slack there is, in twice the
        mean duration of the choices (Vepsalainen and Morton 1987), 0 without due dates; ``turn``: 1
        for the choice of the best rule, 1/2 for the second, and so on; 0 for others. The rule takes
        the job that can start first, of equals the one with the least flow due date over work left,
        or with due dates the most urgent one. Times are in mean durations of an operation.
        Machine: ``wait`` until it is free, ``work`` left to come to it, in parts of the first
        bound, ``queue`` of jobs whose next operation needs it, in parts of the jobs, and ``path``
        as for jobs.
        Clock: what is ``left`` of the bound, in parts of the first one; ``jobs`` here and
        ``ready`` in tens, ``machines`` in tens.
    Actions:
        Dispatch: the clock selects a job that is ready; its next operation starts when it can.
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
        jobs: Number of jobs; or the smallest and largest number, of which each episode draws one.
        machines: The same. Jobs that are drawn visit each machine once.
        instance: ``ta01`` to ``ta80``, a file, or a list of them, played in turn. A file is text in
            the usual format or Taillard's, or a ``.csv`` with the columns job, machine, duration
            and perhaps due, weight, release. With due dates tardiness counts, as with ``arrivals``,
            but all jobs are known from the beginning.
        backwards: Schedule the jobs of ``instance`` from their last operations on. The schedule,
            turned around, is one of the instance, and as long: ``schedule`` and pictures show that.
        arrivals: Jobs arrive over time, and have due dates and weights.
        load: With ``arrivals``, the share of the time that the machines are busy, about.
        tightness: With ``arrivals``, how many times its work a job's due date is after its
            arrival; two numbers are the least and the most.
        breakdowns: The share of the time that a machine is down, from 0 to 0.9. Its operation waits
            for the repair, and then continues.
        repair: Mean duration of repairs, in mean durations; exponential, as are the times
            between them.
        setups: Mean duration of set-ups, in mean durations, from half to one and a half
            times as long. A machine is set up before a job of another family than the last one;
            each pair of families has its own time.
        families: Number of families of jobs, if there are set-ups.
        flexible: Number of neighbouring machines of a work centre: an operation is done on the one
            of them on which it ends first. An ``.fjs`` file lists the machines of each operation
            and their speeds; features of work and queues are then those of all machines.
        labels: Show the numbers of machines, for ``net.relations``: ``machine`` and ``next
            machine`` of a job (-1 for none), ``number`` of a machine.
        waiting: True if a machine may wait for a job that comes soon.
        copies: Number of consecutive rows with the same instance; no effect on a single game.
        threads: Number of threads that share the rows; no effect on a single game.

    Raises:
        SettingError: The instance does not exist or is damaged, or a number is out of range.
    """

    rows = JobShopRows

    def reset(self) -> Observation:
        """Start a game; of several given instances the next one."""
        rows: Any = self._rows
        if self._obs is not None:
            rows.put_instance(0, self.fields()["instance"] + 1)
        return super().reset()

    def schedule(self) -> list[dict[str, Any]]:
        """Return the started operations: job, machine, start and end of each.

        Jobs and machines are named as in their instance, or else by their numbers.
        """
        rows: Any = self._rows
        found: list[dict[str, Any]] = rows.schedule(0)
        return found


JobShopRows.environment = JobShop
