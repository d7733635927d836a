"""Full precision: a context for computations that need float32 under autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

__all__ = ["full_precision"]


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on the device of ``x``."""
    kind = x.device.type
    # Only if necessary, because entering and leaving takes as long as a few small layers.
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else _NOTHING


_NOTHING: AbstractContextManager[object] = nullcontext()
