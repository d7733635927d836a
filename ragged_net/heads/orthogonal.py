"""Linear layers with orthogonal initial weights, which all heads use."""

from __future__ import annotations

from torch import nn

__all__ = ["POLICY_GAIN", "orthogonal"]

# Nearly uniform initial policies explore best (Andrychowicz et al. 2021, "What matters for
# on-policy deep actor-critic methods").
POLICY_GAIN = 0.01


def orthogonal(fan_in: int, fan_out: int, gain: float) -> nn.Linear:
    """Return a linear layer with orthogonal weights of a ``gain``, and biases of 0."""
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
