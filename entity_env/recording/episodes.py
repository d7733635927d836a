"""Division of the recorded steps of all rows into episodes of single rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from entity_env.batching.vec_obs import VecObs
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
    """A divider of steps into episodes, which keeps the running episode of each row.

    Args:
        form: Format of the recording's steps.
        rows: R.
        at_start: True if the first step of each row begins an episode.
    """

    def __init__(self, form: StepFormat, rows: int, at_start: bool) -> None:
        self.rows = rows
        self._form = form
        self._at_start = [at_start] * rows
        self._parts: list[list[RecordedBatch]] = [[] for _ in range(rows)]
        self._last: VecObs | None = None

    def cut(self, steps: RecordedSteps) -> list[RecordedEpisode]:
        """Return the episodes that end in ``steps``, which follow those of the last call."""
        outcomes = self._form.outcomes(steps)
        batch = self._batch = self._form.batch([steps], [outcomes])
        for row, parts in enumerate(self._parts):
            if parts:  # rewards since its last decision
                earlier = parts[-1]
                earlier.reward[-1] += outcomes.early[row]
                earlier.done[-1] |= outcomes.early_done[row]
                earlier.truncated[-1] |= outcomes.early_truncated[row]
        order = np.argsort(outcomes.rows, kind="stable")
        counts = np.bincount(outcomes.rows, minlength=self.rows)
        frames = np.split(order, np.cumsum(counts)[:-1])  # of each row, in order of time
        results: dict[int, VecObs] = {}
        episodes = []
        for t, row in outcomes.ends.tolist():
            if t not in results:
                results[t] = self._form.observation(steps.observations[t + 1])
            result = results[t]
            end = int(np.searchsorted(outcomes.steps[frames[row]], t, "right"))
            self._add(batch, row, frames[row][:end])
            frames[row] = frames[row][end:]
            own = {name: float(column[row]) for name, column in result.metrics.items()}
            metrics = {name: value for name, value in own.items() if value == value}
            followed = None
            if result.truncated[row] and result.final is not None:
                followed = _frame(result.final, int(result.truncated[:row].sum()))
            episodes.append(self._episode(row, metrics, followed))
            self._at_start[row] = True
        for row, rest in enumerate(frames):
            self._add(batch, row, rest)
        self._last = self._form.observation(steps.observations[-1])
        return episodes

    def unfinished(self) -> list[RecordedEpisode]:
        """Return the episodes that have not ended at the last step."""
        return [
            self._episode(row, {}, self._shown(row)) for row, own in enumerate(self._parts) if own
        ]

    def _shown(self, row: int) -> VecObs | None:
        """Return the last observation of a row, or None if the row does not act in it."""
        if self._last is None or row not in self._last.rows:
            return None
        return _frame(per_frame(self._last), int(np.searchsorted(self._last.rows, row)))

    def _add(self, batch: RecordedBatch, row: int, frames: npt.NDArray[np.int64]) -> None:
        """Add decisions to the episode of a row."""
        if len(frames):
            self._parts[row].append(batch.select(frames))

    def _episode(
        self, row: int, metrics: Mapping[str, float], next_obs: VecObs | None
    ) -> RecordedEpisode:
        """Return the episode of a row, joined from its parts."""
        parts = self._parts[row]
        # A seat that was out before it had to act has no frames.
        none = [] if parts else [self._batch.select(np.zeros(0, np.int64))]
        steps = cat_batches(self._form, parts or none)
        self._parts[row] = []
        episode = RecordedEpisode(row, steps, metrics, next_obs, is_whole=False)
        return replace(episode, is_whole=self._at_start[row] and episode.done)


def _frame(obs: VecObs, i: int) -> VecObs:
    return select_frames(obs, np.array([i], np.int64))
