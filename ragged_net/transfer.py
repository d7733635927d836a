"""Copies to another device that the program does not wait for."""

from __future__ import annotations

import torch
from torch import Tensor

from ragged_net.errors import DeviceError, shown

__all__ = ["device_named", "send"]


def device_named(device: torch.device | str) -> torch.device:
    """Return the device of that name.

    Raises:
        DeviceError: No name of a device, or a GPU that is not there.
    """
    if isinstance(device, torch.device):
        return device
    try:
        found = torch.device(device)
        if found.type not in ("cpu", "cuda", "meta"):
            torch.empty(0, device=found)  # many kinds need a build of torch of their own
    except Exception as error:
        raise DeviceError(
            "unknown device", expected="a torch.device, cpu, cuda, cuda:1", received=shown(device)
        ) from error
    here = torch.cuda.device_count() if found.type == "cuda" else 1
    if found.type == "cuda" and (found.index or 0) >= here:
        raise DeviceError(
            f"torch finds no device {device!r}", expected=f"cpu, or one of {here} GPUs"
        )
    return found


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return ``tensor`` on ``device``; to a CUDA device from page-locked memory, without waiting.

    Towards the CPU it waits: a copy that is still under way would be read too early. So it does for
    other kinds of devices, which would read ordinary memory that may be freed meanwhile.
    """
    device = torch.device(device)
    if device.type not in ("cuda", "meta"):
        return tensor.to(device)
    if tensor.device.type == "cpu" and device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
