"""Torch on this machine: devices, threads, memory, global state, and compilation."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

import torch

from entity_env import VecEnv
from entity_env.errors import DeviceError
from ppo_trainer.config import TrainConfig
from ppo_trainer.machine.compile_ahead import compiling_ahead
from ppo_trainer.machine.ranks import local_rank
from ppo_trainer.machine.screen import log
from ppo_trainer.settings.device_names import check_device_name, devices_here
from ragged_net import kernels, set_threads
from ragged_net.compiled import autograd as compiled

__all__ = [
    "choose_device",
    "compiling",
    "cores",
    "default_torch_state",
    "explained_memory",
    "has_bfloat16",
    "keep_freed_memory",
    "use_threads",
]


def choose_device(name: str) -> torch.device:
    """Return the device of a name; ``auto`` is a GPU if there is one, else the CPU.

    Each rank of ``torchrun`` gets a GPU of its own.

    Raises:
        DeviceError: The name is not that of a device, or this machine does not have the GPU.
    """
    check_device_name(name, DeviceError, "unknown device")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            "device=cuda, but torch finds no GPU",
            received=f"torch {torch.__version__}, built for CUDA {torch.version.cuda}",
            hint="device=auto takes the CPU if there is no GPU",
        )
    rank = local_rank()
    if name == "cuda" and rank is not None:  # each rank has its own GPU
        name = f"cuda:{rank}"
    number = name.partition(":")[2]
    if number and int(number) >= (torch.cuda.device_count() if torch.cuda.is_available() else 0):
        raise DeviceError(
            f"device={name}, but torch finds no such GPU",
            expected=devices_here(),
            received=f"torch {torch.__version__}, built for CUDA {torch.version.cuda}",
        )
    return torch.device(name)


@functools.cache
def has_bfloat16(device: torch.device) -> bool:
    """Return True if a device computes in bfloat16; print a line the first time it does not."""
    if device.type != "cuda" or torch.version.hip is not None:
        return True
    found = torch.cuda.get_device_capability(device) >= (8, 0)
    if not found:
        log(f"{torch.cuda.get_device_name(device)} has no bfloat16: float32 is used")
    return found


@contextmanager
def explained_memory(what: str, setting: str) -> Iterator[None]:
    """Turn an out-of-memory error of the GPU into one that names the setting to lower.

    Args:
        what: Purpose of the memory, for the message.
        setting: Name of the setting.

    Raises:
        DeviceError: The GPU has too little memory.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise DeviceError(
            f"the GPU has too little memory for {what}",
            received=str(error).splitlines()[0],
            hint=f"lower {setting}",
        ) from error


def use_threads(config: TrainConfig, device: torch.device) -> None:
    """Let the network use ``config.threads`` threads of the CPU: those of the kernels, or of torch.

    Never both, because torch's threads keep their cores busy while they wait.
    """
    threads, are_compiled = config.threads or cores(), _blocks_are_compiled(config, device)
    set_threads(threads if are_compiled else 1)
    torch.set_num_threads(1 if are_compiled else threads)


def compiling(
    config: TrainConfig, vec_env: VecEnv, device: torch.device
) -> AbstractContextManager[None]:
    """Let another process help compiling the network during the block, where possible."""
    if not _blocks_are_compiled(config, device) or not kernels.need_compiling():
        return nullcontext()
    if not kernels.are_kept() or cores() == 1:
        return nullcontext()
    spaces = vec_env.obs_space(), vec_env.action_space()
    return compiling_ahead(*spaces, config.net, config.value_config)


def _blocks_are_compiled(config: TrainConfig, device: torch.device) -> bool:
    return (
        device.type == "cpu"
        and kernels.available()
        and config.precision == "float32"
        and all(
            net.fused and compiled.widths_fit(net.dim, net.heads)
            for net in (config.net, config.value_config or config.net)
        )
    )


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""
_LIMIT = 1 << 30


def keep_freed_memory() -> bool:
    """Let malloc keep blocks of up to 1 GiB, and up to 1 GiB of free memory.

    A gradient step allocates and frees the same large tensors as the one before it. By default
    glibc maps such blocks again each time, and the operating system fills each page with zeros,
    which takes more than a tenth of a training step. The environment variables
    MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ have the same effect if they are set before
    the process starts.

    Returns:
        True if the C library supports these settings.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # not glibc
        return False
    return all(mallopt(option, _LIMIT) == 1 for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))


@contextmanager
def default_torch_state() -> Iterator[None]:
    """Give torch its default settings within a context or decorated function.

    New tensors are float32 on the CPU, gradients are enabled, and autocast is off, for environments
    in this process, too. Numbers that are drawn from torch's own CPU generator do not advance it
    for the caller.
    """
    dtype = torch.get_default_dtype()
    with ExitStack() as usual:
        if torch.get_default_device().type != "cpu":  # setting it slows down all operations
            usual.enter_context(torch.device("cpu"))
        usual.enter_context(torch.inference_mode(False))
        usual.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                usual.enter_context(torch.autocast(kind, enabled=False))
        usual.enter_context(torch.random.fork_rng(devices=[]))
        torch.set_default_dtype(torch.float32)
        usual.callback(torch.set_default_dtype, dtype)
        yield
