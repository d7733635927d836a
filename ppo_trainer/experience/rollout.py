"""The data of an update or of a minibatch: frames, choices, advantages and returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env.errors import BatchError
from ppo_trainer.experience.sequences import Sequences
from ppo_trainer.experience.trajectories import select_choices, select_targets
from ragged_net import EntityBatch, RaggedTensor
from ragged_net.ragged import FrameNumbers

__all__ = ["Rollout"]


@dataclass(frozen=True)
class Rollout:
    """B frames with the choices made in them, their advantages and returns.

    Args:
        batch: The frames.
        chosen: Choices of the actors of each action. Shape: (A,), int64.
        log_probs: Log-probability of each choice when it was made. Shape: (A,), float32.
        values: Value of each frame when the choices were made. Shape: (B,), float32.
        advantages: Shape: (B,), float32.
        returns: Targets of the value function. Shape: (B,), float32.
        sequences: Sequences of consecutive frames, for a network with a memory. The frames of a
            minibatch are in the order of its sequences.
        clone_log_probs: Log-probability of each choice by the network that the policy should stay
            close to; None without such a penalty. Shape: (A,), float32.
        targets: Improved probabilities of the choices of a search; see ``Decisions``.
        log_ratios: Logarithms of the ratios that V-trace weighs with, for the log: of each actor,
            or with ``ppo.ratio=per_frame`` of each frame. Shape: (U,); None with other algorithms.
    """

    batch: EntityBatch
    chosen: Mapping[str, RaggedTensor]
    log_probs: Mapping[str, RaggedTensor]
    values: Tensor
    advantages: Tensor
    returns: Tensor
    sequences: Sequences | None = None
    clone_log_probs: Mapping[str, RaggedTensor] | None = None
    targets: Mapping[str, RaggedTensor] | None = None
    log_ratios: npt.NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Check that each choice has a log-probability."""
        for name, chosen in self.chosen.items():
            if self.log_probs[name].num_rows != chosen.num_rows:
                raise BatchError(
                    f"action {name!r} has different numbers of choices and log-probabilities",
                    expected=f"{chosen.num_rows} of both",
                    received=f"{self.log_probs[name].num_rows} log-probabilities",
                )

    def __len__(self) -> int:
        """Return the number of frames."""
        return self.batch.num_frames

    @cached_property
    def actors_per_frame(self) -> Tensor:
        """The number of actors of all actions in each frame. Shape: (B,), int64, on the CPU."""
        ends = np.zeros(len(self) + 1, np.int64)
        for ragged in self.log_probs.values():
            ends = ends + ragged.host_offsets.numpy()
        return torch.from_numpy(ends[1:] - ends[:-1])

    def part(self, numbers: Tensor) -> Rollout:
        """Return the frames, or the sequences if there are any, with these numbers (K,)."""
        if self.sequences is None:
            return self.select(numbers)
        selected = self.sequences.select(numbers)
        return replace(self.select(selected.frames.values), sequences=selected.renumbered())

    def parts(self, size: int) -> Iterator[Rollout]:
        """Yield parts of ``size`` frames in order, or the whole with 0.

        Sequences stay whole, so that one that is longer makes a larger part.
        """
        if not 0 < size < len(self):
            yield self
            return
        if self.sequences is None:
            every = iter(torch.split(torch.arange(len(self)), size))
        else:
            every = self.sequences.within(size)
        for numbers in every:
            yield self.part(numbers)

    def select(self, frames: Tensor | FrameNumbers) -> Rollout:
        """Return the frames with these numbers (K,), in that order, without sequences."""
        frames = FrameNumbers.of(frames, self.values.device)
        chosen, log_probs = select_choices(self.chosen, self.log_probs, frames)
        cloned = self.clone_log_probs
        return Rollout(
            batch=self.batch.select(frames),
            chosen=chosen,
            log_probs=log_probs,
            values=self.values.index_select(0, frames.there),
            advantages=self.advantages.index_select(0, frames.there),
            returns=self.returns.index_select(0, frames.there),
            clone_log_probs=None
            if cloned is None
            else select_choices(self.chosen, cloned, frames)[1],
            targets=select_targets(self.targets, frames),
        )
