"""Job shop instances: generated, from Taillard's collection, or from a text file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.errors import nearest, shorten

from ..errors import EnvConfigError
from ..given_files import read_given
from .taillard import TAILLARD

__all__ = [
    "LONGEST",
    "MOST_JOBS",
    "MOST_MACHINES",
    "Instance",
    "find_instance",
    "find_instances",
    "read_table",
]

I32 = npt.NDArray[np.int32]

MOST_JOBS, MOST_MACHINES = 2000, 200
"""The largest instance; each row has room for it."""
LONGEST = 1_000_000
"""The longest operation: times are counted in 32 bits, and features hold them exactly."""


@dataclass(frozen=True)
class Instance:
    """Jobs, each a chain of operations on machines.

    Args:
        durations: Of each operation of each job, in time units, 0 behind a job's last one. Shape:
            (jobs, most operations), int32.
        machines: On which machine each operation is done, -1 behind the last one. Shape: as
            ``durations``, int32.
        num_machines: How many machines there are.
        best: The least makespan that is known, where one is.
        jobs: What the jobs are called; empty: by their numbers.
        machine_names: What the machines are called; empty: by their numbers.
    """

    durations: I32
    machines: I32
    num_machines: int
    best: int | None = None
    jobs: tuple[str, ...] = ()
    machine_names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        durations: Sequence[Sequence[int]],
        machines: Sequence[Sequence[int]],
        num_machines: int,
        best: int | None = None,
        **names: tuple[str, ...],
    ) -> Instance:
        """From lists of a job's operations, which may be longer and shorter.

        Raises:
            ValueError: They do not fit together, or hold what is no duration or machine.
        """
        most = max((len(own) for own in durations), default=0)
        table = np.zeros((len(durations), most), np.int32), np.full((len(durations), most), -1)
        for job, (times, route) in enumerate(zip(durations, machines, strict=True)):
            if len(times) != len(route) or not times:
                raise ValueError(f"job {job}: {len(times)} durations, {len(route)} machines")
            if not all(1 <= t <= LONGEST for t in times):
                raise ValueError(f"job {job}: durations {times}")
            if not all(0 <= m < num_machines for m in route):
                raise ValueError(f"job {job}: machines {route}")
            table[0][job, : len(times)], table[1][job, : len(route)] = times, route
        return cls(table[0], table[1].astype(np.int32), num_machines, best, **names)

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of jobs and machines."""
        return len(self.durations), self.num_machines

    @property
    def most_operations(self) -> int:
        """Of a job."""
        return int(self.durations.shape[1])


def find_instances(named: Any) -> list[Instance]:
    """One instance or several: each ``ta01`` to ``ta80``, a file, or an ``Instance``.

    A file is text in the usual format, or a table of a user's own (``.csv``).

    Raises:
        EnvConfigError: There is no such instance, or the file is damaged.
    """
    each = [named] if isinstance(named, str | Path | Instance | Mapping) else named
    if not isinstance(each, Sequence) or not each:
        raise EnvConfigError(
            "invalid parameter instance",
            expected="ta01 to ta80, the path of a file, or a list of them",
            received=shorten(named),
        )
    return [find_instance(one) for one in each]


def find_instance(named: Any) -> Instance:
    """As ``find_instances``, a single one."""
    if isinstance(named, Instance):
        return named
    if str(named) in TAILLARD:
        jobs, machines, times, order, _, best = TAILLARD[str(named)]
        return _generated(jobs, machines, times, order, best)
    where, text = read_given("instance", named, TAILLARD)
    return read_table(text, where) if where.lower().endswith(".csv") else _read(text, where)


_FORMAT = (
    "a line with the numbers of jobs and machines, then a line for each job with a pair "
    "'machine duration' for each of its operations, machines counted from 0"
)


def _generated(jobs: int, machines: int, times: int, order: int, best: int) -> Instance:
    """The generator of Taillard, "Benchmarks for basic scheduling problems", EJOR 64, 1993."""
    draw = _Stream(times)
    durations = [[draw.whole(1, 99) for _ in range(machines)] for _ in range(jobs)]
    draw, rows = _Stream(order), []
    for _ in range(jobs):
        row = list(range(machines))
        for i in range(machines):
            j = draw.whole(i, machines - 1)
            row[i], row[j] = row[j], row[i]
        rows.append(row)
    return Instance.of(durations, rows, machines, best)


class _Stream:
    """The minimal standard generator of Park and Miller: 16807 s mod 2^31 - 1."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def whole(self, low: int, high: int) -> int:
        self.seed = self.seed * 16807 % 2147483647
        return low + int(self.seed / 2147483647 * (high - low + 1))


def _read(text: str, where: str) -> Instance:
    lines = [(i, line.split("#")[0].split()) for i, line in enumerate(text.splitlines(), 1)]
    lines = [(i, words) for i, words in lines if words]
    if not lines:
        raise EnvConfigError(f"{where} is empty", expected=_FORMAT)
    rows = [(i, [_whole(word, f"{where}, line {i}") for word in words]) for i, words in lines]
    number, head = rows[0]
    if len(head) != 2 or not (1 <= head[0] <= MOST_JOBS and 1 <= head[1] <= MOST_MACHINES):
        raise EnvConfigError(
            f"{where}, line {number}: no size of an instance",
            expected=f"1 to {MOST_JOBS} jobs, 1 to {MOST_MACHINES} machines",
            received=" ".join(map(str, head)),
        )
    jobs, machines = head
    if len(rows) != jobs + 1:
        raise EnvConfigError(
            f"{where} has the wrong number of jobs",
            expected=f"{jobs} lines after the first one",
            received=f"{len(rows) - 1}",
        )
    for number, row in rows[1:]:
        _check_job(row, machines, f"{where}, line {number}")
    return Instance.of(
        [row[1::2] for _, row in rows[1:]], [row[::2] for _, row in rows[1:]], machines
    )


_COLUMNS = ("job", "machine", "duration")


def read_table(text: str, where: str) -> Instance:
    """An instance from a table with the columns job, machine and duration, one operation a line.

    A job's operations are done in the order of their lines. Jobs and machines are called anything.

    Raises:
        EnvConfigError: A column is missing, or a line is damaged; it names the line.
    """
    lines = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    named = [name.strip() for name in lines.fieldnames or []]
    lines.fieldnames = named
    missing = [name for name in _COLUMNS if name not in named]
    if missing:
        raise EnvConfigError(
            f"{where}, line 1: no column {missing[0]!r}",
            expected=f"the columns {', '.join(_COLUMNS)}",
            received=", ".join(named) or "nothing",
            hint=nearest(missing[0], named),
        )
    jobs: dict[str, tuple[list[int], list[int]]] = {}
    machines: dict[str, int] = {}
    for line in lines:
        here = f"{where}, line {lines.line_num}"
        job, machine = ((line[name] or "").strip() for name in _COLUMNS[:2])
        if not job or not machine:
            raise EnvConfigError(f"{here}: a job or a machine without a name", expected=_COLUMNS)
        duration = _whole((line["duration"] or "").strip(), here)
        if not 1 <= duration <= LONGEST:
            raise EnvConfigError(
                f"{here}: an operation has an invalid duration",
                expected=f"1 to {LONGEST:,} time units",
                received=duration,
            )
        times, route = jobs.setdefault(job, ([], []))
        times.append(duration)
        route.append(machines.setdefault(machine, len(machines)))
    if not jobs or len(jobs) > MOST_JOBS or len(machines) > MOST_MACHINES:
        raise EnvConfigError(
            f"{where}: no size of an instance",
            expected=f"1 to {MOST_JOBS} jobs, 1 to {MOST_MACHINES} machines",
            received=f"{len(jobs)} jobs, {len(machines)} machines",
        )
    tables = [own[0] for own in jobs.values()], [own[1] for own in jobs.values()]
    return Instance.of(*tables, len(machines), jobs=tuple(jobs), machine_names=tuple(machines))


def _check_job(row: list[int], machines: int, where: str) -> None:
    if len(row) != 2 * machines:
        raise EnvConfigError(
            f"{where}: the wrong number of operations",
            expected=f"{machines} pairs 'machine duration'",
            received=f"{len(row)} numbers",
        )
    missing = sorted(set(range(machines)) - set(row[::2]))
    if missing:
        raise EnvConfigError(
            f"{where}: the job does not visit each machine once",
            expected=f"machines 0 to {machines - 1}, each once",
            received=f"without {shorten(missing)}",
        )
    wrong = [duration for duration in row[1::2] if not 1 <= duration <= LONGEST]
    if wrong:
        raise EnvConfigError(
            f"{where}: an operation has an invalid duration",
            expected=f"1 to {LONGEST:,} time units",
            received=wrong[0],
        )


def _whole(word: str, where: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise EnvConfigError(
            f"{where}: {shorten(word)} is no whole number", expected="a whole number"
        ) from None
