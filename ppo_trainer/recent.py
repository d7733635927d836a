"""Means over the last episodes, not over those of one update.

Soon after a start or a resume, only short episodes have ended: the mean of one update would tell of
a collapse that there is not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

__all__ = ["PER_EPISODE", "RecentEpisodes"]

PER_EPISODE = ("win", "episodic_reward", "episodic_length")
_LEAST = 100
"""Episodes, where there are fewer than 50 rows."""


class RecentEpisodes:
    """Adds up records until they speak of enough episodes: two for each row, and 100.

    Args:
        rows: The environments that play side by side.
    """

    def __init__(self, rows: int) -> None:
        self._wanted = max(_LEAST, 2 * rows)
        self._parts: dict[str, deque[tuple[float, float]]] = {}

    def add(self, record: Mapping[str, Any]) -> dict[str, float]:
        """The means (of ``PER_EPISODE``) after one more update, of which ``record`` is."""
        episodes = record.get("episodes", 1.0)
        for name in PER_EPISODE:
            if episodes and math.isfinite(record.get(name, math.nan)):
                parts = self._parts.setdefault(name, deque())
                parts.append((episodes, record[name]))
                total = sum(count for count, _ in parts)
                while total - parts[0][0] >= self._wanted:
                    total -= parts.popleft()[0]
        return {
            name: sum(count * mean for count, mean in parts) / sum(count for count, _ in parts)
            for name, parts in self._parts.items()
        }
