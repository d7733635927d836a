"""Gantt charts: which machine works on which job, and when."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entity_env.drawing.canvas import Canvas, Color

__all__ = ["Bar", "draw_chart"]


INK = (40, 40, 40)


class Bar(NamedTuple):
    """One operation: its machine, its job, when it starts and when it ends."""

    machine: int
    job: int
    start: int
    end: int


def draw_chart(
    bars: Sequence[Bar], machines: int, now: int, width: int = 900, row: int = 22, **_: Any
) -> npt.NDArray[np.uint8]:
    """A row for each machine, a bar for each operation, a line at ``now``. Shape: (H, W, 3)."""
    edge, foot = 34, 22
    last = max([now, 1, *(bar.end for bar in bars)])
    row = max(4, min(row, 1600 // max(machines, 1)))
    height = machines * row + foot + 6
    canvas = Canvas(width, height)
    scale = (width - edge - 16) / last
    for machine in range(machines):
        top = 4 + machine * row
        canvas.box(edge, top + row - 1, width - 8, top + row, (225, 225, 225))
        if row >= 12:
            canvas.text(4, top + row / 2, f"M{machine}", 10, INK)
    for bar in bars:
        top = 4 + bar.machine * row
        left, right = edge + bar.start * scale, edge + bar.end * scale
        canvas.box(left, top + 2, max(right - 1, left + 1), top + row - 3, _color(bar.job))
        if right - left > 16 and row >= 14:
            canvas.text((left + right) / 2, top + row / 2, str(bar.job), 10, INK, "mm")
    canvas.box(edge + now * scale, 2, edge + now * scale + 1, height - foot, (200, 30, 30))
    canvas.text(width - 12, height - foot / 2, f"{last}", 11, INK, "rm")
    canvas.text(edge, height - foot / 2, f"time {now}", 11, INK)
    return canvas.picture()


def _color(job: int) -> Color:
    """Neighbouring jobs get hues that are far apart."""
    red, green, blue = colorsys.hls_to_rgb(job * 0.618 % 1.0, 0.62 + 0.12 * (job % 2), 0.55)
    return round(red * 255), round(green * 255), round(blue * 255)
