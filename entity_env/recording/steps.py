"""The content of a chunk: observations and decisions of all its steps as columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer, RaggedBufferF32, lengths
from entity_env.batching.vec_obs import VecObs, all_rows
from entity_env.kinds.table import answer_forms
from entity_env.recording.arrays import Array
from entity_env.recording.chunk_file import AFTER_RESET, CONTINUES
from entity_env.recording.outcomes import Outcomes
from entity_env.recording.outline import Outline
from entity_env.recording.records import RecordedBatch, per_frame
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.workers.obs_format import ObsFormat

__all__ = ["Columns", "RecordedSteps", "StepFormat"]

Columns: TypeAlias = list[Array | None]
"""The flat arrays of one step; None for arrays that an observation leaves out."""

# The places of the last columns of an observation, for all spaces.
_DONE, _TRUNCATED, _METRIC_NAMES, _FINAL = -4, -3, -2, -1


@dataclass(frozen=True)
class RecordedSteps:
    """T steps of R rows.

    Args:
        observations: The columns of T + 1 observations: those before each step, and the last one.
        decisions: The columns of T decisions: the choices of each action, then the
            log-probabilities of each action and the logits of each action, if recorded.
        has_log_probs: True if the decisions have log-probabilities.
        has_logits: True if they have logits.
    """

    observations: Sequence[Columns]
    decisions: Sequence[Columns]
    has_log_probs: bool
    has_logits: bool

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.decisions)


class StepFormat(ObsFormat):
    """The columns of ``ObsFormat`` for many steps.

    A chunk is a list of arrays: the number of values of each column in each observation, (T + 1, C)
    with -1 for a column that is left out; for each column the values of all observations; then
    the same for the decisions.
    """

    says_over = False

    def __init__(self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> None:
        super().__init__(obs_space, action_space)
        self._answers = answer_forms(action_space)
        self._rows_at = self._ints - 1
        self._metrics = self._ints
        self._reward = self._ints + 1 + len(self._widths)
        self._lengths = list(range(len(self._widths)))
        place = len(self._widths)
        for kind in self._kinds_of.values():
            self._lengths += [place, place + 2] if kind.selects else [place]
            place += 4 if kind.selects else 2

    def pack_steps(self, messages: Sequence[bytes], decisions: Sequence[Columns]) -> list[Array]:
        """Return the arrays of a chunk: T + 1 packed observations and T decisions."""
        arrays: list[Array] = []
        for steps in ([self._read(message, 0) for message in messages], decisions):
            counts = [[-1 if column is None else column.size for column in row] for row in steps]
            arrays.append(np.array(counts, np.int64).ravel())
            arrays += [_joined(column) for column in zip(*steps, strict=True)]
        return arrays

    def unpack_steps(
        self, arrays: Sequence[Array], num_steps: int, num_rows: int, noted: tuple[bool, bool]
    ) -> RecordedSteps:
        """Return the steps in arrays of ``pack_steps``.

        Args:
            arrays: The arrays.
            num_steps: T.
            num_rows: R.
            noted: Two booleans, True if there are log-probabilities, and logits.

        Raises:
            ValueError: The arrays contradict each other.
        """
        for array, (kind, _) in zip(arrays[1:], self._kinds, strict=False):
            if array.size and array.dtype != np.dtype(kind):
                raise ValueError("columns of other types")
        tables = []
        kinds = len(self._spaces) * (1 + sum(noted))
        for rows, width in ((num_steps + 1, len(self._kinds)), (num_steps, kinds)):
            tables.append(_split(arrays[0].reshape(rows, width), arrays[1 : 1 + width]))
            arrays = arrays[1 + width :]
        for columns in tables[0]:
            self._check(columns, num_rows)
        return RecordedSteps(tables[0], tables[1], *noted)

    def outline(
        self, arrays: Sequence[Array], num_steps: int, num_rows: int, first: int, flags: int
    ) -> Outline:
        """Return the steps in arrays of ``pack_steps``, without frames and decisions.

        Args:
            arrays: The arrays.
            num_steps: T.
            num_rows: R.
            first: The number of the first step.
            flags: The flags of the chunk.

        Raises:
            ValueError: The arrays contradict each other.
        """
        width = len(self._kinds)
        counts = arrays[0].reshape(num_steps + 1, width)
        columns = arrays[1 : 1 + width]
        per_step = num_steps + 1, num_rows
        reward, done, truncated = (
            columns[at].reshape(per_step)[1:] for at in (self._reward, _DONE, _TRUNCATED)
        )
        asked, who = None, counts[:-1, self._rows_at]
        if (who >= 0).any():
            asked = np.zeros((num_steps, num_rows), np.bool_)
            steps = np.repeat(np.arange(num_steps), np.maximum(who, 0))
            rows = columns[self._rows_at][: len(steps)]
            if ((rows < 0) | (rows >= num_rows)).any():
                raise ValueError("rows that are not there")
            asked[steps, rows] = True
            asked[who < 0] = True
        given = [
            _split(counts[:, at : at + 1 or None], [columns[at]])
            for at in (self._metrics, width + _METRIC_NAMES)
        ]
        metrics = {}
        for step in np.flatnonzero(done.any(axis=1)).tolist():
            (values,), (names,) = (column[step + 1] for column in given)
            if values is not None and names is not None:
                lines = values.reshape(-1, num_rows)
                metrics[step] = dict(zip(json.loads(names.tobytes()), lines, strict=True))
        return Outline(
            first=first,
            continues=bool(flags & CONTINUES),
            after_reset=bool(flags & AFTER_RESET),
            reward=reward,
            done=done,
            truncated=truncated,
            asked=asked,
            metrics=metrics,
        )

    def observation(self, columns: Columns) -> VecObs:
        """Return the observation with these columns."""
        return self.join([(columns, 0)])

    def batch(self, parts: Sequence[RecordedSteps], outcomes: Sequence[Outcomes]) -> RecordedBatch:
        """Return the frames of several parts, step by step, without metrics and finals.

        Args:
            parts: The recorded steps.
            outcomes: The outcomes of the decisions of each part.
        """
        shown = [columns for part in parts for columns in part.observations[:-1]]
        obs = per_frame(self.join([(self._bare(columns), 0) for columns in shown]))
        decisions = [columns for part in parts for columns in part.decisions]
        return RecordedBatch(
            obs,
            *self.decided(obs, decisions, parts[0]),
            reward=np.concatenate([own.reward for own in outcomes]),
            done=np.concatenate([own.done for own in outcomes]),
            truncated=np.concatenate([own.truncated for own in outcomes]),
        )

    def outcomes(self, steps: RecordedSteps) -> Outcomes:
        """Return the outcomes of the decisions of some steps within these steps."""
        results = steps.observations[1:]
        rows = len(results[0][self._reward])  # type: ignore[arg-type]
        asked = [
            all_rows(rows) if columns[self._rows_at] is None else np.asarray(columns[self._rows_at])
            for columns in steps.observations
        ]
        reward, done, truncated = (
            np.stack([np.asarray(columns[at]) for columns in results])
            for at in (self._reward, _DONE, _TRUNCATED)
        )
        return Outcomes.of(asked, reward, done, truncated)

    def decided(
        self, obs: VecObs, decisions: Sequence[Columns], kinds: RecordedSteps
    ) -> tuple[dict[str, ActionBuffer], Any, Any]:
        """Return the choices, log-probabilities and logits (None: not recorded) for ``obs``."""
        columns = iter([_joined(column) for column in zip(*decisions, strict=True)])
        counts = {name: lengths(mask.actors) for name, mask in obs.action_masks.items()}
        actions = {
            name: form.buffer(next(columns), counts[name]) for name, form in self._answers.items()
        }
        log_probs = logits = None
        if kinds.has_log_probs:
            log_probs = {
                name: RaggedBufferF32.from_flattened(next(columns)[:, None], counts[name])
                for name in self._spaces
            }
        if kinds.has_logits:
            logits = {}
            for name in self._spaces:
                mask: Any = obs.action_masks[name]
                rows = counts[name]
                _, *more = mask.logits_shape
                if not more:
                    rows = rows * lengths(mask.actees)
                width = more[0] if more else 1
                values = next(columns).reshape(int(rows.sum()), width)
                logits[name] = RaggedBufferF32.from_flattened(values, rows)
        return actions, log_probs, logits

    def _read(self, memory: Any, start: int) -> Columns:
        """Read the columns of a message, or return columns that were read already."""
        if isinstance(memory, list):
            return memory
        columns = super()._read(memory, start)
        return [None if column is None else np.asarray(column) for column in columns]

    def _bare(self, columns: Columns) -> Columns:
        """Return an observation without metrics and final observations."""
        bare = columns.copy()
        for place in (self._metrics, _METRIC_NAMES, _FINAL):
            bare[place] = None
        return bare

    def _check(self, columns: Columns, num_rows: int) -> None:
        """Raise ValueError for lengths that would crash ragged buffers; NumPy checks the rest."""
        rows = columns[self._rows_at]
        frames = num_rows if rows is None else len(rows)
        if rows is not None and (np.diff([-1, *rows.tolist(), num_rows]) < 1).any():
            raise ValueError("rows that are not there, or in another order")
        for place in self._lengths:
            column = columns[place]
            if column is None or len(column) != frames or (column < 0).any():
                raise ValueError("impossible lengths")
        for place in (self._reward, _DONE, _TRUNCATED):
            column = columns[place]
            if column is None or len(column) != num_rows:
                raise ValueError("rows without an outcome")
        final, truncated = columns[_FINAL], columns[_TRUNCATED]
        if final is not None and truncated is not None:
            self._check(self._read(final, 0), int(truncated.sum()))


def _joined(column: Sequence[Array | None]) -> npt.NDArray[Any]:
    parts = [part.ravel() for part in column if part is not None]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8)


def _split(counts: npt.NDArray[np.int64], arrays: Sequence[Array]) -> list[Columns]:
    """Return for each step its part of each array."""
    if counts.size and (counts < -1).any():
        raise ValueError("impossible lengths")
    columns = []
    for own, array in zip(counts.T, arrays, strict=True):
        ends = np.cumsum(np.maximum(own, 0))
        if (ends[-1] if len(ends) else 0) != array.size:
            raise ValueError("columns of other lengths than they say")
        places = zip((ends - own).tolist(), ends.tolist(), (own < 0).tolist(), strict=True)
        columns.append([None if none else array[start:end] for start, end, none in places])
    return [list(step) for step in zip(*columns, strict=True)]
