"""Greedy choices of actors that are alike.

Actors of a frame with equal observations have equal most likely choices, so that they would stay
together for ever. Greedy play therefore divides them among the choices in proportion to their
probabilities, by systematic sampling: the j-th of k takes the choice at the quantile (j + 1/2) / k
of their common distribution, the most likely choices first. Nothing is drawn.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ragged_net.actors import Pairs

__all__ = ["choice_at", "pair_at", "quantiles_of_alike"]

ALIKE = 0.03
"""Actors are alike if their probabilities of the same choice differ by less than this."""


@torch.no_grad()
def quantiles_of_alike(frames: Tensor, chosen: Tensor, log_prob: Tensor) -> Tensor | None:
    """Return the quantile of each actor, 0 unless others are alike; None if no actors are.

    Args:
        frames: Frame of each actor, ascending. Shape: (A,), int64.
        chosen: The most likely choice. Shape: (A,), int64.
        log_prob: Its log-probability. Shape: (A,), float32.
    """
    if not (frames.diff() == 0).any():  # without sorting, which takes 0.1 ms for a single actor
        return None
    prob = log_prob.exp()
    order = prob.argsort(stable=True)
    order = order[chosen[order].argsort(stable=True)]
    order = order[frames[order].argsort(stable=True)]
    prob = prob[order]
    alike = prob.diff() < ALIKE
    for numbers in (frames, chosen):
        alike &= numbers[order].diff() == 0
    if not alike.any():
        return None
    starts, _ = _groups(alike)
    # Neighbours may be alike although the first and the last are not: then the range is cut up.
    alike &= ((prob - prob[starts]) / ALIKE).floor().diff() == 0
    starts, sizes = _groups(alike)
    places = torch.arange(len(order), device=order.device) - starts
    quantiles = torch.where(sizes > 1, (places + 0.5) / sizes, 0.0)
    return torch.empty_like(quantiles).index_copy_(0, order, quantiles)


def _groups(same: Tensor) -> tuple[Tensor, Tensor]:
    """Return the place of the first member of each one's group, and the size of the group.

    Args:
        same: True where a member and the next one are in one group. Shape: (A - 1,).
    """
    group = torch.cat([same.new_zeros(1, dtype=torch.int64), (~same).cumsum(0)])
    sizes = group.bincount()
    return (sizes.cumsum(0) - sizes)[group], sizes[group]


@torch.no_grad()
def choice_at(quantiles: Tensor, probs: Tensor) -> Tensor:
    """Return choices (A,) int64 at quantiles (A,) of probabilities (A, C), the largest first."""
    largest, order = probs.sort(dim=1, descending=True, stable=True)
    place = (largest.cumsum(1) < quantiles[:, None]).sum(1, keepdim=True)
    # A sum of probabilities may end below 1, and that of NaN ends nowhere.
    last = ((probs > 0).sum(1, keepdim=True) - 1).clamp_min(0)
    return order.gather(1, place.minimum(last)).squeeze(1)


@torch.no_grad()
def pair_at(quantiles: Tensor, log_probs: Tensor, pairs: Pairs) -> Tensor:
    """Return pairs (A,) int64 at quantiles (A,) of log-probabilities (P,), the largest first."""
    order = log_probs.argsort(descending=True, stable=True)
    order = order[pairs.actor[order].argsort(stable=True)]
    probs = log_probs[order].double().exp().nan_to_num()
    sums = probs.cumsum(0)
    starts = pairs.first(torch.ones_like(pairs.actor, dtype=torch.bool))
    before = (sums - probs).index_select(0, starts)
    ends = torch.cat([starts[1:] - 1, starts.new_tensor([len(order) - 1])])
    # The part of an actor's probabilities that are rounded to a sum near 1.
    wanted = before + quantiles * (sums.index_select(0, ends) - before)
    return order[pairs.first(sums >= wanted.index_select(0, pairs.actor))]
