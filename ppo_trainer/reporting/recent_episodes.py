"""Means over the last episodes, rather than over those of one update.

Soon after a start or a resume only short episodes have ended, so that the mean of one update would
show a collapse that does not exist.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping
from typing import Any

__all__ = ["PER_EPISODE", "RecentEpisodes", "is_per_episode"]

PER_EPISODE = ("win", "episodic_reward", "episodic_length")
"""Metrics that every environment has, or that many have."""
_LEAST = 100
"""Minimum number of episodes of a mean, for fewer than 50 rows."""
_OF_UPDATES = ("update", "steps", "episodes", "episodes_truncated", "entities_per_frame")
_OF_UPDATES_BY_GROUP = (
    "loss/",
    "optim/",
    "policy/",
    "value/",
    "time/",
    "eval/",
    "selfplay/",
    "scale/",
)

_OF_A_POLICY = re.compile(r"policy_\d+/")  # of a population


def is_per_episode(name: str) -> bool:
    """Return True if a number of a record is a mean over the episodes that ended in its update."""
    name = _OF_A_POLICY.sub("", name, count=1)
    return name not in _OF_UPDATES and not name.startswith(_OF_UPDATES_BY_GROUP)


class RecentEpisodes:
    """Means over the last episodes: at least two for each row, and 100 in all.

    Args:
        rows: Number of environments that play side by side.

    Attributes:
        means: Mean of each metric of episodes, over the last ones.
    """

    def __init__(self, rows: int) -> None:
        self.means: dict[str, float] = {}
        self._wanted = max(_LEAST, 2 * rows)
        self._parts: dict[str, deque[tuple[float, float]]] = {}
        self._episodes = 0.0

    @property
    def is_full(self) -> bool:
        """True if enough episodes have ended for means."""
        return self._episodes >= self._wanted

    def add(self, record: Mapping[str, Any]) -> dict[str, float]:
        """Add the record of an update, and return the means."""
        episodes = record.get("episodes", 1.0)
        self._episodes += episodes
        if episodes:
            for name, mean in record.items():
                if is_per_episode(name) and math.isfinite(mean):
                    self.means[name] = self._mean(name, episodes, mean)
        return dict(self.means)

    def _mean(self, name: str, episodes: float, mean: float) -> float:
        """Return the mean of one metric after ``episodes`` more with mean ``mean``."""
        parts = self._parts.setdefault(name, deque())
        parts.append((episodes, mean))
        total = sum(count for count, _ in parts)
        while total - parts[0][0] >= self._wanted:
            total -= parts.popleft()[0]
        return sum(count * part for count, part in parts) / total
