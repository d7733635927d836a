"""Frames with their decisions and outcomes, as batches and as episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer, RaggedBufferF32
from entity_env.batching.vec_obs import VecObs, all_rows
from entity_env.spaces import ActionName

__all__ = ["Outcomes", "RecordedBatch", "RecordedEpisode", "per_frame", "select_frames"]

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RecordedBatch:
    """B frames with their actions and outcomes.

    Args:
        obs: The frames, as rows that all act, without metrics and final observations. Its rewards
            and ends are not recorded.
        actions: For each action the actors' choices. Shape: (B, A, 1), or (B, A, K) for a
            continuous action.
        log_probs: The log-probabilities of the choices, or None. Shape: (B, A, 1).
        logits: The logits of all choices, (B, A, C), or of all actor-actee pairs, actor by actor,
            (B, A * E, 1); of a continuous action means and then deviations, (B, A, 2 * K); or
            None.
        reward: The sum of the rewards until the row's next decision. Shape: (B,), float32.
        done: True if the episode ended before the row's next decision. Shape: (B,), bool.
        truncated: True if a limit ended it. Shape: (B,), bool.
    """

    obs: VecObs
    actions: Mapping[ActionName, ActionBuffer]
    log_probs: Mapping[ActionName, RaggedBufferF32] | None
    logits: Mapping[ActionName, RaggedBufferF32] | None
    reward: npt.NDArray[np.float32]
    done: Bools
    truncated: Bools

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.reward)

    def select(self, frames: Ints) -> RecordedBatch:
        """Return some of the ``frames`` (B,), in the given order."""
        return RecordedBatch(
            obs=select_frames(self.obs, frames),
            actions=_select(self.actions, frames),
            log_probs=None if self.log_probs is None else _select(self.log_probs, frames),
            logits=None if self.logits is None else _select(self.logits, frames),
            reward=self.reward[frames],
            done=self.done[frames],
            truncated=self.truncated[frames],
        )


@dataclass(frozen=True)
class Outcomes:
    """The places and outcomes of recorded frames.

    A frame without a decision is the observation after the last decision of an episode that a
    limit, or the end of the recording, has cut off.

    Args:
        step: The step of the rows in which the frame was observed. Shape: (B,), int64.
        row: The row. Shape: (B,), int64.
        episode: The number of the episode in the recording. Shape: (B,), int64.
        is_first: True for the first decision of an episode; an episode that continues a restored
            state has none. Shape: (B,), bool.
        is_decision: False for a frame without a decision. Shape: (B,), bool.
        reward: The sum of the rewards until the row's next decision; 0 without a decision. Shape:
            (B,), float32.
        done: True if the episode ended before the row's next decision. Shape: (B,), bool.
        truncated: True if a limit ended it. Shape: (B,), bool.
        metrics: The metrics of the episode, for decisions with ``done``; else empty.
    """

    step: Ints
    row: Ints
    episode: Ints
    is_first: Bools
    is_decision: Bools
    reward: npt.NDArray[np.float32]
    done: Bools
    truncated: Bools
    metrics: list[Mapping[str, float]]

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.step)

    def select(self, frames: Ints) -> Outcomes:
        """Return the outcomes of some ``frames`` (B,), in the given order."""
        columns = {part.name: getattr(self, part.name)[frames] for part in fields(self)[:-1]}
        return Outcomes(**columns, metrics=[self.metrics[i] for i in frames.tolist()])

    @classmethod
    def cat(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Return the outcomes of several parts, at least one, in order."""
        columns = {
            column.name: np.concatenate([getattr(part, column.name) for part in parts])
            for column in fields(cls)[:-1]
        }
        return cls(**columns, metrics=[metrics for part in parts for metrics in part.metrics])

    @classmethod
    def of_rows(
        cls,
        step: int,
        rows: Ints,
        episodes: Ints,
        *,
        is_first: Bools | None = None,
        is_decision: bool = True,
    ) -> Outcomes:
        """Return those of the frames of some rows, in which nothing has happened yet."""
        none = np.zeros(len(rows), np.bool_)
        return cls(
            step=np.full(len(rows), step),
            row=rows,
            episode=episodes,
            is_first=none if is_first is None else is_first,
            is_decision=np.full(len(rows), is_decision),
            reward=none.astype(np.float32),
            done=none,
            truncated=none,
            metrics=[{}] * len(rows),
        )


@dataclass(frozen=True)
class RecordedEpisode:
    """The decisions of one row from the start of an episode to its end.

    Args:
        row: The row of the ``VecEnv``.
        steps: Its L decisions, at least one; frame i is the observation before decision i.
        metrics: Metrics of the episode, including ``episodic_reward`` and ``episodic_length``;
            empty if it did not end.
        next_obs: One frame, the observation after the last decision, if a limit ended the episode
            or the recording stopped; None if the game ended, or if no such frame was recorded.
        is_whole: True if the recording has the first and the last step of the episode.
    """

    row: int
    steps: RecordedBatch
    metrics: Mapping[str, float]
    next_obs: VecObs | None
    is_whole: bool

    def __len__(self) -> int:
        """Return the number of decisions L."""
        return len(self.steps)

    @property
    def done(self) -> bool:
        """True if the episode ended; False if the recording stopped or the rows were reset."""
        return bool(self.steps.done[-1])

    @property
    def truncated(self) -> bool:
        """True if a limit ended the episode."""
        return bool(self.steps.truncated[-1])


def per_frame(obs: VecObs) -> VecObs:
    """Return the B frames of an observation as rows that all act, each with its reward and end.

    Metrics and final observations are left out.
    """
    if obs.num_frames == len(obs) and not obs.metrics and obs.final is None:
        return obs
    return VecObs(
        features=obs.features,
        action_masks=obs.action_masks,
        reward=obs.reward[obs.rows],
        done=obs.done[obs.rows],
        truncated=obs.truncated[obs.rows],
        global_features=obs.global_features,
        visible=obs.visible,
        rows=all_rows(obs.num_frames),
    )


def select_frames(obs: VecObs, frames: Ints) -> VecObs:
    """Return some frames of rows that all act, without metrics and final observations."""
    visible = _select(obs.visible, frames)
    return VecObs(
        features=_select(obs.features, frames),
        action_masks={name: mask.select(frames) for name, mask in obs.action_masks.items()},
        reward=obs.reward[frames],
        done=obs.done[frames],
        truncated=obs.truncated[frames],
        global_features=obs.global_features[frames],
        visible={name: shown for name, shown in visible.items() if not shown.as_array().all()},
    )


def _select(buffers: Mapping[str, Any], frames: Ints) -> dict[str, Any]:
    return {name: buffer[frames] for name, buffer in buffers.items()}
