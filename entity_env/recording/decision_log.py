"""The decisions of rows with their outcomes, from one observation to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import RaggedBufferF32, lengths
from entity_env.batching.vec_obs import VecObs
from entity_env.kinds.table import answer_forms
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
        episodes: The number of earlier episodes in the recording.
        steps: The number of earlier steps.

    Attributes:
        episodes: The number of episodes that have begun.
        steps: The number of steps.
        size: The number of frames that were added since the last ``take``.
        num_bytes: The number of bytes of these frames.
    """

    def __init__(
        self,
        obs_space: ObsSpace,
        action_space: Mapping[ActionName, ActionSpace],
        episodes: int = 0,
        steps: int = 0,
    ) -> None:
        self._format = ObsFormat(obs_space, action_space)
        self._forms = answer_forms(action_space)
        self.episodes, self.steps = episodes, steps
        self._rows: list[Ints] = []
        self._running = np.zeros(0, np.int64)
        self._parts = ["choices"]
        self._clear()

    def begin(self, obs: VecObs, *, after_reset: bool) -> None:
        """Begin with the observation of a reset, or of a restored state."""
        self._rows = [obs.rows]
        self._newest = per_frame(obs)
        # For each row the number of its running episode, -1 before the first decision.
        self._running = np.full(len(obs), -1)
        self._is_new = np.full(len(obs), after_reset)

    def add(self, choices: Choices, obs: VecObs) -> None:
        """Add the choices for the last observation, and the observation after them."""
        self._frames.append(self._format.pack(self._newest))
        self._choices.append(choices)
        self._parts = list(choices)
        self._results.append(obs)
        self._rows.append(obs.rows)
        self.steps += 1
        self.size += len(self._newest)
        self.num_bytes += len(self._frames[-1])
        self._newest = per_frame(obs)

    @property
    def running(self) -> int:
        """The number of episodes that have a decision and no end."""
        return int((self._running >= 0).sum())

    def take(self, *, is_end: bool) -> tuple[RecordedBatch, Outcomes] | None:
        """Return the frames whose outcome is known, and remove them from the log.

        Args:
            is_end: True if the rows are not continued: return open decisions, too, and the last
                observation of each running episode.

        Returns:
            The frames in the order of their steps, then those without a decision; None without any.
        """
        if not self._rows:  # before the first reset
            return None
        outcomes, is_open, finals = self._assign()
        if is_end:
            outcomes = replace(outcomes, is_last=outcomes.is_last | is_open)
            is_open = np.zeros_like(is_open)
            finals.append(self._last_observations())
        messages = [*self._frames, *(self._format.pack(obs) for obs, _ in finals)]
        outcomes = Outcomes.cat([outcomes, *(own for _, own in finals)])
        if not len(outcomes):
            return None
        batch = self._batch(messages, outcomes)
        is_kept = np.append(is_open, np.zeros(len(outcomes) - len(is_open), np.bool_))
        self._clear()
        if is_kept.any():
            kept, given = np.flatnonzero(is_kept), np.flatnonzero(~is_kept)
            self._keep(batch.select(kept), outcomes.select(kept))
            batch, outcomes = batch.select(given), outcomes.select(given)
        return (batch, outcomes) if len(outcomes) else None

    def _clear(self) -> None:
        """Forget the steps."""
        self._frames: list[bytes] = []
        self._choices: list[Choices] = []
        self._rows = self._rows[-1:]
        self._results: list[VecObs] = []
        self._open: Outcomes | None = None  # of decisions before these steps
        self.size = self.num_bytes = 0

    def _keep(self, batch: RecordedBatch, outcomes: Outcomes) -> None:
        """Keep open decisions, as a step before those to come."""
        noted = {"choices": batch.actions, "log_probs": batch.log_probs, "logits": batch.logits}
        self._open = outcomes
        self._frames.append(self._format.pack(batch.obs))
        self._choices.append(
            {
                part: {name: own.as_array().ravel() for name, own in buffers.items()}
                for part, buffers in noted.items()
                if buffers is not None
            }
        )

    def _assign(self) -> tuple[Outcomes, Bools, list[tuple[VecObs, Outcomes]]]:
        """Assign rewards and ends to the decisions before them.

        Returns:
            The outcomes of all decisions, True for those that are open, and the last observations
            of episodes that a limit has ended.
        """
        # Line 0 has the open decisions, line 1 those of the first step, and so on.
        first_step = self.steps - len(self._results)
        nothing = np.zeros((1, len(self._running)))
        reward, done, truncated = (
            np.concatenate(
                [nothing.astype(kind), *(getattr(obs, name)[None] for obs in self._results)]
            )
            for name, kind in (("reward", np.float32), ("done", np.bool_), ("truncated", np.bool_))
        )
        opened = self._open.row if self._open is not None else np.zeros(0, np.int64)
        asked = [opened, *self._rows]
        row = np.concatenate(asked[:-1])
        line = np.repeat(np.arange(len(done)), [len(rows) for rows in asked[:-1]])
        place = np.full(done.shape, -1)
        place[line, row] = np.arange(len(row))
        last = np.maximum.accumulate(place)  # the row's last decision, up to each line
        closed = np.maximum.accumulate(
            np.concatenate([nothing.astype(int) - 1, np.where(done, last, -1)])
        )
        mine = last > closed[:-1]  # True if the row's episode has a decision
        ended = mine & done
        total = np.zeros(len(row), np.float32)
        over, cut_off = np.zeros((2, len(row)), np.bool_)
        if self._open is not None:
            total[: len(opened)] = self._open.reward
        np.add.at(total, last[mine], reward[mine])
        over[last[ended]] = True
        cut_off[last[ended & truncated]] = True
        metrics: list[Mapping[str, float]] = [{}] * len(row)
        for at, own in np.argwhere(ended).tolist():
            found = {
                name: float(values[own]) for name, values in self._results[at - 1].metrics.items()
            }
            metrics[last[at, own]] = {
                name: value for name, value in found.items() if value == value
            }
        following = self._following(asked, done, line, row)
        is_open = following > len(done)
        episode, is_first = self._number(done, line, row)
        outcomes = Outcomes(
            step=first_step + line - 1,
            next_step=first_step + np.minimum(following, len(done)) - 1,
            row=row,
            episode=episode,
            is_first=is_first,
            is_last=over & ~cut_off,
            is_decision=np.ones(len(row), np.bool_),
            reward=total,
            done=over,
            truncated=cut_off,
            metrics=metrics,
        )
        if self._open is not None:
            outcomes.step[: len(opened)] = self._open.step
        finals = []
        for at in np.flatnonzero((ended & truncated).any(axis=1)).tolist():
            final = self._results[at - 1].final
            rows = np.flatnonzero(truncated[at])
            kept = np.flatnonzero(mine[at, rows])
            assert final is not None
            own = Outcomes.of_observations(
                first_step + at, rows[kept], episode[last[at, rows[kept]]]
            )
            finals.append((select_frames(per_frame(final), kept), own))
        return outcomes, is_open, finals

    def _following(self, asked: list[Ints], done: Bools, line: Ints, row: Ints) -> Ints:
        """Return the line in which each row acts next or has ended, or one after all lines."""
        happens = np.zeros((len(done) + 1, done.shape[1]), np.bool_)
        happens[1:] = done
        for at, rows in enumerate(asked):
            happens[at, rows] = True
        lines = np.where(happens, np.arange(len(happens))[:, None], len(happens))
        following: Ints = np.minimum.accumulate(lines[::-1])[::-1][line + 1, row]
        return following

    def _number(self, done: Bools, line: Ints, row: Ints) -> tuple[Ints, Bools]:
        """Return the episode of each decision, and True for the first decision of an episode."""
        ends = np.cumsum(done, axis=0)
        before: Ints = (ends - done)[line, row]  # episodes of the row that have ended
        episode = np.where(before == 0, self._running[row], -1)
        new = np.flatnonzero(episode < 0)
        _, first, which = np.unique(
            before[new] * done.shape[1] + row[new], return_index=True, return_inverse=True
        )
        begins = new[first]
        episode[new] = self.episodes + np.argsort(np.argsort(first))[which]
        is_first = np.zeros(len(row), np.bool_)
        is_first[begins] = (before[begins] > 0) | self._is_new[row[begins]]
        if self._open is not None:
            is_first[: len(self._open)] = self._open.is_first
        self.episodes += len(first)
        self._is_new |= ends[-1] > 0
        self._running[ends[-1] > 0] = -1
        runs = before == ends[-1, row]
        self._running[row[runs]] = episode[runs]
        return episode, is_first

    def _last_observations(self) -> tuple[VecObs, Outcomes]:
        """Return the last observations of the running episodes whose rows must act."""
        rows = self._rows[-1]
        kept = np.flatnonzero(self._running[rows] >= 0)
        own = Outcomes.of_observations(self.steps, rows[kept], self._running[rows[kept]])
        return select_frames(self._newest, kept), own

    def _batch(self, messages: list[bytes], outcomes: Outcomes) -> RecordedBatch:
        """Return the frames in packed observations, with the choices of all decisions."""
        obs = self._format.join([(message, 0) for message in messages])
        noted: dict[str, dict[str, Any]] = {"choices": {}, "log_probs": {}, "logits": {}}
        for name, form in self._forms.items():
            mask: Any = obs.action_masks[name]
            counts = lengths(mask.actors) * outcomes.is_decision
            for part in self._parts:
                given = [own[part][name] for own in self._choices]
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
