"""Sequences of frames of one row and one episode, for training networks with a memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ppo_trainer.experience.trajectories import Trajectories
from ragged_net.ragged import RaggedTensor
from ragged_net.transfer import send

__all__ = ["Sequences"]


@dataclass(frozen=True)
class Sequences:
    """S sequences of frames, each with the state of the memory before its first frame.

    Args:
        frames: Numbers of the frames of each sequence, in order of time, on the CPU. Ragged: (K,),
            int64.
        states: Memory state before the first frame of each sequence. Shape: (S, W), float32.
    """

    frames: RaggedTensor
    states: Tensor

    def __len__(self) -> int:
        """Return the number of sequences S."""
        return self.frames.num_frames

    @property
    def lengths(self) -> Tensor:
        """The number of frames of each sequence. Shape: (S,), int64, on the CPU."""
        return self.frames.lengths

    @classmethod
    def of(cls, trajectories: Trajectories) -> Sequences | None:
        """Return the sequences of a rollout, or None for a network without memory.

        A sequence ends with its row's episode or with the rollout. It also ends after a decision of
        an earlier rollout, because the present network would not compute the state that followed
        it.
        """
        decisions, ends = trajectories.decisions, trajectories.ends
        if decisions.memory is None:
            return None
        order = np.argsort(decisions.rows, kind="stable")
        rows = decisions.rows[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (rows[1:] != rows[:-1]) | (ends | (decisions.staleness > 0))[order][:-1]
        starts = np.flatnonzero(begins)
        lengths = np.diff(starts, append=len(order))
        first = send(torch.from_numpy(order[starts]), decisions.memory.device)
        frames = RaggedTensor.from_lengths(torch.from_numpy(order), torch.from_numpy(lengths))
        return cls(frames, decisions.memory.index_select(0, first))

    def select(self, numbers: Tensor) -> Sequences:
        """Return the sequences of these ``numbers`` (S',) int64, on the CPU."""
        there = send(numbers, self.states.device)
        return Sequences(self.frames.select(numbers), self.states.index_select(0, there))

    def renumbered(self) -> Sequences:
        """Return the sequences with frames renumbered in the order of the sequences."""
        return Sequences(self.frames.with_values(torch.arange(self.frames.num_rows)), self.states)

    def minibatches(self, parts: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield shuffled sequence numbers in ``parts`` parts of about as many frames each."""
        order = torch.randperm(len(self), generator=generator)
        lengths = self.lengths[order].numpy()
        middles = np.cumsum(lengths) - lengths / 2
        part = (middles * parts / max(lengths.sum(), 1)).astype(np.int64)
        starts = np.searchsorted(part, np.arange(1, parts))
        yield from torch.tensor_split(order, torch.from_numpy(starts))

    def within(self, size: int) -> Iterator[Tensor]:
        """Yield sequence numbers in order, in parts of at most ``size`` frames or one sequence."""
        begin = frames = 0
        for number, length in enumerate(self.lengths.tolist()):
            if frames and frames + length > size:
                yield torch.arange(begin, number)
                begin, frames = number, 0
            frames += length
        yield torch.arange(begin, len(self))
