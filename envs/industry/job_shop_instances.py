"""Job shop instances: generated, from Taillard's collection, or from a text file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.errors import SettingError, counted, shorten

from ..given_files import check_length, read_given, read_whole, table_lines, text_lines
from .taillard import TAILLARD

__all__ = [
    "HEAVIEST",
    "LATEST",
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
"""The longest operation."""
LATEST = 1_000_000_000
"""The latest time, and the most work of all jobs: times are counted in 32 bits."""
_MOST_TIMES = 5_000_000
HEAVIEST = 1000
"""The largest weight of a job."""


@dataclass(frozen=True)
class Instance:
    """Jobs, each a chain of operations on machines.

    Args:
        durations: Of each operation of each job, in time units, 0 behind a job's last one. Shape:
            (jobs, most operations), int32.
        machines: On which machine each operation is done, -1 behind the last one. Shape: as
            ``durations``, int32.
        num_machines: Number of machines.
        best: The least makespan that is known, where one is.
        jobs: Names of the jobs; empty: their numbers.
        machine_names: Names of the machines; empty: their numbers.
        release: Earliest start of each job; empty: 0.
        due: Due date of each job; empty without due dates.
        weight: Weight of each job's tardiness; empty: 1 for each job with a due date.
        times: Duration of each operation on each machine, -1 if it cannot be done there; then
            ``durations`` and ``machines`` hold the least one. None: on no other machine. Shape:
            (jobs, most operations, machines), int32.
    """

    durations: I32
    machines: I32
    num_machines: int
    best: int | None = None
    jobs: tuple[str, ...] = ()
    machine_names: tuple[str, ...] = ()
    release: tuple[int, ...] = ()
    due: tuple[int, ...] = ()
    weight: tuple[int, ...] = ()
    times: I32 | None = None

    @classmethod
    def of(
        cls,
        durations: Sequence[Sequence[int]],
        machines: Sequence[Sequence[int]],
        num_machines: int,
        best: int | None = None,
        times: Sequence[Any] | None = None,
        **given: Any,
    ) -> Instance:
        """Make one of lists of each job's operations, which may be longer and shorter.

        ``times`` are lists of the jobs' operations, too; ``given`` are the other fields.

        Raises:
            ValueError: The lists do not fit together, or a number is not a duration or a machine.
        """
        most = max((len(own) for own in durations), default=0)
        table = np.zeros((len(durations), most), np.int32), np.full((len(durations), most), -1)
        for job, (own, route) in enumerate(zip(durations, machines, strict=True)):
            if len(own) != len(route) or not own:
                raise ValueError(
                    f"job {job}: {counted(len(own), 'duration')}, {counted(len(route), 'machine')}"
                )
            if not all(0 <= t <= LONGEST for t in own):
                raise ValueError(f"job {job}: durations {own}")
            if not all(0 <= m < num_machines for m in route):
                raise ValueError(f"job {job}: machines {route}")
            table[0][job, : len(own)], table[1][job, : len(route)] = own, route
        work = int(table[0].sum(dtype=np.int64))
        if not 1 <= work + max(given.get("release", ()), default=0) <= LATEST or not work:
            raise ValueError(f"{work:,} time units of work: expected 1 to {LATEST:,}")
        if times is not None:
            given["times"] = _times_table(times, table, num_machines)
        each: dict[str, Any] = {
            name: own if name == "times" else tuple(own) for name, own in given.items()
        }
        if each.get("due") and not each.get("weight"):
            each["weight"] = (1,) * len(durations)
        of_jobs = {
            name: own
            for name, own in each.items()
            if name not in ("machine_names", "times") and own
        }
        if wrong := [name for name, own in of_jobs.items() if len(own) != len(durations)]:
            raise ValueError(f"{wrong[0]}: expected {len(durations)}, one for each job")
        return cls(table[0], table[1].astype(np.int32), num_machines, best, **each)

    def backwards(self) -> Instance:
        """Return the same jobs, each from its last operation to its first.

        Schedules of it, turned around, are schedules of this one; release times and due dates are
        left out.
        """
        counts = (self.machines >= 0).sum(1)[:, np.newaxis]
        places = counts - 1 - np.arange(self.most_operations)
        job = np.arange(len(counts))[:, np.newaxis]
        is_there = places >= 0
        return replace(
            self,
            durations=np.where(is_there, self.durations[job, places], 0),
            machines=np.where(is_there, self.machines[job, places], -1),
            times=None if self.times is None else self.times[job, places],
            release=(),
            due=(),
            weight=(),
        )

    @property
    def is_dated(self) -> bool:
        """True if some job has a due date or a release time."""
        return bool(self.due) or any(self.release)

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of jobs and machines."""
        return len(self.durations), self.num_machines

    @property
    def most_operations(self) -> int:
        """Of a job."""
        return int(self.durations.shape[1])


def _times_table(times: Sequence[Any], table: Sequence[Any], machines: int) -> I32:
    """Return the times on all machines as an array, checked against the least ones."""
    durations, route = table
    jobs, most = durations.shape
    if jobs * most * machines > _MOST_TIMES:
        raise ValueError(f"{jobs * most * machines:,} times: at most {_MOST_TIMES:,}")
    whole = np.full((jobs, most, machines), -1, np.int32)
    for job, own in enumerate(times):
        whole[job, : len(own)] = own
    least = np.where(whole < 0, LONGEST + 1, whole)
    first = np.take_along_axis(whole, np.maximum(route, 0)[..., None], 2)[..., 0]
    is_there = route >= 0
    if (whole < -1).any() or ((first != durations) | (least.min(2) != durations))[is_there].any():
        raise ValueError("durations that are not the least times")
    return whole


def find_instances(named: Any) -> list[Instance]:
    """One instance or several: each ``ta01`` to ``ta80``, a file, or an ``Instance``.

    A file is text in the usual format or in Taillard's own, of jobs of any length (``.fjs``), or a
    table of a user's own (``.csv``).

    Raises:
        SettingError: There is no such instance, or the file is damaged.
    """
    each = [named] if isinstance(named, str | Path | Instance | Mapping) else named
    if not isinstance(each, Sequence) or not each:
        raise SettingError(
            "invalid instance",
            expected="ta01 to ta80, the path of a file, or a list of them",
            about="instance",
            received=shorten(named),
        )
    return [find_instance(one) for one in each]


def find_instance(named: Any) -> Instance:
    """Return a single instance, found as by ``find_instances``."""
    if isinstance(named, Instance):
        return named
    if str(named) in TAILLARD:
        jobs, machines, times, order, _, best = TAILLARD[str(named)]
        return _generated(jobs, machines, times, order, best)
    where, text = read_given("instance", named, TAILLARD)
    suffix = Path(where).suffix.lower()
    return read_table(text, where) if suffix == ".csv" else _read(text, where, suffix == ".fjs")


_FORMAT = (
    "a line with the numbers of jobs and machines, then a line for each job with a pair "
    "'machine duration' for each of its operations, machines counted from 0"
)


def _generated(jobs: int, machines: int, times: int, order: int, best: int) -> Instance:
    """Return an instance by the generator of Taillard, EJOR 64, 1993."""
    draw = _stream(times)
    durations = [[1 + int(99 * next(draw)) for _ in range(machines)] for _ in range(jobs)]
    draw, rows = _stream(order), []
    for _ in range(jobs):
        row = list(range(machines))
        for i in range(machines):
            j = i + int((machines - i) * next(draw))
            row[i], row[j] = row[j], row[i]
        rows.append(row)
    return Instance.of(durations, rows, machines, best)


def _stream(seed: int) -> Iterator[float]:
    """Yield from the minimal standard generator of Park and Miller: 16807 s mod 2^31 - 1."""
    while True:
        seed = seed * 16807 % 2147483647
        yield seed / 2147483647


def _read(text: str, where: str, flexible: bool = False) -> Instance:
    """Return the instance of a text in the usual format, in Taillard's, or in that of ``.fjs``."""
    rows: list[_Row] = []
    for here, line in text_lines(text, where):
        words = line.partition("#")[0].split()
        if flexible and not rows:
            words = words[:2]  # the third one is the mean number of machines, not always whole
        if words and not _HEADING.fullmatch(" ".join(words)):
            rows.append((here, [read_whole(word, here, "a number", *_WIDEST) for word in words]))
    if not rows:
        raise SettingError(f"{where} is empty", expected=_FORMAT)
    (here, head), *rows = rows
    is_size = len(head) in (2, 6)  # Taillard adds seeds, and the bounds of the makespan
    if not (is_size and 1 <= head[0] <= MOST_JOBS and 1 <= head[1] <= MOST_MACHINES):
        raise SettingError(
            f"{here}: no size of an instance",
            expected=f"1 to {MOST_JOBS} jobs, 1 to {MOST_MACHINES} machines",
            received=shorten(" ".join(map(str, head))),
        )
    jobs, machines = head[:2]
    is_table = not flexible and len(rows) == 2 * jobs and len(rows[0][1]) == machines
    if not is_table and len(rows) != jobs:
        raise SettingError(
            f"{where} has the wrong number of jobs",
            expected=f"{counted(jobs, 'line')} after the first one",
            received=f"{len(rows)}",
        )
    if flexible:
        return _flexible(where, rows, machines)
    if is_table:
        rows = _joined(rows[:jobs], rows[jobs:], machines)
    for here, row in rows:
        _check_job(row, machines, here)
    times, routes = [row[1::2] for _, row in rows], [row[::2] for _, row in rows]
    return _made(where, times, routes, machines, head[4] if len(head) == 6 else None)


_WIDEST = -1e18, 1e18
_DURATION = "a duration", 0, LONGEST
_Row: TypeAlias = tuple[str, list[int]]
"""The place of a line, for messages, and its numbers."""
_HEADING = re.compile("nb of jobs.*|times|machines", re.IGNORECASE)
"""Lines between the numbers of Taillard's own files."""


def _joined(times: list[_Row], routes: list[_Row], machines: int) -> list[_Row]:
    """Return lines of pairs 'machine duration' from Taillard's two tables; he counts from 1."""
    rows = []
    for (place, durations), (here, route) in zip(times, routes, strict=True):
        check_length(place, durations, machines, f"{machines} durations")
        check_length(here, route, machines, counted(machines, "machine"))
        pairs = zip(route, durations, strict=True)
        rows.append((here, [n for machine, time in pairs for n in (machine - 1, time)]))
    return rows


def _flexible(where: str, rows: list[_Row], machines: int) -> Instance:
    """Return the instance of an ``.fjs`` file, whose operations have one machine or several.

    A line holds the number of a job's operations, then for each the number of its machines, and for
    each of these a pair 'machine duration', machines counted from 1.
    """
    durations, routes, times = [], [], []
    for here, (count, *numbers) in rows:
        table: list[list[int]] = []
        while numbers and len(table) < count:
            pairs, numbers = numbers[1 : 1 + 2 * numbers[0]], numbers[1 + 2 * max(numbers[0], 0) :]
            table.append([-1] * machines)
            for machine, duration in zip(pairs[::2], pairs[1::2], strict=False):
                read_whole(str(machine), here, "a machine", 1, machines)
                table[-1][machine - 1] = read_whole(str(duration), here, *_DURATION)
            if len(pairs) % 2 or max(table[-1]) < 0:
                break
        if numbers or not table or len(table) != count or max(table[-1]) < 0 or len(pairs) % 2:
            raise SettingError(
                f"{here}: the numbers do not fit together",
                expected="the number of operations, and for each that of its machines and as many "
                "pairs 'machine duration'",
            )
        durations.append([min(time for time in own if time >= 0) for own in table])
        routes.append([own.index(least) for own, least in zip(table, durations[-1], strict=True)])
        times.append(table)
    return _made(where, durations, routes, machines, times=times)


_COLUMNS = ("job", "machine", "duration")
_OF_JOBS = {"due": (0, LATEST), "weight": (0, HEAVIEST), "release": (0, LATEST)}
"""Columns that a table may have besides, and what numbers may stand in them."""


def read_table(text: str, where: str) -> Instance:
    """Return the instance in a table with the columns job, machine and duration.

    Each line is an operation, and a job's operations are done in the order of their lines. Jobs and
    machines are called anything. The columns due, weight and release may say more of a job, on its
    first line or on all. Columns are separated by commas, semicolons or tabs.

    Raises:
        SettingError: A column is missing or unknown, or a line is damaged; it names the line.
    """
    jobs: dict[str, tuple[list[int], list[int]]] = {}
    places: dict[str, str] = {}
    machines: dict[str, int] = {}
    told: dict[str, dict[str, int]] = {name: {} for name in _OF_JOBS}
    for here, cells in table_lines(text, where, _COLUMNS, tuple(_OF_JOBS)):
        job, machine, duration = (cells.pop(name) for name in _COLUMNS)
        if not job or not machine:
            raise SettingError(f"{here}: a job or a machine without a name", expected=_COLUMNS)
        times, route = jobs.setdefault(job, ([], []))
        places.setdefault(job, here)
        times.append(read_whole(duration, here, *_DURATION))
        route.append(machines.setdefault(machine, len(machines)))
        for name, cell in cells.items():
            if cell:
                value = read_whole(cell, here, name, *_OF_JOBS[name])
                if told[name].setdefault(job, value) != value:
                    raise SettingError(
                        f"{here}: job {shorten(job)} has another {name} than on an earlier line",
                        expected=told[name][job],
                        received=value,
                    )
    if told["weight"] and not any(told["weight"].get(job, 1) for job in jobs):
        raise SettingError(f"{where}: all weights are 0", expected="a job that counts")
    late = [job for job in jobs if told["due"] and job not in told["due"]]
    if late or (told["weight"] and not told["due"]):
        job = (late or list(jobs))[0]
        raise SettingError(
            f"{places[job]}: job {shorten(job)} has no due date",
            expected="a number in the column due for each job, or for none and no weights; weight "
            "0 for a job that may be late",
        )
    rows = [own[0] for own in jobs.values()], [own[1] for own in jobs.values()]
    return _made(
        where, *rows, len(machines), jobs=list(jobs), machine_names=list(machines),
        due=[told["due"][job] for job in jobs if told["due"]],
        weight=[told["weight"].get(job, 1) for job in jobs if told["due"]],
        release=[told["release"].get(job, 0) for job in jobs if told["release"]],
    )  # fmt: skip


def _made(
    where: str, durations: Any, routes: Any, machines: int, *best: Any, **given: Any
) -> Instance:
    if not 1 <= len(durations) <= MOST_JOBS or not 1 <= machines <= MOST_MACHINES:
        raise SettingError(
            f"{where}: no size of an instance",
            expected=f"1 to {MOST_JOBS} jobs, 1 to {MOST_MACHINES} machines",
            received=f"{counted(len(durations), 'job')}, {counted(machines, 'machine')}",
        )
    try:
        return Instance.of(durations, routes, machines, *best, **given)
    except ValueError as error:
        raise SettingError(f"{where}: {error}") from error


def _check_job(row: list[int], machines: int, where: str) -> None:
    check_length(where, row, 2 * machines, f"{machines} pairs 'machine duration'")
    missing = sorted(set(range(machines)) - set(row[::2]))
    if missing:
        raise SettingError(
            f"{where}: the job does not visit each machine once",
            expected=f"machines 0 to {machines - 1}, each once",
            received=f"without {shorten(missing)}",
        )
    for duration in row[1::2]:
        read_whole(str(duration), where, *_DURATION)
