"""Results of an evaluation: the metrics of the episodes of a player."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.frame import RESERVED_METRICS

__all__ = ["Evaluation"]

_Z = 1.959964  # two-sided 95% quantile of the normal distribution


@dataclass(frozen=True)
class Evaluation:
    """The metrics of every episode that one player played.

    Args:
        player: Who.
        metrics: NaN in episodes without one. Shape of each: (episodes,).
        asked: The number of episodes that were asked for; fewer have been played if the time was
            up. None: as many as there are.
        cut_off: Episodes that ended only because the time was up.
    """

    player: str
    metrics: Mapping[str, npt.NDArray[np.float64]] = field(repr=False)
    asked: int | None = None
    cut_off: int = 0

    def mean(self, name: str) -> float:
        """Return the mean of a metric."""
        return float(np.nanmean(self.metrics[name]))

    def interval(self, name: str) -> tuple[float, float]:
        """Return a 95% confidence interval of the mean.

        Wilson's interval (1927) for an environment's own metric that is always 0 or 1: it stays
        within 0 and 1 and means something even if all episodes are won. The normal one else.
        """
        values = self.metrics[name][~np.isnan(self.metrics[name])]
        n, mean = len(values), float(values.mean())
        if name not in RESERVED_METRICS and np.isin(values, (0.0, 1.0)).all():
            centre = (mean + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
            half = _Z / (1 + _Z**2 / n) * math.sqrt(mean * (1 - mean) / n + _Z**2 / (4 * n**2))
            return max(0.0, centre - half), min(1.0, centre + half)
        half = _Z * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
        return mean - half, mean + half

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return len(self.metrics["episodic_length"])

    def count(self, name: str) -> int:
        """Return the number of episodes that have a metric."""
        return int((~np.isnan(self.metrics[name])).sum()) if name in self.metrics else 0

    def summary(self) -> dict[str, Any]:
        """Means and intervals as JSON values; the interval of a single number is null."""
        facts = {
            "player": self.player,
            "episodes": self.episodes,
            "asked": self.episodes if self.asked is None else self.asked,
            "cut_off": self.cut_off,
        }
        return facts | {
            # An environment may call a metric as we call one of ours.
            f"env/{name}" if name in facts else name: {
                "mean": self.mean(name),
                "interval95": list(self.interval(name)) if self.count(name) > 1 else None,
                "count": self.count(name),
            }
            for name in self.metrics
            if self.count(name)
        }
