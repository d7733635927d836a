"""The results of an evaluation, and their table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.frame import RESERVED_METRICS
from entity_env.errors import counted
from ppo_trainer.reporting.shown_metrics import own_metrics, shown_metrics, unknown_metrics

__all__ = ["RANDOM", "SCRIPTED", "Evaluation", "left_out", "table"]

SCRIPTED, RANDOM = "scripted player", "random play"
_COLUMNS = (
    ("win", "win rate", 3),
    ("episodic_reward", "reward", 3),
    ("episodic_length", "length", 2),
)
_OWN_COLUMNS = 3
"""Maximum number of the environment's own metrics side by side."""

_Z = 1.959964  # two-sided 95% quantile of the normal distribution


@dataclass(frozen=True)
class Evaluation:
    """The metrics of every episode that one player played.

    Args:
        player: Name of the player.
        metrics: Metrics by name, NaN in episodes without one. Shape of each: (episodes,).
        wanted: Number of episodes that were wanted, of which the time limit may have left out some;
            None for the number of episodes played.
        cut_off: Number of episodes that the time limit cut off.
    """

    player: str
    metrics: Mapping[str, npt.NDArray[np.float64]] = field(repr=False)
    wanted: int | None = None
    cut_off: int = 0

    def mean(self, name: str) -> float:
        """Return the mean of a metric."""
        return float(np.nanmean(self.metrics[name]))

    def interval(self, name: str) -> tuple[float, float]:
        """Return a 95% confidence interval of the mean.

        An environment's own metric that is always 0 or 1 has Wilson's interval (1927), which stays
        within 0 and 1 and has a width even if all episodes are won. Others have the normal
        interval.
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
        """Return means and intervals as JSON values, for ``evaluation.json``.

        The interval of a single episode is null.
        """
        facts = {
            "player": self.player,
            "episodes": self.episodes,
            "wanted": self.episodes if self.wanted is None else self.wanted,
            "cut_off": self.cut_off,
        }
        return facts | {
            # An environment may have a metric of the same name.
            f"env/{name}" if name in facts else name: {
                "mean": self.mean(name),
                "interval95": list(self.interval(name)) if self.count(name) > 1 else None,
                "count": self.count(name),
            }
            for name in self.metrics
            if self.count(name)
        }


def table(results: Sequence[Evaluation], shown: Sequence[str] | None = None) -> str:
    """Return a table of win rate, if there is one, reward and length of each player.

    The environment's own metrics follow below.

    Args:
        results: Results of each player.
        shown: The environment's own metrics to show; None for all except those with a suffix such
            as ``.max``. The table names those that no player has.
    """
    own = own_metrics(dict.fromkeys(name for one in results for name in one.metrics))
    own = [name for name in own if any(one.count(name) for one in results)]
    names = shown_metrics(own, shown)
    parts = [[column for column in _COLUMNS if any(one.count(column[0]) for one in results)]]
    for first in range(0, len(names), _OWN_COLUMNS):
        part = names[first : first + _OWN_COLUMNS]
        parts.append([(name, name, _digits(results, name)) for name in part])
    blocks = [_block(results, part) for part in parts]
    return "\n\n".join(blocks + [text for text in [unknown_metrics(own, shown)] if text])


def left_out(results: Sequence[Evaluation]) -> str:
    """Return a line on players with missing episodes, or episodes that were cut off."""
    lines = []
    for one in results:
        played, wanted = one.episodes, one.wanted or one.episodes
        parts = [f"{played:,} of {counted(wanted, 'episode')}"] if played < wanted else []
        if one.cut_off:
            whom = "all" if one.cut_off == played else f"{one.cut_off:,} of them"
            parts.append(f"{whom} cut off before their end")
        if parts:
            lines.append(f"{one.player:<17}{', '.join(parts)}")
    return "\n".join(lines)


def _digits(results: Sequence[Evaluation], name: str) -> int:
    """Return the number of decimals, fewer for large numbers."""
    largest = max(abs(one.mean(name)) for one in results if one.count(name))
    return 3 if largest < 100 else 2 if largest < 1000 else 0


def _block(results: Sequence[Evaluation], columns: Sequence[tuple[str, str, int]]) -> str:
    rows = [["95% intervals", *(label for _, label, _ in columns)]]
    for one in results:
        rows.append([one.player, *(_cell(one, name, digits) for name, _, digits in columns)])
    widths = [max(24, 2 + max(map(len, column))) for column in zip(*rows, strict=True)][1:]
    return "\n".join(f"{row[0]:<17}" + "".join(map(str.rjust, row[1:], widths)) for row in rows)


def _cell(one: Evaluation, name: str, digits: int) -> str:
    """Return a metric and its interval as text, with its number of episodes if some lack it."""
    count = one.count(name)
    if not count:
        return "-"
    if count == 1:
        return f"{one.mean(name):.{digits}f}"
    low, high = one.interval(name)
    text = f"{one.mean(name):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
    return f"{text} of {count:,}" if count < one.episodes else text
