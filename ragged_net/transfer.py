"""Copies to another device that the program does not wait for."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["send"]


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """``tensor`` on ``device``: to a CUDA device from page-locked memory, without waiting.

    Towards the CPU it waits: a copy that is still under way would be read too early. So it does for
    other kinds of devices, which would read ordinary memory that may be freed meanwhile.
    """
    device = torch.device(device)
    if device.type not in ("cuda", "meta"):
        return tensor.to(device)
    if tensor.device.type == "cpu" and device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
