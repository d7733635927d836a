"""A time limit for a number of episodes, and a report of their progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

__all__ = ["PlayBudget"]


class PlayBudget:
    """A time limit that starts when the object is made.

    Args:
        seconds: The time limit; 0 for no limit.
        heard: Function that is called after every step with the number of finished episodes.
        now: Function that returns the time in seconds.

    Attributes:
        cut_off: Number of episodes that were cut off because the time was over. They count with
            their reward so far and without the game's metrics.
    """

    def __init__(
        self,
        seconds: float = 0.0,
        heard: Callable[[int], None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._heard = now, heard
        self._end = now() + seconds if seconds else math.inf
        self._played = 0
        self.cut_off = 0

    def is_up(self) -> bool:
        """Return True if the time is over."""
        return self._now() >= self._end

    def step(self, ended: int) -> None:
        """Count one step, in which ``ended`` episodes have ended."""
        self._played += ended
        if self._heard is not None:
            self._heard(self._played)
