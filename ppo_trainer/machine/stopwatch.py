"""The time of each phase of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Stopwatch"]


class Stopwatch:
    """A sum of seconds for each phase.

    Args:
        now: Clock that returns seconds; wall-clock time by default.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = {}
        self._now = now

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time a block."""
        start = self._now()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + self._now() - start

    def take(self) -> dict[str, float]:
        """Return the seconds of each phase since the last call, as ``time/<phase>``."""
        taken = {f"time/{phase}": seconds for phase, seconds in self.seconds.items()}
        self.seconds = {}
        return taken
