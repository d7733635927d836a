"""What all heads begin with: layers of orthogonal weights."""

from __future__ import annotations

from torch import nn

__all__ = ["orthogonal"]


def orthogonal(fan_in: int, fan_out: int, gain: float) -> nn.Linear:
    """A linear layer with orthogonal weights of a ``gain``, and biases of 0."""
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
