"""Decisions of rows, their outcomes, sequences of them, and the rollout of an update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env.errors import BatchError
from ragged_net import EntityBatch, RaggedTensor
from ragged_net.devices import send
from ragged_net.ragged import FrameNumbers

__all__ = ["Decisions", "Rollout", "Sequences", "Trajectories", "select_choices", "select_targets"]


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
        kept = self.select(mine)
        return replace(kept, rows=kept.rows - first) if len(mine) else None

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
    return {name: ragged.select(frames) for name, ragged in targets.items()}


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
