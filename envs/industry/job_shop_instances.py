"""Job shop instances: generated, from Taillard's collection, or from a text file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.errors import nearest, shorten

from ..errors import EnvConfigError
from .taillard import TAILLARD

__all__ = ["LONGEST", "MOST_JOBS", "MOST_MACHINES", "Instance", "find_instance", "find_instances"]

I32 = npt.NDArray[np.int32]

MOST_JOBS, MOST_MACHINES = 2000, 200
"""The largest instance; each row has room for it."""
LONGEST = 1_000_000
"""The longest operation: times are counted in 32 bits, and features hold them exactly."""


@dataclass(frozen=True)
class Instance:
    """Jobs, each a chain of operations on machines.

    Args:
        durations: Of each operation of each job, in time units. Shape: (jobs, machines), int32.
        machines: On which machine each operation is done. Shape: (jobs, machines), int32.
        best: The least makespan that is known, where one is.
    """

    durations: I32
    machines: I32
    best: int | None = None

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of jobs and machines."""
        jobs, machines = self.durations.shape
        return int(jobs), int(machines)


def find_instances(named: Any) -> list[Instance]:
    """One instance or several: each ``ta01`` to ``ta80``, the path of a file, or an ``Instance``.

    Raises:
        EnvConfigError: There is no such instance, or the file is damaged.
    """
    each = [named] if isinstance(named, str | Path | Instance) else named
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
    if not isinstance(named, str | Path):
        raise EnvConfigError(
            "invalid parameter instance",
            expected="ta01 to ta80, or the path of a file",
            received=shorten(named),
        )
    if str(named) in TAILLARD:
        jobs, machines, times, order, _, best = TAILLARD[str(named)]
        return _generated(jobs, machines, times, order, best)
    path = Path(named).expanduser()
    if not path.is_file():
        raise EnvConfigError(
            f"there is no instance {str(named)!r}",
            expected="ta01 to ta80, or the path of a file",
            hint=nearest(str(named), list(TAILLARD)),
        )
    try:
        return _read(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise EnvConfigError(f"{path} is no text", expected=_FORMAT) from error


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
    return Instance(np.array(durations, np.int32), np.array(rows, np.int32), best)


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
    table = np.array([row for _, row in rows[1:]], np.int32).reshape(jobs, machines, 2)
    return Instance(np.ascontiguousarray(table[:, :, 1]), np.ascontiguousarray(table[:, :, 0]))


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
            f"{where}: {shorten(word)} is no whole number", expected=_FORMAT
        ) from None
