"""The cluster of Ray of a run, and explanations of Ray's errors."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from entity_env.workers.interpreter import python_path
from ppo_trainer.config import ScaleConfig
from ppo_trainer.errors import ConfigError

__all__ = ["open_ray", "why_lost"]

_LESS_MEMORY = "lower scale.networks or rollout.num_envs"
_NO_MEMORY = ("MemoryError", "allocate memory", "bad_alloc")
"""Parts of out-of-memory errors of Python, torch and C++."""


@contextmanager
def open_ray(scale: ScaleConfig, processes: int, address: str | None = None) -> Iterator[Any]:
    """Open a cluster of Ray, or join the one that this program has opened.

    Args:
        scale: Settings.
        processes: Number of processes that will be started there.
        address: Address of the cluster; None for that of the settings.

    Raises:
        ConfigError: Ray is not installed, or its cluster has too few cores.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            f"scale.mode={scale.mode} needs Ray", hint="pip install 'ragged-rl[ray]'"
        ) from error
    cluster: Any = ray
    begun = not cluster.is_initialized()
    if begun:
        with _same_handler(signal.SIGTERM):
            # Its processes must find the modules that this process finds, such as environments.
            cluster.init(
                address or scale.address,
                runtime_env={"env_vars": {"PYTHONPATH": python_path()}},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    try:
        there = cluster.cluster_resources().get("CPU", 0.0)
        if processes * scale.cpus > there:
            raise ConfigError(
                f"{processes} processes of Ray want {processes * scale.cpus:g} cores",
                expected=f"at most {there:g}",
                hint="lower scale.worlds and scale.networks, or set "
                f"scale.cpus={there / processes:.2g}",
            )
        yield cluster
    finally:
        if begun:
            cluster.shutdown()


@contextmanager
def _same_handler(number: int) -> Iterator[None]:
    """Restore the handler of a signal, because Ray installs one that ends a run without saving."""
    handler = signal.getsignal(number)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


def why_lost(ray: Any, error: Exception) -> str:
    """Return the reason why a process of Ray failed or was lost, with a remedy if it is memory."""
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return f"its machine is out of memory: {_LESS_MEMORY}"
    if isinstance(error, ray.exceptions.RayTaskError):
        text = f"{type(error.cause).__name__}: {error.cause}"
        is_memory = any(sign in text for sign in _NO_MEMORY)
        return f"{text}; it is out of memory: {_LESS_MEMORY}" if is_memory else text
    reason = str(error).strip().splitlines()[0]
    # Neither a process that the kernel kills nor Ray learns the reason.
    return f"{reason} If nobody has ended it, its machine may be out of memory: {_LESS_MEMORY}"
