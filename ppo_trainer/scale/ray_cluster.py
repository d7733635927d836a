"""The cluster of Ray of a run, and explanations of Ray's errors."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

from entity_env.errors import SettingError
from entity_env.workers.interpreter import python_path
from ppo_trainer.config import ScaleConfig
from ppo_trainer.machine.device import cores

__all__ = ["open_ray", "why_lost"]

_LESS_MEMORY = "lower scale.networks or rollout.num_envs"
_NO_MEMORY = ("MemoryError", "allocate memory", "bad_alloc")
"""Parts of out-of-memory errors of Python, torch and C++."""
_SECONDS, _SECONDS_IF_BUSY = 12.0, 60.0
"""Seconds in which a cluster must answer, and in which a busy machine must have started one."""


@contextmanager
def open_ray(scale: ScaleConfig, processes: int, address: str | None = None) -> Iterator[Any]:
    """Open a cluster of Ray, or join the one that this program has opened.

    Args:
        scale: Settings.
        processes: Number of processes that will be started there.
        address: Address of the cluster; None for that of the settings.

    Raises:
        SettingError: Ray is not installed, or its cluster has too few cores.
    """
    try:
        import ray
    except ImportError as error:
        raise SettingError(
            f"scale.mode={scale.mode} needs Ray", hint="pip install 'ragged-rl[ray]'"
        ) from error
    cluster: Any = ray
    begun = not cluster.is_initialized()
    ended = Event()
    if begun:
        _begin(cluster, address or scale.address, ended)
    try:
        there = cluster.cluster_resources().get("CPU", 0.0)
        if processes * scale.cpus > there:
            raise SettingError(
                f"{processes} processes of Ray want {processes * scale.cpus:g} cores",
                expected=f"at most {there:g}",
                hint="lower scale.worlds and scale.networks, or set "
                f"scale.cpus={there / processes:.2g}",
            )
        yield cluster
    finally:
        if begun:
            cluster.shutdown()
        ended.set()


def _begin(ray: Any, address: str | None, finished: Event) -> None:
    """Join the cluster at ``address``, or start one on this machine.

    Ray tries for minutes, and its own handler of SIGTERM would end a run without saving. In a
    thread it installs none, and a signal ends the wait. The thread lives until ``finished`` is set,
    because Linux kills the processes that Ray starts when the thread that started them ends.

    Raises:
        SettingError: There is no cluster, or it does not answer in time.
    """
    where = address or os.environ.get("RAY_ADDRESS")
    if where is not None and (why := _unreachable(where)) is not None:
        raise _no_cluster(where, why)
    ended: Queue[BaseException | None] = Queue()

    def begin() -> None:
        try:
            # Its processes must find the modules that this process finds, such as environments.
            ray.init(
                address,
                runtime_env={"env_vars": {"PYTHONPATH": python_path()}},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)
            finished.wait()

    Thread(target=begin, daemon=True).start()
    since, patience = time.monotonic(), _SECONDS
    if where is None and os.getloadavg()[0] > cores():
        patience = _SECONDS_IF_BUSY
    while time.monotonic() - since < patience:
        try:
            error = ended.get(timeout=0.1)
        except Empty:
            continue
        if error is None:
            return
        raise _no_cluster(where, _first_line(error)) from None
    raise _no_cluster(where, f"no answer within {patience:g} s; another version or token gets none")


def _unreachable(address: str) -> str | None:
    """Return the reason why nothing listens at HOST:PORT, which Ray would try for long."""
    host, _, port = address.rpartition(":")
    if "/" in host or not port.isdecimal():  # auto, or a form of address that only Ray knows
        return None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5.0):
            return None
    except (OSError, OverflowError, UnicodeError) as error:
        return f"{type(error).__name__}: {error}"


def _no_cluster(address: str | None, why: str) -> SettingError:
    """Return the error of a cluster that does not exist, does not answer, or refuses."""
    if address is None:
        return SettingError(
            "Ray does not start on this machine",
            received=why,
            hint="ray start --head starts it by hand and says more; then use scale.address=auto",
        )
    return SettingError(
        f"no cluster of Ray can be joined at scale.address={address}",
        expected="a cluster that ray start --head has begun on one machine, and "
        "ray start --address=HOST:6379 has joined on this one",
        received=why,
        hint="scale.address=null starts Ray on this machine only; all machines need the same "
        "version of Ray and the same token (RAY_AUTH_MODE, ~/.ray/auth_token)",
    )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


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
