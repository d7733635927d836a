"""Decisions of rows and their outcomes, in order of time, before advantages are estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ragged_net import EntityBatch, RaggedTensor
from ragged_net.ragged import FrameNumbers

__all__ = ["Decisions", "Trajectories", "select_choices", "select_targets"]


@dataclass(frozen=True)
class Decisions:
    """K decisions of R rows, in order of time, each with its reward so far.

    Args:
        batch: Observations: K frames.
        chosen: Choices of the actors of each action. Shape: (A,), int64.
        log_probs: Log-probability of each choice when it was made. Shape: (A,), float32.
        values: Value of each frame when the decision was made. Shape: (K,), float32.
        rows: Row of each decision. Shape: (K,), int64, on the CPU.
        rewards: Sum of the row's rewards from this decision to its next one, or so far. Shape:
            (K,), float32, on the CPU.
        memory: Memory state of the row before the frame. Shape: (K, W), float32; None for a network
            without memory.
        staleness: Number of updates of the network since the decision. Shape: (K,), int64, on the
            CPU; None stands for 0.
        targets: Improved probabilities of the choices of all actors of each frame, actor by actor,
            from a search; all 0 in frames without one. Shape: (K frames), float32. None without
            searches.
    """

    batch: EntityBatch
    chosen: Mapping[str, RaggedTensor]
    log_probs: Mapping[str, RaggedTensor]
    values: Tensor
    rows: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float32]
    memory: Tensor | None = None
    staleness: npt.NDArray[np.int64] = None  # type: ignore[assignment]
    targets: Mapping[str, RaggedTensor] | None = None

    def __post_init__(self) -> None:
        """Fill in a staleness of 0 if none is given."""
        if self.staleness is None:
            object.__setattr__(self, "staleness", np.zeros(len(self.rows), np.int64))

    def __len__(self) -> int:
        """Return the number of decisions."""
        return len(self.rows)

    def later(self, updates: int) -> Decisions:
        """Return the decisions with a staleness that is larger by ``updates``."""
        return replace(self, staleness=self.staleness + updates)

    def of_rows(self, first: int, count: int) -> Decisions | None:
        """Return the decisions of ``count`` rows from row ``first`` on, or None without any."""
        mine = np.flatnonzero((self.rows >= first) & (self.rows < first + count))
        own = self.select(mine)
        return replace(own, rows=own.rows - first) if len(mine) else None

    @staticmethod
    def cat(parts: Sequence[Decisions]) -> Decisions:
        """Concatenate the decisions of different rows, whose row numbers stay as they are."""
        first = parts[0]
        memories = [part.memory for part in parts if part.memory is not None]
        return Decisions(
            batch=EntityBatch.cat([part.batch for part in parts]),
            chosen={n: RaggedTensor.cat([part.chosen[n] for part in parts]) for n in first.chosen},
            log_probs={
                n: RaggedTensor.cat([part.log_probs[n] for part in parts]) for n in first.log_probs
            },
            values=torch.cat([part.values for part in parts]),
            rows=np.concatenate([part.rows for part in parts]),
            rewards=np.concatenate([part.rewards for part in parts]),
            memory=torch.cat(memories) if memories else None,
            staleness=np.concatenate([part.staleness for part in parts]),
            targets=None
            if first.targets is None
            else {
                name: RaggedTensor.cat([part.targets[name] for part in parts if part.targets])
                for name in first.targets
            },
        )

    def select(self, numbers: npt.NDArray[np.int64]) -> Decisions:
        """Return a copy of the decisions with these numbers (K',)."""
        frames = FrameNumbers.of(torch.from_numpy(numbers), self.values.device)
        chosen, log_probs = select_choices(self.chosen, self.log_probs, frames)
        return Decisions(
            batch=self.batch.select(frames),
            chosen=chosen,
            log_probs=log_probs,
            values=self.values.index_select(0, frames.there),
            rows=self.rows[numbers],
            rewards=self.rewards[numbers],
            memory=None if self.memory is None else self.memory.index_select(0, frames.there),
            staleness=self.staleness[numbers],
            targets=select_targets(self.targets, frames),
        )


@dataclass(frozen=True)
class Trajectories:
    """Decisions whose outcome is known, of all rows in order of time.

    The outcome of a decision is the reward until the row decides again, and the value after it:
    that of the row's next frame, 0 where the episode ended, or that of the final observation where
    a limit ended it.

    Args:
        decisions: K decisions in order of time.
        ends: True if the row's episode ended after the decision. Shape: (K,), bool.
        final_values: Value of the final observation where a limit ended the episode, else 0. Shape:
            (K,), float32.
        next_values: Value of the frame after the last decision of each row. Shape: (R,), float32.
    """

    decisions: Decisions
    ends: npt.NDArray[np.bool_]
    final_values: npt.NDArray[np.float32]
    next_values: npt.NDArray[np.float32]

    def __len__(self) -> int:
        """Return the number of decisions."""
        return len(self.decisions)

    @staticmethod
    def cat(parts: Sequence[Trajectories]) -> Trajectories:
        """Concatenate rollouts of different rows, and renumber the rows."""
        before = np.cumsum([0, *(len(part.next_values) for part in parts)])
        decisions = [
            replace(part.decisions, rows=part.decisions.rows + first)
            for part, first in zip(parts, before, strict=False)
        ]
        return Trajectories(
            Decisions.cat(decisions),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.final_values for part in parts]),
            np.concatenate([part.next_values for part in parts]),
        )


def select_choices(
    chosen: Mapping[str, RaggedTensor], log_probs: Mapping[str, RaggedTensor], frames: FrameNumbers
) -> tuple[dict[str, RaggedTensor], dict[str, RaggedTensor]]:
    """Return the choices of the given frames, and their log-probabilities."""
    selected, own_log_probs = {}, {}
    for name, ragged in chosen.items():
        selected[name], rows = ragged.select_with_rows(frames)
        old = log_probs[name].values.index_select(0, rows)
        own_log_probs[name] = selected[name].with_values(old)
    return selected, own_log_probs


def select_targets(
    targets: Mapping[str, RaggedTensor] | None, frames: FrameNumbers
) -> dict[str, RaggedTensor] | None:
    """Return the improved probabilities of the given frames."""
    if targets is None:
        return None
    return {name: own.select(frames) for name, own in targets.items()}
