"""Measurements of all benchmarks: CPU time of the process, taken in turns, medians and spread."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Row", "Times", "alternate", "print_rows", "speed_row"]


@dataclass(frozen=True)
class Times:
    """CPU seconds of one call, one number for each repeat."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.seconds)

    def ratios(self, ours: Times) -> list[float]:
        """Return the ratios of these times to ``ours``, repeat by repeat, sorted."""
        return sorted(a / b for a, b in zip(self.seconds, ours.seconds, strict=True))


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        case: What was measured.
        ours: Our figure, with its unit.
        baseline: The name of what it is compared with, and its figure.
        ratio: How many times better ours is, or None where there is nothing to compare with.
        spread: The middle 80% of the repeats.
        target: The least ``ratio`` (or, without one, the least ``value``) to reach; None for none.
        value: Our figure as a number, where the target is about it.
        note: Printed in a line of its own.
    """

    case: str
    ours: str
    baseline: str = ""
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    target: float | None = None
    value: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """``reached`` or ``missed``; empty without a target."""
        measured = self.value if self.value is not None else self.ratio
        if self.target is None or measured is None:
            return ""
        return "reached" if measured >= self.target else "missed"


def alternate(
    cases: Mapping[Any, Callable[[], object]],
    *,
    repeats: int = 11,
    seconds: float = 0.05,
    budget: float = 5.0,
) -> dict[Any, Times]:
    """Time each function, one after the other, again and again.

    Taking turns lets a slow moment of the machine hit all of them alike.

    Args:
        cases: The functions by name.
        repeats: Turns, at most.
        seconds: About how long a function runs in one turn: it is called often enough.
        budget: CPU seconds for all turns; slow functions get fewer of them, but at least 3.
    """
    with _collector_off():
        start = time.process_time()
        calls = {name: _calls(function, seconds) for name, function in cases.items()}
        repeats = max(3, min(repeats, int(budget / (time.process_time() - start))))
        taken: dict[Any, list[float]] = {name: [] for name in cases}
        for _ in range(repeats):
            for name, function in cases.items():
                taken[name].append(_time(function, calls[name]) / calls[name])
        return {name: Times(tuple(values)) for name, values in taken.items()}


def speed_row(
    case: str,
    ours: Times,
    baseline: Times,
    name: str,
    *,
    target: float | None = None,
    per_call: float | None = None,
    unit: str = "",
) -> Row:
    """Return a row that compares two times, as rates if a call does ``per_call`` things."""
    ratios = baseline.ratios(ours)
    edge = len(ratios) // 10
    return Row(
        case=case,
        ours=_figure(ours, per_call, unit),
        baseline=f"{name}: {_figure(baseline, per_call, unit)}",
        ratio=statistics.median(ratios),
        spread=(ratios[edge], ratios[-1 - edge]),
        target=target,
    )


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table."""
    lines = [("case", "ours", "baseline", "ratio", "80% of repeats", "target", "")]
    notes = [""]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        spread = "" if row.spread is None else f"{row.spread[0]:.2f} to {row.spread[1]:.2f}"
        target = "" if row.target is None else f"{row.target:,g}"
        lines.append((row.case, row.ours, row.baseline, ratio, spread, target, row.verdict))
        notes.append(row.note)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line, note in zip(lines, notes, strict=True):
        cells = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip())
        if note:
            print(f"    {note}")


def _figure(times: Times, per_call: float | None, unit: str) -> str:
    if per_call is not None:
        return f"{per_call / times.median:,.0f} {unit}".strip()
    seconds = times.median
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _calls(function: Callable[[], object], seconds: float) -> int:
    """Return the number of calls in one turn, after warming the function up."""
    if _time(function, 1) > 4 * seconds:  # too slow for a second try
        return 1
    calls = 1
    while (taken := _time(function, calls)) < seconds / 4:
        calls *= 4
    return max(1, round(calls * seconds / taken))


def _time(function: Callable[[], object], calls: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(calls):
        function()
    return time.process_time() - start


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Switch the garbage collector off, except in ``_time``, which skips existing objects."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
