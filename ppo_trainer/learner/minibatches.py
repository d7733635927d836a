"""The minibatches of an update, each of which several processes may share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from ppo_trainer.algorithms.algorithm import Objective, Scale
from ppo_trainer.config import UpdateConfig
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.machine.ranks import LONE, Ranks
from ragged_net import EntityBatch
from ragged_net.transfer import send

__all__ = [
    "Minibatch",
    "facts_of",
    "minibatch_numbers",
    "minibatches",
    "part_sizes",
]


@dataclass(frozen=True)
class Minibatch:
    """The frames of one gradient step, or a process's share of them.

    Args:
        numbers: The numbers of this process's frames in its rollout, or of its sequences where
            there are any. Shape: (K,).
        whole: The advantages, values, returns and numbers of actors of all frames, without their
            entities; None where they are all this process's.
        first: The place of this process's first frame among them.
    """

    numbers: Tensor
    whole: Rollout | None = None
    first: int = 0

    def prepared(self, algorithm: Objective, own: Rollout) -> tuple[Scale, Rollout]:
        """Return the weights of all frames, and ``own`` frames with what depends on all of them.

        Args:
            algorithm: What weighs and prepares.
            own: The frames of ``numbers``.
        """
        if self.whole is None:
            return algorithm.scale(own), algorithm.prepare(own)
        whole, mine = algorithm.prepare(self.whole), slice(self.first, self.first + len(own))
        return algorithm.scale(self.whole), replace(
            own,
            values=whole.values[mine],
            advantages=whole.advantages[mine],
            returns=whole.returns[mine],
        )


def minibatches(
    rollout: Rollout, config: UpdateConfig, generator: torch.Generator, ranks: Ranks = LONE
) -> Iterator[Minibatch]:
    """Yield the minibatches of all epochs.

    Each process shuffles its own frames and cuts them into the same number of parts, so that all
    have about as much to do. The k-th parts of all are the k-th minibatch. A part may be empty.
    """
    counts = ranks.stacked(torch.tensor(len(rollout))).tolist()
    sizes = part_sizes(counts, config.minibatch_size)[ranks.rank]
    every = minibatch_numbers(rollout, config, generator, sizes)
    if ranks.is_alone:
        yield from (Minibatch(numbers) for numbers in every if len(numbers))
        return
    while own := list(islice(every, len(sizes))):
        yield from _with_others(rollout, own, ranks)


def part_sizes(counts: Sequence[int], minibatch_size: int) -> list[list[int]]:
    """Return how many frames of each process go into each minibatch.

    Those of a process differ by at most 1, and so do the sums over the processes.

    Args:
        counts: The number of frames of each process.
        minibatch_size: The most frames of a minibatch.
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
    config: UpdateConfig,
    generator: torch.Generator,
    sizes: Sequence[int] | None = None,
) -> Iterator[Tensor]:
    """Yield shuffled frame numbers in parts of nearly equal size, epoch by epoch.

    With a memory, these are shuffled sequence numbers in as many parts, of about as many frames.

    Args:
        rollout: The frames.
        config: Says how many frames a minibatch has at most.
        generator: Shuffles.
        sizes: The number of frames of each part; None: those of a process alone.
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
    """Return what an algorithm's ``scale`` and ``prepare`` read of frames (K,), on the CPU."""
    there = send(frames, rollout.values.device)
    floats = [
        own.index_select(0, there) for own in (rollout.values, rollout.advantages, rollout.returns)
    ]
    return _without_entities(floats, rollout.actors_per_frame.index_select(0, frames))


def _with_others(rollout: Rollout, own: list[Tensor], ranks: Ranks) -> Iterator[Minibatch]:
    """Yield the minibatches of which the ``own`` parts are a share."""
    sequences, device = rollout.sequences, rollout.values.device
    frames = own if sequences is None else [sequences.select(part).frames.values for part in own]
    order = torch.cat(frames)
    facts = facts_of(rollout, order)
    columns = facts.values, facts.advantages, facts.returns, facts.actors_per_frame
    every = ranks.gathered(torch.stack([column.cpu().double() for column in columns], 1))
    counts = ranks.stacked(torch.tensor([len(part) for part in frames]))
    shares = [
        torch.split(theirs, lengths) for theirs, lengths in zip(every, counts.tolist(), strict=True)
    ]
    before = counts[: ranks.rank].sum(0).tolist()
    for k, numbers in enumerate(own):
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
