"""What all heads begin with: small or orthogonal weights, and float32 under autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

__all__ = ["full_precision", "orthogonal"]


def orthogonal(fan_in: int, fan_out: int, gain: float) -> nn.Linear:
    """A linear layer with orthogonal weights of a ``gain``, and biases of 0."""
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Switches autocast off: half precision is too coarse for log-probabilities and values."""
    kind = x.device.type
    # Entering and leaving takes as long as a few small layers, so only where it matters.
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else _NOTHING


_NOTHING: AbstractContextManager[object] = nullcontext()
