"""Sequences of frames of one row and one episode, for training networks with a memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ppo_trainer.experience.trajectories import Trajectories
from ragged_net.devices import send
from ragged_net.ragged import RaggedTensor

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
        decisions = trajectories.decisions
        if decisions.memory is None:
            return None
        frames = _runs(decisions.rows, trajectories.ends | (decisions.staleness > 0))
        first = send(frames.values[frames.offsets[:-1]], decisions.memory.device)
        return cls(frames, decisions.memory.index_select(0, first))

    @classmethod
    def from_rows(cls, trajectories: Trajectories, states: Tensor) -> Sequences:
        """Return the sequences for another network, which has not changed since the last rollout.

        Args:
            trajectories: K decisions.
            states: State of each row before its first decision. Shape: (R, W).
        """
        rows = trajectories.decisions.rows
        frames = _runs(rows, trajectories.ends)
        row_of = rows[frames.values[frames.offsets[:-1]].numpy()]
        goes_on = np.diff(row_of, prepend=-1) != 0
        first = states.index_select(0, send(torch.from_numpy(row_of), states.device))
        begins = send(torch.from_numpy(~goes_on), states.device)
        return cls(frames, first.masked_fill(begins[:, None], 0.0))

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


def _runs(rows: npt.NDArray[np.int64], cuts: npt.NDArray[np.bool_]) -> RaggedTensor:
    """Return the numbers of the decisions of each row, in order of time, cut after ``cuts``.

    Args:
        rows: Row of each decision. Shape: (K,).
        cuts: True if a sequence ends with the decision. Shape: (K,).
    """
    order = np.argsort(rows, kind="stable")
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(rows[order]) != 0) | cuts[order][:-1]
    lengths = np.diff(np.flatnonzero(begins), append=len(order))
    return RaggedTensor.from_lengths(torch.from_numpy(order), torch.from_numpy(lengths))
