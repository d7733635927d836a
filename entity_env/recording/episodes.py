"""Cuts recorded steps of all rows into episodes of single rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from entity_env.batching.vec_obs import VecObs
from entity_env.recording.records import (
    RecordedBatch,
    RecordedEpisode,
    cat_batches,
    select_frames,
)
from entity_env.recording.steps import StepFormat, Steps

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

    def cut(self, steps: Steps) -> list[RecordedEpisode]:
        """The episodes that end in the steps that follow those before."""
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
        """The episodes that go on where the steps stop."""
        return [
            self._episode(row, {}, None if self._last is None else _frame(self._last, row))
            for row, parts in enumerate(self._parts)
            if parts
        ]

    def _add(self, batch: RecordedBatch, row: int, begin: int, end: int) -> None:
        """Note the steps from ``begin`` to ``end`` of a row."""
        if begin < end:
            frames = np.arange(begin, end, dtype=np.int64) * self.rows + row
            self._parts[row].append(batch.select(frames))

    def _episode(
        self, row: int, metrics: Mapping[str, float], next_obs: VecObs | None
    ) -> RecordedEpisode:
        """The episode of a row with all that has been noted of it."""
        steps = cat_batches(self._form, self._parts[row])
        self._parts[row] = []
        is_whole = self._at_start[row] and bool(steps.done[-1])
        return RecordedEpisode(row, steps, metrics, next_obs, is_whole)


def _frame(obs: VecObs, i: int) -> VecObs:
    return select_frames(obs, np.array([i], np.int64))
