"""Cuts recorded steps of all rows into episodes of single rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from entity_env.batching.vec_obs import VecObs
from entity_env.recording.outcomes import Outcomes
from entity_env.recording.records import (
    RecordedBatch,
    RecordedEpisode,
    cat_batches,
    per_frame,
    select_frames,
)
from entity_env.recording.steps import RecordedSteps, StepFormat

__all__ = ["EpisodeCutter"]


class EpisodeCutter:
    """Follows the running episode of each row from chunk to chunk.

    Args:
        form: Of the recording's spaces.
        rows: R.
        at_start: The first step of each row is the first of an episode.
    """

    def __init__(self, form: StepFormat, rows: int, at_start: bool) -> None:
        self.rows = rows
        self._form = form
        self._at_start = [at_start] * rows
        self._parts: list[list[RecordedBatch]] = [[] for _ in range(rows)]
        self._last: VecObs | None = None
        self._waits = False  # whether rows wait while others are asked

    def cut(self, steps: RecordedSteps) -> list[RecordedEpisode]:
        """Return the episodes that end in the steps that follow those before."""
        if self._waits or not self._form.asks_all(steps):
            return self._cut_apart(steps)
        batch = self._form.batch([steps])
        done = batch.done.reshape(-1, self.rows)
        begins = np.zeros(self.rows, np.int64)
        episodes = []
        for t in np.flatnonzero(done.any(axis=1)).tolist():
            result = self._form.observation(steps.observations[t + 1])
            cut_off = np.cumsum(result.truncated) - 1  # the place of a truncated row in ``final``
            for row in np.flatnonzero(done[t]).tolist():
                self._add(batch, row, begins[row], t + 1)
                begins[row] = t + 1
                own = {name: float(column[row]) for name, column in result.metrics.items()}
                metrics = {name: value for name, value in own.items() if value == value}
                last = result.final if result.truncated[row] else None
                followed = None if last is None else _frame(last, int(cut_off[row]))
                episodes.append(self._episode(row, metrics, followed))
                self._at_start[row] = True
        for row in range(self.rows):
            self._add(batch, row, begins[row], len(steps))
        self._last = self._form.observation(steps.observations[-1])
        return episodes

    def unfinished(self) -> list[RecordedEpisode]:
        """Return the episodes that go on where the steps stop."""
        return [
            self._episode(row, {}, self._shown(row)) for row, own in enumerate(self._parts) if own
        ]

    def _cut_apart(self, steps: RecordedSteps) -> list[RecordedEpisode]:
        """Cut like ``cut`` where rows wait, with decisions of earlier steps."""
        self._waits = True
        batch, outcomes = self._form.batch([steps]), self._form.outcomes([steps])
        self._empty = batch
        for row, parts in enumerate(self._parts):
            if parts:  # what its last decision has been paid since
                earlier = parts[-1]
                earlier.reward[-1] += outcomes.early[row]
                earlier.done[-1] |= outcomes.early_done[row]
                earlier.truncated[-1] |= outcomes.early_truncated[row]
        begins = np.full(self.rows, -1)
        results: dict[int, VecObs] = {}
        episodes = []
        for t, row in outcomes.ends.tolist():
            if t not in results:
                results[t] = self._form.observation(steps.observations[t + 1])
            result = results[t]
            self._add_apart(batch, outcomes, row, begins[row], t)
            begins[row] = t
            own = {name: float(column[row]) for name, column in result.metrics.items()}
            metrics = {name: value for name, value in own.items() if value == value}
            followed = None
            if result.truncated[row] and result.final is not None:
                followed = _frame(result.final, int(result.truncated[:row].sum()))
            episodes.append(self._episode(row, metrics, followed))
            self._at_start[row] = True
        for row in range(self.rows):
            self._add_apart(batch, outcomes, row, begins[row], len(steps))
        self._last = self._form.observation(steps.observations[-1])
        return episodes

    def _add_apart(
        self, batch: RecordedBatch, outcomes: Outcomes, row: int, after: int, until: int
    ) -> None:
        """Note the decisions of a row in the steps behind ``after``, up to ``until``."""
        steps = outcomes.steps
        frames = np.flatnonzero((outcomes.rows == row) & (steps > after) & (steps <= until))
        if len(frames):
            self._parts[row].append(batch.select(frames))

    def _shown(self, row: int) -> VecObs | None:
        """Return the last observation of a row, or None if it does not act then."""
        if self._last is None or row not in self._last.rows:
            return None
        return _frame(per_frame(self._last), int(np.searchsorted(self._last.rows, row)))

    def _add(self, batch: RecordedBatch, row: int, begin: int, end: int) -> None:
        """Note the steps from ``begin`` to ``end`` of a row."""
        if begin < end:
            frames = np.arange(begin, end, dtype=np.int64) * self.rows + row
            self._parts[row].append(batch.select(frames))

    def _episode(
        self, row: int, metrics: Mapping[str, float], next_obs: VecObs | None
    ) -> RecordedEpisode:
        """Return the episode of a row with all that has been noted of it."""
        parts = self._parts[row]
        steps = cat_batches(self._form, parts) if parts else self._nothing()
        self._parts[row] = []
        episode = RecordedEpisode(row, steps, metrics, next_obs, is_whole=False)
        return replace(episode, is_whole=self._at_start[row] and episode.done)

    def _nothing(self) -> RecordedBatch:
        """No frames: those of a seat that was out before it was asked."""
        return self._empty.select(np.zeros(0, np.int64))


def _frame(obs: VecObs, i: int) -> VecObs:
    return select_frames(obs, np.array([i], np.int64))
