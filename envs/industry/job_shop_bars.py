"""Schedules as bars: each operation with its machine, its job, its start and its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .job_shop_instances import Instance

__all__ = ["Bar", "bars_of", "named_bars", "names_of", "turned"]


class Bar(NamedTuple):
    """One operation: its machine, its job, when it starts and when it ends."""

    machine: int
    job: int
    start: int
    end: int


def names_of(one: Instance) -> tuple[list[str], list[str]]:
    """Return the names of the jobs and machines of an instance, or else their numbers."""
    jobs, machines = one.size
    return (
        list(one.jobs or map(str, range(jobs))),
        list(one.machine_names or map(str, range(machines))),
    )


def bars_of(own: Mapping[str, Any], since: Sequence[int] = ()) -> list[Bar]:
    """Return the operations that have been started in a saved game, in the order of time.

    Args:
        own: The fields of the game.
        since: The first operation of each job; all, if nothing is said.
    """
    columns = own["places"], own["starts"], own["ends"]
    bars = [
        Bar(places[op], job, starts[op], ends[op])
        for job, (places, starts, ends) in enumerate(zip(*columns, strict=True))
        if job < own["jobs"]
        for op in range(since[job] if since else 0, own["op"][job])
    ]
    return sorted(bars, key=lambda bar: (bar.start, bar.machine))


def named_bars(
    bars: Sequence[Bar], jobs: Sequence[str], machines: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the job, machine, start and end of operations, by names."""
    return [
        {"job": jobs[bar.job], "machine": machines[bar.machine], "start": bar.start, "end": bar.end}
        for bar in bars
    ]


def turned(bars: Sequence[Bar]) -> list[Bar]:
    """Return the bars of a schedule of an instance backwards as those of one of the instance.

    Each then starts as early as the order of its job and its machine allows.
    """
    free: dict[tuple[str, int], int] = defaultdict(int)
    found = []
    # Of equals those that take no time are last backwards, and so first here.
    for bar in sorted(bars, key=lambda bar: (bar.end, bar.start))[::-1]:
        start = max(free["job", bar.job], free["machine", bar.machine])
        end = start + bar.end - bar.start
        free["job", bar.job] = free["machine", bar.machine] = end
        found.append(bar._replace(start=start, end=end))
    return sorted(found, key=lambda bar: (bar.start, bar.machine))
