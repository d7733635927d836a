"""The change of a setting over a run."""

from __future__ import annotations

import math

from ppo_trainer.config import Schedule

__all__ = ["scheduled"]


def scheduled(start: float, schedule: Schedule, progress: float, end: float = 0.0) -> float:
    """Return the value at ``progress``, the fraction of the run that is over, 0 to 1.

    ``constant`` returns ``start``; ``linear`` and ``cosine`` go from ``start`` to ``end``.
    """
    progress = min(max(progress, 0.0), 1.0)
    if schedule == "linear":
        return end + (start - end) * (1.0 - progress)
    if schedule == "cosine":
        return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * progress))
    return start
