"""The decisions of rows with their outcomes, from one observation to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.kinds.table import answer_forms
from entity_env.batching.ragged import RaggedBufferF32, lengths
from entity_env.batching.vec_obs import VecObs
from entity_env.recording.records import (
    Bools,
    Ints,
    Outcomes,
    RecordedBatch,
    per_frame,
    select_frames,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.workers.obs_format import ObsFormat

__all__ = ["Choices", "DecisionLog"]

Choices: TypeAlias = Mapping[str, Mapping[ActionName, npt.NDArray[Any]]]
"""The ``choices``, ``log_probs`` and ``logits`` of a step: a flat array for each action."""


class DecisionLog:
    """The decisions of rows, each with the rewards until the row's next decision.

    A decision whose outcome is open, because its row waits, stays in the log.

    Args:
        obs_space: The observation space of the rows.
        action_space: Their action space.

    Attributes:
        size: The number of frames that were added since the last ``take``.
        num_bytes: The number of bytes of these frames.
    """

    def __init__(self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> None:
        self._format = ObsFormat(obs_space, action_space)
        self._forms = answer_forms(action_space)
        self._episodes = self._steps = 0
        self._parts = ["choices"]
        self._newest: VecObs | None = None
        self._clear()

    def begin(self, obs: VecObs, *, after_reset: bool) -> None:
        """Begin with the observation of a reset, or of a restored state."""
        self._newest, self._rows = per_frame(obs), obs.rows
        # For each row the place of its last decision in the log, and its episode; -1 without any.
        self._last, self._episode = np.full((2, len(obs)), -1)
        self._is_new = np.full(len(obs), after_reset)

    def add(self, choices: Choices, obs: VecObs) -> None:
        """Add the choices for the last observation, and the observation after them."""
        assert self._newest is not None
        rows = self._rows
        self._frames.append(self._format.pack(self._newest))
        self._choices.append(choices)
        self._parts = list(choices)
        self.size += len(rows)
        self.num_bytes += len(self._frames[-1])
        begins = self._episode[rows] < 0
        self._episode[rows[begins]] = self._episodes + np.arange(begins.sum())
        self._episodes += int(begins.sum())
        is_first = begins & self._is_new[rows]
        outcomes = Outcomes.of_rows(self._steps, rows, self._episode[rows], is_first=is_first)
        self._last[rows] = self._count + np.arange(len(rows))
        self._count += len(rows)
        self._outcomes.append(outcomes)
        self._steps += 1
        self._close(obs)
        self._newest, self._rows = per_frame(obs), obs.rows

    def take(self, *, is_end: bool) -> tuple[RecordedBatch, Outcomes] | None:
        """Return the frames whose outcome is known, and remove them from the log.

        Args:
            is_end: True if the rows are not continued: return open decisions, too, and the last
                observation of each running episode.

        Returns:
            The frames in the order of their steps, then those without a decision; None without any.
        """
        if self._newest is None:  # before the first reset
            return None
        rows, finals = self._rows, self._finals
        if is_end:
            running = np.flatnonzero(self._episode[rows] >= 0)
            episodes = self._episode[rows[running]]
            last = Outcomes.of_rows(self._steps, rows[running], episodes, is_decision=False)
            finals = [*finals, (select_frames(self._newest, running), last)]
        else:
            self._last[rows] = -1  # these decisions are followed by others
        every = [*self._outcomes, *(last for _, last in finals)]
        if not every:
            return None
        outcomes = Outcomes.cat(every)
        for place, reward in self._rewards:
            np.add.at(outcomes.reward, place, reward)
        for place, is_cut_off in self._ends:
            outcomes.done[place], outcomes.truncated[place] = True, is_cut_off
        for number, metrics in self._metrics.items():
            outcomes.metrics[number] = metrics
        messages = [*self._frames, *(self._format.pack(obs) for obs, _ in finals)]
        batch = self._batch(messages, outcomes) if len(outcomes) else None
        is_kept = np.zeros(len(outcomes), np.bool_)
        waiting = np.flatnonzero((self._last >= 0) & (not is_end))
        is_kept[self._last[waiting]] = True
        self._clear()
        if batch is not None and len(waiting):
            kept, given = np.flatnonzero(is_kept), np.flatnonzero(~is_kept)
            self._keep(batch.select(kept), outcomes.select(kept))
            batch, outcomes = batch.select(given), outcomes.select(given)
        return None if batch is None or not len(outcomes) else (batch, outcomes)

    def _close(self, obs: VecObs) -> None:
        """Assign rewards and ends to the last decisions of rows.

        A reward before the first decision of an episode belongs to none.
        """
        acted = np.flatnonzero(self._last >= 0)
        self._rewards.append((self._last[acted], obs.reward[acted]))
        ended = acted[obs.done[acted]]
        if len(ended):
            self._ends.append((self._last[ended], obs.truncated[ended]))
            for row in ended.tolist():
                metrics = {name: float(values[row]) for name, values in obs.metrics.items()}
                known = {name: value for name, value in metrics.items() if value == value}
                self._metrics[int(self._last[row])] = known
        cut_off = np.flatnonzero(obs.truncated)
        kept = np.flatnonzero(self._last[cut_off] >= 0)
        if len(kept):
            assert obs.final is not None
            rows = cut_off[kept]
            last = Outcomes.of_rows(self._steps, rows, self._episode[rows], is_decision=False)
            self._finals.append((select_frames(per_frame(obs.final), kept), last))
        over = obs.done
        self._last[over] = self._episode[over] = -1
        self._is_new |= over

    def _clear(self) -> None:
        """Forget the steps."""
        self._frames: list[bytes] = []
        self._choices: list[Choices] = []
        self._outcomes: list[Outcomes] = []
        self._finals: list[tuple[VecObs, Outcomes]] = []  # last observations of truncated episodes
        # By the places of decisions in the log.
        self._rewards: list[tuple[Ints, npt.NDArray[np.float32]]] = []
        self._ends: list[tuple[Ints, Bools]] = []
        self._metrics: dict[int, Mapping[str, float]] = {}
        self._count = self.size = self.num_bytes = 0

    def _keep(self, batch: RecordedBatch, outcomes: Outcomes) -> None:
        """Keep open decisions, as a step before those to come."""
        noted = {"choices": batch.actions, "log_probs": batch.log_probs, "logits": batch.logits}
        self._frames.append(self._format.pack(batch.obs))
        self._choices.append(
            {
                part: {name: buffer.as_array().ravel() for name, buffer in buffers.items()}
                for part, buffers in noted.items()
                if buffers is not None
            }
        )
        self._outcomes.append(outcomes)
        self._count = len(outcomes)
        self._last[outcomes.row] = np.arange(len(outcomes))

    def _batch(self, messages: list[bytes], outcomes: Outcomes) -> RecordedBatch:
        """Return the frames in packed observations, with the choices of all decisions."""
        obs = self._format.join([(message, 0) for message in messages])
        noted: dict[str, dict[str, Any]] = {"choices": {}, "log_probs": {}, "logits": {}}
        for name, form in self._forms.items():
            mask: Any = obs.action_masks[name]
            counts = lengths(mask.actors) * outcomes.is_decision
            for part in self._parts:
                given = [choices[part][name] for choices in self._choices]
                values = np.concatenate([np.zeros(0, np.int8), *given])
                if part == "choices":
                    noted[part][name] = form.buffer(values, counts)
                    continue
                items, width = counts, 1
                if part == "logits" and len(mask.logits_shape) == 1:
                    items = counts * lengths(mask.actees)
                elif part == "logits":
                    width = mask.logits_shape[1]
                flat = values.reshape(-1, width).astype(np.float32, copy=False)
                noted[part][name] = RaggedBufferF32.from_flattened(flat, items)
        return RecordedBatch(
            obs, noted["choices"], noted["log_probs"] or None, noted["logits"] or None,
            reward=outcomes.reward, done=outcomes.done, truncated=outcomes.truncated,
        )  # fmt: skip
