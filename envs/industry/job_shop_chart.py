"""Schedules as bars, and as Gantt charts: which machine works on which job, and when."""

from __future__ import annotations

import colorsys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entity_env.drawing.canvas import Canvas, Color
from entity_env.drawing.scene import text_width

from .job_shop_instances import Instance

__all__ = ["Bar", "bars_of", "draw_chart", "named_bars", "names_of", "turned"]


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


_INK, _FAINT, _RED = (40, 40, 40), (225, 225, 225), (200, 30, 30)


def draw_chart(
    bars: Sequence[Bar],
    jobs: Sequence[str],
    machines: Sequence[str],
    now: int,
    due: Sequence[int] = (),
    width: int = 900,
    row: int = 22,
    **_: Any,
) -> npt.NDArray[np.uint8]:
    """Return a picture of a schedule: a row for each machine, a bar for each operation.

    What ends after its job is due has a red edge; the jobs that are late stand below the chart.

    Args:
        bars: The operations.
        jobs: The names of the jobs.
        machines: The names of the machines.
        now: The time, at which there is a red line.
        due: Due date of each job; empty without due dates.
        width: Of the picture, in pixels.
        row: The height of a row, in pixels; of many machines less.

    Returns:
        Shape: (H, width, 3), uint8.
    """
    # One line each: names from a table may have several.
    jobs, machines = ([" ".join(own[:150].split()) for own in names] for names in (jobs, machines))
    last = max([now, 1, *(bar.end for bar in bars)])
    row = max(4, min(row, 1600 // max(len(machines), 1)))
    foot, bottom = 40, 4 + len(machines) * row
    canvas = Canvas(width, bottom + foot)
    edge, most = 34.0, 150
    if row >= 12:
        edge = max([edge, *(12 + text_width(name, 10) for name in machines)])
        edge = min(edge, most)
    scale = (width - edge - 16) / last
    for tick in _ticks(last):
        x = edge + tick * scale
        canvas.box(x, 4, x + 1, bottom + 3, _FAINT)
        canvas.text(x, bottom + 10, f"{tick:,}", 10, _INK, "mm")
    for machine, name in enumerate(machines):
        top = 4 + machine * row
        canvas.box(edge, top + row - 1, width - 8, top + row, _FAINT)
        if row >= 12:
            canvas.text(4, top + row / 2, canvas.shortened(name, 10, edge - 10), 10, _INK)
    for bar in bars:
        top, is_late = 4 + bar.machine * row, bool(due) and bar.end > due[bar.job]
        left, right = edge + bar.start * scale, edge + bar.end * scale
        right = max(right - 1, left + 1)
        canvas.box(left, top + 2, right, top + row - 3, _RED if is_late else _color(bar.job))
        if is_late:
            canvas.box(left + 2, top + 4, right - 2, top + row - 5, _color(bar.job))
        if row >= 14 and right - left > 14:
            label = canvas.shortened(jobs[bar.job], 10, right - left - 5)
            if label != "..." or right - left > 30:
                canvas.text((left + right) / 2, top + row / 2, label, 10, _INK, "mm")
    canvas.box(edge + now * scale, 2, edge + now * scale + 1, bottom, _RED)
    canvas.text(4, bottom + 28, f"time {now:,}", 11, _INK)
    ends = {bar.job: bar.end for bar in sorted(bars, key=lambda bar: bar.end)}
    late = [
        f"{jobs[job]} by {end - due[job]:,}" for job, end in ends.items() if due and end > due[job]
    ]
    if late:
        text = f"late: {', '.join(late[:most])}"
        canvas.text(
            edge + 60, bottom + 28, canvas.shortened(text[:300], 11, width - edge - 70), 11, _RED
        )
    return canvas.picture()


def _ticks(last: int) -> range:
    """Return about eight round times from 0 to the last one."""
    step = 10 ** max(len(str(last)) - 2, 0)
    while last / step > 8:
        step = step * 2 if str(step)[0] in "15" else step * 5 // 2
    return range(0, last + 1, step)


def _color(job: int) -> Color:
    """Neighbouring jobs get hues that are far apart."""
    red, green, blue = colorsys.hls_to_rgb(job * 0.618 % 1.0, 0.62 + 0.12 * (job % 2), 0.55)
    return round(red * 255), round(green * 255), round(blue * 255)
