"""The minibatches of an update, which several processes may share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from ppo_trainer.algorithms.algorithm import Objective, Scale
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.machine.ranks import LONE, Ranks
from ragged_net import EntityBatch
from ragged_net.devices import send

__all__ = ["Minibatch", "facts_of", "minibatch_numbers", "minibatches", "part_sizes"]


@dataclass(frozen=True)
class Minibatch:
    """The frames of one gradient step, or this process's part of them.

    Args:
        numbers: Numbers of this process's frames in its rollout, or of its sequences for a network
            with a memory. Shape: (K,).
        whole: Advantages, values, returns and numbers of actors of the frames of all processes,
            without entities; None if all frames are this process's.
        first: Index of this process's first frame among them.
    """

    numbers: Tensor
    whole: Rollout | None = None
    first: int = 0

    def prepared(self, algorithm: Objective, frames: Rollout) -> tuple[Scale, Rollout]:
        """Return the scale of the whole minibatch, and this process's prepared frames.

        Args:
            algorithm: Objective that scales and prepares.
            frames: Frames of ``numbers``.
        """
        if self.whole is None:
            return algorithm.scale(frames), algorithm.prepare(frames)
        whole, mine = algorithm.prepare(self.whole), slice(self.first, self.first + len(frames))
        return algorithm.scale(self.whole), replace(
            frames,
            values=whole.values[mine],
            advantages=whole.advantages[mine],
            returns=whole.returns[mine],
        )


def minibatches(
    rollout: Rollout, config: PPOConfig, generator: torch.Generator, ranks: Ranks = LONE
) -> Iterator[Minibatch]:
    """Yield the minibatches of all epochs.

    Each process shuffles its own frames and cuts them into the same number of parts, so that all
    have about the same amount of work. The k-th parts of all processes are the k-th minibatch. A
    part may be empty.
    """
    counts = ranks.stacked(torch.tensor(len(rollout))).tolist()
    sizes = part_sizes(counts, config.minibatch_size)[ranks.rank]
    every = minibatch_numbers(rollout, config, generator, sizes)
    if ranks.is_alone:
        yield from (Minibatch(numbers) for numbers in every if len(numbers))
        return
    while parts := list(islice(every, len(sizes))):
        yield from _with_others(rollout, parts, ranks)


def part_sizes(counts: Sequence[int], minibatch_size: int) -> list[list[int]]:
    """Return the number of frames of each process in each minibatch.

    The numbers of one process differ by at most 1, and so do the sums over processes.

    Args:
        counts: Number of frames of each process.
        minibatch_size: Maximum number of frames of a minibatch.
    """
    parts = -(-sum(counts) // minibatch_size)
    sizes, next_part = [], 0
    for count in counts:
        size, more = divmod(count, parts)
        with_one_more = {(next_part + k) % parts for k in range(more)}
        sizes.append([size + (k in with_one_more) for k in range(parts)])
        next_part += more
    return sizes


def minibatch_numbers(
    rollout: Rollout,
    config: PPOConfig,
    generator: torch.Generator,
    sizes: Sequence[int] | None = None,
) -> Iterator[Tensor]:
    """Yield shuffled frame numbers in parts of nearly equal size, epoch by epoch.

    With a memory, these are shuffled sequence numbers in as many parts, with about as many frames.

    Args:
        rollout: The frames.
        config: Settings, with the maximum number of frames of a minibatch.
        generator: Random number generator for shuffling.
        sizes: Number of frames of each part; None for a process alone.
    """
    if sizes is None:
        (sizes,) = part_sizes([len(rollout)], config.minibatch_size)
    for _ in range(config.epochs):
        if rollout.sequences is None:
            order = torch.randperm(len(rollout), generator=generator)
            yield from torch.split(order, list(sizes))
        else:
            yield from rollout.sequences.minibatches(len(sizes), generator)


def facts_of(rollout: Rollout, frames: Tensor) -> Rollout:
    """Return the fields that ``scale`` and ``prepare`` read of frames (K,), on the CPU."""
    there = send(frames, rollout.values.device)
    floats = [
        tensor.index_select(0, there)
        for tensor in (rollout.values, rollout.advantages, rollout.returns)
    ]
    return _without_entities(floats, rollout.actors_per_frame.index_select(0, frames))


def _with_others(rollout: Rollout, parts: list[Tensor], ranks: Ranks) -> Iterator[Minibatch]:
    """Yield the minibatches of all processes, of which the ``parts`` are this process's."""
    sequences, device = rollout.sequences, rollout.values.device
    frames = (
        parts if sequences is None else [sequences.select(part).frames.values for part in parts]
    )
    order = torch.cat(frames)
    facts = facts_of(rollout, order)
    columns = facts.values, facts.advantages, facts.returns, facts.actors_per_frame
    every = ranks.gathered(torch.stack([column.cpu().double() for column in columns], 1))
    counts = ranks.stacked(torch.tensor([len(part) for part in frames]))
    shares = [
        torch.split(theirs, lengths) for theirs, lengths in zip(every, counts.tolist(), strict=True)
    ]
    before = counts[: ranks.rank].sum(0).tolist()
    for k, numbers in enumerate(parts):
        values, advantages, returns, actors = torch.cat([part[k] for part in shares]).unbind(1)
        if not len(values):
            continue
        floats = [send(column.float(), device) for column in (values, advantages, returns)]
        whole = _without_entities(floats, actors.long())
        yield Minibatch(numbers, whole, before[k])


def _without_entities(floats: Sequence[Tensor], actors: Tensor) -> Rollout:
    values, advantages, returns = floats
    batch = EntityBatch({}, values.new_empty(len(values), 0))
    whole = Rollout(batch, {}, {}, values, advantages, returns)
    whole.__dict__["actors_per_frame"] = actors
    return whole
