"""The sum of the gradients of all processes that train one network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce

import torch
from torch import Tensor

from ppo_trainer.learner.step_metrics import joined
from ppo_trainer.machine.ranks import Ranks

__all__ = ["add_up", "nothing_measured"]


def add_up(
    ranks: Ranks, parameters: Iterable[Tensor], measured: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Add up the gradients of all processes, in each process, and return the sums of numbers.

    The losses of each process are its part of those of the whole minibatch (``Objective.losses``),
    so that the sum equals the gradient that one process would have computed.

    Args:
        ranks: The processes.
        parameters: Parameters whose gradients are replaced. A parameter without a gradient in every
            process gets none, so that the optimizer skips it.
        measured: Numbers of this process by name, in the same order in each process.
    """
    if ranks.is_alone:
        return dict(measured)
    own, numbers = list(parameters), torch.stack(list(measured.values()))
    has_one = numbers.new_tensor([one.grad is not None for one in own])
    # One message for all tensors, because each message takes up to a millisecond.
    flat = ranks.add(torch.cat([has_one, numbers, *(_gradient(one).reshape(-1) for one in own)]))
    counts, sums, *parts = torch.split(flat, [len(own), len(numbers), *map(torch.numel, own)])
    for one, part, count in zip(own, parts, counts.tolist(), strict=True):
        one.grad = part.view_as(one) if count else None
    found = dict(zip(measured, sums.unbind(), strict=True))
    if extremes := [name for name in measured if name.endswith((".min", ".max"))]:
        shares = ranks.stacked(torch.stack([measured[name] for name in extremes])).unbind(1)
        for name, every in zip(extremes, shares, strict=True):
            found[name] = reduce(partial(joined, name), every)
    return found


def nothing_measured(names: Sequence[str], like: Tensor) -> dict[str, Tensor]:
    """Return zeros for the numbers of a process without frames in a minibatch."""
    ends = {".min": float("inf"), ".max": float("-inf")}
    return {name: like.new_tensor(ends.get(name[-4:], 0.0)) for name in names}


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
