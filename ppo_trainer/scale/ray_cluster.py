"""The cluster of Ray of a run, and explanations of Ray's errors."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

from entity_env.errors import EntityEnvError, SettingError
from entity_env.workers.interpreter import python_path
from ppo_trainer.config import ScaleConfig
from ppo_trainer.machine.device import cores
from ppo_trainer.machine.ranks import LONE, Ranks

__all__ = ["SECONDS_OF_HEAD", "check_head", "open_ray", "results", "why_lost"]

_LESS_MEMORY = "lower scale.networks or rollout.num_envs"
_NO_MEMORY = ("MemoryError", "allocate memory", "bad_alloc")
"""Parts of out-of-memory errors of Python, torch and C++."""
_SECONDS, _SECONDS_IF_BUSY = 12.0, 60.0
"""Seconds in which a cluster must answer, and in which a busy machine must have started one."""
_AUTH_MODE = "RAY_AUTH_MODE"

SECONDS_OF_HEAD = 5.0
"""Seconds between two checks that the head of the cluster answers."""


@contextmanager
def open_ray(scale: ScaleConfig, processes: int, ranks: Ranks = LONE) -> Iterator[Any]:
    """Open a cluster of Ray, or join the one that this program has opened.

    Of several processes of ``torchrun``, the first opens the cluster, and the others join it.

    Args:
        scale: Settings.
        processes: Number of processes that will be started there by all ranks.
        ranks: The processes that use the cluster.

    Raises:
        SettingError: Ray is not installed, or its cluster has too few cores.
    """
    address = given = scale.address or os.environ.get("RAY_ADDRESS")
    if not ranks.is_first:
        address, mode = ranks.of_first(None)
        if mode is not None:  # Ray chooses it for a new cluster, and joining needs the same
            os.environ.setdefault(_AUTH_MODE, mode)
    _set_variables(scale, address)
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
        _begin(cluster, address, [] if given is None else _modules_of_user(), ended)
    try:
        there = cluster.cluster_resources().get("CPU", 0.0)
        if processes * scale.cpus > there:
            raise SettingError(
                f"{processes} processes of Ray want {processes * scale.cpus:g} cores",
                expected=f"at most {there:g}",
                hint="lower scale.worlds and scale.networks, or set "
                f"scale.cpus={there / processes:.2g}",
            )
        if ranks.is_first:
            ranks.of_first([_head(cluster), os.environ.get(_AUTH_MODE)])
        yield cluster
        ranks.leave()
    finally:
        if begun:
            cluster.shutdown()
        ended.set()


def _set_variables(scale: ScaleConfig, address: str | None) -> None:
    """Set the environment variables of this process that Ray reads when it is imported."""
    tokens = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    if address is not None and (tokens or (Path.home() / ".ray" / "auth_token").exists()):
        # As ray start --head does, which refuses processes without the token.
        os.environ.setdefault(_AUTH_MODE, "token")
    # Ray ends a process that has had no head for so long; the run is saved before.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", f"{scale.timeout:.0f}")
    if address is None:  # at 15, as Ray sets it, workers starve beside other programs
        os.environ.setdefault("RAY_worker_niceness", "0")


def _modules_of_user() -> list[str]:
    """Return the imported modules and packages that are not installed, such as environments.

    Other machines do not have them. Modules of a virtual environment are installed there, too.
    """
    installed = {*packages_distributions(), *sys.stdlib_module_names, "__main__"}
    found = []
    for name in {name for name in sys.modules if "." not in name} - installed:
        spec = getattr(sys.modules[name], "__spec__", None)
        places = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin])]
        for place in filter(os.path.exists, filter(None, places)):
            if not any(map(Path(place).is_relative_to, (sys.prefix, sys.base_prefix))):
                found.append(os.path.abspath(place))
    return sorted(found)


def _begin(ray: Any, address: str | None, modules: Sequence[str], finished: Event) -> None:
    """Join the cluster at ``address``, or start one on this machine; ``modules`` are sent there.

    Ray tries for minutes, and its own handler of SIGTERM would end a run without saving. In a
    thread it installs none, and a signal ends the wait. The thread lives until ``finished`` is set,
    because Linux kills the processes that Ray starts when the thread that started them ends.

    Raises:
        SettingError: There is no cluster, or it does not answer in time.
    """
    if address is not None and (why := _unreachable(address)) is not None:
        raise _no_cluster(address, why)
    ended: Queue[BaseException | None] = Queue()
    # Processes of this machine must find the modules that this process finds.
    environment: dict[str, Any] = {"env_vars": {"PYTHONPATH": python_path()}}
    if modules:  # an empty list is an error
        environment["py_modules"] = list(modules)

    def begin() -> None:
        try:
            ray.init(
                address or "local",
                runtime_env=environment,
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
    if address is None and os.getloadavg()[0] > cores():
        patience = _SECONDS_IF_BUSY
    while time.monotonic() - since < patience:
        try:
            error = ended.get(timeout=0.1)
        except Empty:
            continue
        if error is None:
            return
        raise _no_cluster(address, _first_line(error)) from None
    raise _no_cluster(
        address, f"no answer within {patience:g} s; another version or token gets none"
    )


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


def _head(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)


def check_head(ray: Any) -> None:
    """Raise EntityEnvError if the head of the cluster does not answer."""
    for _ in range(3):
        if (why := _unreachable(_head(ray))) is None:
            return
        time.sleep(1.0)
    raise EntityEnvError(
        "the head of the cluster of Ray is lost",
        expected=f"an answer at {_head(ray)}",
        received=why,
        hint="start the cluster again",
    )


def results(ray: Any, calls: Sequence[Any]) -> Sequence[Any]:
    """Return the results of calls of worlds.

    Raises:
        EntityEnvError: A world has failed, or is lost.
    """
    while True:
        try:
            return ray.get(calls, timeout=SECONDS_OF_HEAD)  # type: ignore[no-any-return]
        except ray.exceptions.GetTimeoutError:
            check_head(ray)
        except ray.exceptions.RayError as error:
            check_head(ray)
            raise EntityEnvError(
                "a world that serves this process is lost", received=why_lost(ray, error)
            ) from error


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
    if isinstance(error, ray.exceptions.RuntimeEnvSetupError):
        return " ".join(str(error).split())
    reason = str(error).strip().splitlines()[0]
    # Neither a process that the kernel kills nor Ray learns the reason.
    return f"{reason} If nobody has ended it, its machine may be out of memory: {_LESS_MEMORY}"
