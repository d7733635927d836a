"""Metrics of running episodes, and summaries that can be merged."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "EpisodeTracker",
    "EpisodeTrackers",
    "Metric",
    "complete_columns",
    "is_derived",
    "merge_columns",
    "metric_columns",
]


@dataclass(frozen=True)
class Metric:
    """The count, sum, minimum and maximum of some numbers."""

    count: int = 0
    sum: float = 0.0
    min: float = math.inf
    max: float = -math.inf

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Metric:
        """Return the summary of an array without its NaN entries."""
        values = values[~np.isnan(values)]
        if len(values) == 0:
            return cls()
        return cls(len(values), float(values.sum()), float(values.min()), float(values.max()))

    def merge(self, other: Metric) -> Metric:
        """Return the summary of both sets of numbers."""
        return Metric(
            self.count + other.count,
            self.sum + other.sum,
            min(self.min, other.min),
            max(self.max, other.max),
        )

    @property
    def mean(self) -> float:
        """The mean; NaN without numbers."""
        return self.sum / self.count if self.count else math.nan


class EpisodeTracker:
    """The return, the length and the metrics of the running episode of one row."""

    def __init__(self) -> None:
        self.reward = 0.0
        self.length = 0
        self._values: dict[str, list[float]] = {}  # last, count, sum, least, greatest

    def begin(self, metrics: Mapping[str, float]) -> None:
        """Begin an episode, with the metrics of its first frame."""
        self.reward, self.length, self._values = 0.0, 0, {}
        self._note(metrics)

    def add(self, reward: float, metrics: Mapping[str, float], steps: int = 1) -> None:
        """Add the reward and the metrics of the frame after some ``steps``."""
        self.reward += reward
        self.length += steps
        if metrics:
            self._note(metrics)

    def _note(self, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            known = self._values.get(name)
            if known is None:
                self._values[name] = [value, 1, value, value, value]
            else:
                _, count, total, least, greatest = known
                known[:] = value, count + 1, total + value, min(least, value), max(greatest, value)

    def summary(self) -> dict[str, float]:
        """Return ``episodic_reward``, ``episodic_length`` and the environment's own metrics.

        A metric has the value that was given last. A metric that was given more than once also has
        ``<name>.mean``, ``.min``, ``.max``, ``.sum`` and ``.count``.
        """
        summary: dict[str, float] = {}
        for name, (_, count, total, least, greatest) in self._values.items():
            if count > 1:
                parts = (total / count, least, greatest, total, float(count))
                summary |= {f"{name}.{part}": v for part, v in zip(_PARTS, parts, strict=True)}
        # A metric of the environment itself with such a name, as energy.mean, takes precedence.
        summary |= {name: values[0] for name, values in self._values.items()}
        return summary | {"episodic_reward": self.reward, "episodic_length": float(self.length)}

    def get_state(self) -> dict[str, object]:
        """Return the running episode as JSON values."""
        values = {name: list(own) for name, own in self._values.items()}
        return {"reward": self.reward, "length": self.length, "metrics": values}

    def set_state(self, state: Mapping[str, object]) -> None:
        """Restore a state of ``get_state``.

        Raises:
            One of ``errors.DAMAGES``: The state is damaged; nothing has changed.
        """
        reward = float(state["reward"])  # type: ignore[arg-type]
        length = int(state["length"])  # type: ignore[call-overload]
        saved: Mapping[str, Sequence[float]] = state["metrics"]  # type: ignore[assignment]
        values = {name: [float(value) for value in own] for name, own in saved.items()}
        numbers = [reward, *(value for own in values.values() for value in own)]
        if length < 0 or not all(map(math.isfinite, numbers)):
            raise ValueError(f"an episode of {length} steps with the numbers {numbers}")
        for name, own in values.items():
            if isinstance(saved[name], str) or len(own) != 5:
                raise ValueError(f"metric {name!r} is not last, count, sum, least and greatest")
        self.reward, self.length, self._values = reward, length, values


class EpisodeTrackers:
    """The running episodes of R rows, whose rewards and lengths are added up at once."""

    def __init__(self, rows: int) -> None:
        self._rewards = np.zeros(rows, np.float64)
        self._lengths = np.zeros(rows, np.int64)
        self._each = [EpisodeTracker() for _ in range(rows)]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._each)

    def __getitem__(self, row: int) -> EpisodeTracker:
        """Return the current episode of a row."""
        tracker = self._each[row]
        tracker.reward, tracker.length = float(self._rewards[row]), int(self._lengths[row])
        return tracker

    def begin(self, row: int, metrics: Mapping[str, float]) -> None:
        """Begin an episode in a row, with the metrics of its first frame."""
        self._rewards[row], self._lengths[row] = 0, 0
        self._each[row].begin(metrics)

    def add(self, rewards: npt.NDArray[np.float64], metrics: Sequence[Mapping[str, float]]) -> None:
        """Add the rewards (R,) and metrics of a step."""
        self._rewards += rewards
        self._lengths += 1
        if any(metrics):
            for tracker, own in zip(self._each, metrics, strict=True):
                tracker._note(own)

    def set_state(self, row: int, state: Mapping[str, object]) -> None:
        """Restore the episode of a row from a state of its tracker."""
        tracker = self._each[row]
        tracker.set_state(state)
        self._rewards[row], self._lengths[row] = tracker.reward, tracker.length


def metric_columns(
    summaries: Sequence[Mapping[str, float] | None],
) -> dict[str, npt.NDArray[np.float64]]:
    """Return a column for each metric of ended episodes, with NaN in rows without it."""
    columns: dict[str, npt.NDArray[np.float64]] = {}
    for row, summary in enumerate(summaries):
        if summary:
            for name, value in summary.items():
                if name not in columns:
                    columns[name] = np.full(len(summaries), np.nan)
                columns[name][row] = value
    return dict(sorted(columns.items()))


def merge_columns(
    steps: Sequence[Mapping[str, npt.NDArray[np.float64]]], rows: int
) -> dict[str, Metric]:
    """Return the summary of each metric over the columns (rows,) of several steps."""
    nothing = np.full(rows, np.nan)
    names = dict.fromkeys(name for step in steps for name in step)
    columns = {name: np.concatenate([s.get(name, nothing) for s in steps]) for name in names}
    return {name: Metric.of(column) for name, column in complete_columns(columns).items()}


def complete_columns(
    columns: Mapping[str, npt.NDArray[np.float64]],
) -> dict[str, npt.NDArray[np.float64]]:
    """Fill in the mean, sum, ... of metrics that were given once, if other episodes have them.

    Otherwise means would cover only the longer episodes.
    """
    completed = dict(columns)
    for name, column in columns.items():
        base, _, part = name.rpartition(".")
        if is_derived(name, columns):
            once = np.isnan(column) & ~np.isnan(columns[base])
            completed[name] = np.where(once, 1.0 if part == "count" else columns[base], column)
    return completed


def is_derived(name: str, names: Container[str]) -> bool:
    """Return True if a metric is the mean, minimum, ... of another one among ``names``."""
    base, _, part = name.rpartition(".")
    return part in _PARTS and base in names


_PARTS = ("mean", "min", "max", "sum", "count")
