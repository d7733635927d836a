"""Copies to another device that the program does not wait for."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["send"]


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """``tensor`` on ``device``: to a GPU from page-locked memory, while the program goes on.

    Towards the CPU it waits: a copy that is still under way would be read too early.
    """
    device = torch.device(device)
    if device.type == "cpu":
        return tensor.to(device)
    if tensor.device.type == "cpu" and device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
