"""A running average of a network's weights, which converges where self-play cycles."""

from __future__ import annotations

import copy

import torch

from ragged_net import RaggedNet

__all__ = ["follow", "frozen_copy"]

_POWER = 7
"""Exponent p: update k has the weight k^p, so that most of it is in the last fifth of updates."""


def frozen_copy(net: RaggedNet) -> RaggedNet:
    """Return a copy of a network without gradients."""
    return copy.deepcopy(net).requires_grad_(False)


@torch.no_grad()
def follow(average: RaggedNet, net: RaggedNet, update: int) -> None:
    """Move ``average`` towards ``net``, in place.

    Polynomial-decay averaging: the weight of the newest network is ``(p + 1) / (update + p)``.
    Input statistics are copied from ``net``.

    Args:
        average: Average of the earlier networks.
        net: Network after ``update`` updates.
        update: Number of updates, at least 1.

    Source:
        Shamir and Zhang, "Stochastic gradient descent for non-smooth optimization", 2013.
    """
    weight = (_POWER + 1) / (update + _POWER)
    for mean, newest in zip(average.parameters(), net.parameters(), strict=True):
        mean.lerp_(newest, weight)
    for kept, now in zip(average.buffers(), net.buffers(), strict=True):
        kept.copy_(now)
