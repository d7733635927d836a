"""Copies to another device that do not wait for it, and float32 under autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from entity_env.errors import DeviceError, shorten

__all__ = ["device_named", "full_precision", "send"]


def device_named(device: torch.device | str) -> torch.device:
    """Return the device with a name.

    Raises:
        DeviceError: The name is unknown, or torch does not find the device.
    """
    if isinstance(device, torch.device):
        return device
    try:
        found = torch.device(device)
        if found.type not in ("cpu", "cuda", "meta"):
            torch.empty(0, device=found)  # many kinds of devices need a special build of torch
    except Exception as error:
        raise DeviceError(
            "unknown device", expected="a torch.device, cpu, cuda, cuda:1", received=shorten(device)
        ) from error
    here = torch.cuda.device_count() if found.type == "cuda" else 1
    if found.type == "cuda" and (found.index or 0) >= here:
        raise DeviceError(
            f"torch finds no device {device!r}", expected=f"cpu, or one of {here} GPUs"
        )
    return found


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return ``tensor`` on ``device``; copies to CUDA, from page-locked memory, do not wait.

    Copies to the CPU wait, because they would be read too early otherwise. So do copies to other
    devices, which could read memory that has been freed.
    """
    device = torch.device(device)
    if device.type not in ("cuda", "meta"):
        return tensor.to(device)
    if tensor.device.type == "cpu" and device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on the device of ``x``."""
    kind = x.device.type
    # Only if necessary, because entering and leaving takes as long as a few small layers.
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else _NOTHING


_NOTHING: AbstractContextManager[object] = nullcontext()
