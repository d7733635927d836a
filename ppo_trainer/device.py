"""Where the network runs, and with how many threads."""

from __future__ import annotations

import os

import torch

from ppo_trainer.config import TrainConfig
from ppo_trainer.errors import DeviceError
from ragged_net import compiled, kernels, set_threads

__all__ = ["choose_device", "cores", "use_threads"]


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


def use_threads(config: TrainConfig, device: torch.device) -> None:
    """Give the network ``config.threads`` threads of the CPU: those of the kernels, or of torch.

    Never both, for torch's keep their cores busy while they wait.
    """
    threads, nets = config.threads or cores(), [config.net, config.value_net or config.net]
    are_compiled = (
        device.type == "cpu"
        and kernels.available()
        and config.precision == "float32"
        and all(net.fused and compiled.widths_fit(net.dim, net.heads) for net in nets)
    )
    set_threads(threads if are_compiled else 1)
    torch.set_num_threads(1 if are_compiled else threads)


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
