"""Numbers about episodes: one row's running episode, and summaries that can be merged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from entity_env.frame import Frame

__all__ = ["EpisodeTracker", "Metric", "metric_columns"]


@dataclass(frozen=True)
class Metric:
    """Count, sum, least and greatest of some numbers; two of them merge into one."""

    count: int = 0
    sum: float = 0.0
    min: float = math.inf
    max: float = -math.inf

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Metric:
        """Summary of an array; NaN entries are left out."""
        values = values[~np.isnan(values)]
        if len(values) == 0:
            return cls()
        return cls(len(values), float(values.sum()), float(values.min()), float(values.max()))

    def merge(self, other: Metric) -> Metric:
        """Summary of both sets of numbers."""
        return Metric(
            self.count + other.count,
            self.sum + other.sum,
            min(self.min, other.min),
            max(self.max, other.max),
        )

    @property
    def mean(self) -> float:
        """The average; NaN where there are no numbers."""
        return self.sum / self.count if self.count else math.nan


class EpisodeTracker:
    """Follows the running episode of one row: its return, its length, its own metrics."""

    def __init__(self) -> None:
        self.reward = 0.0
        self.length = 0
        self.last: dict[str, float] = {}

    def start(self, frame: Frame) -> None:
        """Begin an episode with its first frame."""
        self.begin(frame.metrics)

    def step(self, frame: Frame) -> None:
        """Add the frame that one step led to."""
        self.add(frame.reward, frame.metrics)

    def begin(self, metrics: Mapping[str, float]) -> None:
        """``start`` with the metrics of the first frame."""
        self.reward, self.length, self.last = 0.0, 0, dict(metrics)

    def add(self, reward: float, metrics: Mapping[str, float]) -> None:
        """``step`` with the reward and the metrics of the frame."""
        self.reward += reward
        self.length += 1
        if metrics:
            self.last.update(metrics)

    @staticmethod
    def add_all(
        trackers: Sequence[EpisodeTracker],
        rewards: Sequence[float],
        metrics: Sequence[Mapping[str, float]],
    ) -> None:
        """``add`` for each of them."""
        for tracker, reward in zip(trackers, rewards, strict=True):
            tracker.reward += reward
            tracker.length += 1
        if any(metrics):
            for tracker, own in zip(trackers, metrics, strict=True):
                tracker.last.update(own)

    def summary(self) -> dict[str, float]:
        """``episodic_reward``, ``episodic_length``, and the last value of each own metric."""
        return {
            **self.last,
            "episodic_reward": self.reward,
            "episodic_length": float(self.length),
        }

    def get_state(self) -> dict[str, object]:
        """The running episode as JSON values."""
        return {"reward": self.reward, "length": self.length, "last": dict(self.last)}

    def set_state(self, state: Mapping[str, object]) -> None:
        """Go back to what ``get_state`` returned."""
        self.reward = float(state["reward"])  # type: ignore[arg-type]
        self.length = int(state["length"])  # type: ignore[call-overload]
        self.last = dict(state["last"])  # type: ignore[call-overload]


def metric_columns(
    summaries: Sequence[Mapping[str, float] | None],
) -> dict[str, npt.NDArray[np.float64]]:
    """One column a metric, NaN in rows without it, for the rows' ended episodes (None: none)."""
    columns: dict[str, npt.NDArray[np.float64]] = {}
    for row, summary in enumerate(summaries):
        if summary:
            for name, value in summary.items():
                column = columns.setdefault(name, np.full(len(summaries), np.nan))
                column[row] = value
    return dict(sorted(columns.items()))
