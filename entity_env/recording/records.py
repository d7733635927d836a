"""Steps of all rows, episodes of one row, and random frames of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer, RaggedBufferF32, cat
from entity_env.batching.vec_obs import VecObs, all_rows
from entity_env.spaces import ActionName
from entity_env.workers.obs_format import ObsFormat

__all__ = [
    "RecordedBatch",
    "RecordedEpisode",
    "RecordedStep",
    "cat_batches",
    "per_frame",
    "select_frames",
]


@dataclass(frozen=True)
class RecordedStep:
    """One step of all R rows: observations, actions and their outcomes.

    If only some rows act, ``obs`` and the actions have the B frames of these rows.

    Args:
        obs: The observation before the actions, as the ``VecEnv`` returned it; its rewards and
            ends belong to the step before.
        actions: For each action of the space the actors' choices. Shape: (R, A, 1), or (R, A, K)
            for a continuous action.
        log_probs: The log-probabilities of the choices, or None. Shape: (R, A, 1).
        logits: The logits of all choices, (R, A, C), or of all actor-actee pairs, actor by actor,
            (R, A * E, 1); of a continuous action means and then deviations, (R, A, 2 * K); or
            None.
        next_obs: The observation after the actions; its rewards and ends belong to this step.
    """

    obs: VecObs
    actions: Mapping[ActionName, ActionBuffer]
    log_probs: Mapping[ActionName, RaggedBufferF32] | None
    logits: Mapping[ActionName, RaggedBufferF32] | None
    next_obs: VecObs

    @property
    def reward(self) -> npt.NDArray[np.float32]:
        """The rewards of the step. Shape: (R,)."""
        return self.next_obs.reward

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """True for rows whose episode ended with the step. Shape: (R,)."""
        return self.next_obs.done

    @property
    def truncated(self) -> npt.NDArray[np.bool_]:
        """True for rows whose episode a limit ended. Shape: (R,)."""
        return self.next_obs.truncated

    @property
    def metrics(self) -> Mapping[str, npt.NDArray[np.float64]]:
        """Metrics of the episodes that ended with the step, as in ``VecObs``. Shape: (R,)."""
        return self.next_obs.metrics

    @property
    def final(self) -> VecObs | None:
        """The last observations of the truncated rows, in row order."""
        return self.next_obs.final


@dataclass(frozen=True)
class RecordedBatch:
    """B frames with their actions and outcomes.

    Args:
        obs: The frames, without metrics and final observations. Its rewards and ends belong to the
            step before.
        actions: For each action the actors' choices. Shape: (B, A, 1).
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
    done: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.reward)

    def select(self, frames: npt.NDArray[np.int64]) -> RecordedBatch:
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
class RecordedEpisode:
    """The decisions of one row from the start of an episode to its end.

    Args:
        row: The row of the ``VecEnv``.
        steps: Its L decisions; frame i is the observation before decision i. There are none if the
            row was out before it had to act.
        metrics: Metrics of the episode, including ``episodic_reward`` and ``episodic_length``;
            empty if it did not end.
        next_obs: One frame, the observation after the last step, if a limit ended the episode or
            the recording stopped; None if the game ended.
        is_whole: True if the recording has the first and the last step of the episode.
    """

    row: int
    steps: RecordedBatch
    metrics: Mapping[str, float]
    next_obs: VecObs | None
    is_whole: bool

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.steps)

    @property
    def done(self) -> bool:
        """True if the episode ended; False if the recording stopped or the rows were reset."""
        return bool(self.steps.done[-1]) if len(self.steps) else bool(self.metrics)

    @property
    def truncated(self) -> bool:
        """True if a limit ended the episode."""
        return bool(len(self.steps)) and bool(self.steps.truncated[-1])


def per_frame(obs: VecObs) -> VecObs:
    """Return the frames as rows that all act, each with its reward and end."""
    if obs.num_frames == len(obs):
        return obs
    rows = obs.rows
    return replace(
        obs,
        reward=obs.reward[rows],
        done=obs.done[rows],
        truncated=obs.truncated[rows],
        metrics={},
        final=None,
        rows=all_rows(len(rows)),
    )


def select_frames(obs: VecObs, frames: npt.NDArray[np.int64]) -> VecObs:
    """Return some frames of an observation, without metrics and final observations."""
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


def cat_batches(form: ObsFormat, parts: Sequence[RecordedBatch]) -> RecordedBatch:
    """Return the frames of several batches of the same spaces, in order."""
    if len(parts) == 1:
        return parts[0]
    return RecordedBatch(
        obs=form.join([(form.pack(part.obs), 0) for part in parts]),
        actions=_cat([part.actions for part in parts]),
        log_probs=_cat([part.log_probs for part in parts]),
        logits=_cat([part.logits for part in parts]),
        reward=np.concatenate([part.reward for part in parts]),
        done=np.concatenate([part.done for part in parts]),
        truncated=np.concatenate([part.truncated for part in parts]),
    )


def _select(buffers: Mapping[str, Any], frames: npt.NDArray[np.int64]) -> dict[str, Any]:
    return {name: buffer[frames] for name, buffer in buffers.items()}


def _cat(parts: Sequence[Mapping[str, Any] | None]) -> Any:
    if parts[0] is None:
        return None
    return {name: cat([part[name] for part in parts if part is not None]) for name in parts[0]}
