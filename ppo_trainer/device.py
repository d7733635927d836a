"""Where the network runs."""

from __future__ import annotations

import torch

from ppo_trainer.errors import DeviceError

__all__ = ["choose_device"]


def choose_device(name: str) -> torch.device:
    """``cpu``, ``cuda``, or with ``auto`` a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise DeviceError("unknown device", received=name, options=("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            "device=cuda, but torch finds no GPU",
            received=f"torch {torch.__version__}, built for CUDA {torch.version.cuda}",
            hint="device=auto takes the CPU where there is no GPU",
        )
    return torch.device(name)
