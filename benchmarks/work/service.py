"""The dispatching service: requests in a second, and how long an answer takes.

It runs ``examples/dispatch_service.py`` in a process of its own; clients ask about shops of so many
jobs and machines, one question after the other.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

__all__ = ["add_arguments", "run"]

SERVICE = Path(__file__).parents[2] / "examples" / "dispatch_service.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run")
    parser.add_argument("--clients", nargs="*", type=int, default=[1, 4, 16])
    parser.add_argument("--sizes", nargs="*", default=["10x5", "50x15"])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each line")


def run(given: argparse.Namespace) -> None:
    """Print a line for each size and number of clients."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = subprocess.Popen([sys.executable, str(SERVICE), given.run, "--port", str(port)])
    try:
        _wait_for(port, service)
        print("jobs x machines | clients | requests/s | p50 ms | p99 ms")
        for size in given.sizes:
            jobs, machines = map(int, size.split("x"))
            body = json.dumps(_plan(jobs, machines))
            _ask(port, body, time.perf_counter() + 1.0)
            for clients in given.clients:
                times = _load(port, body, clients, given.seconds)
                p50, p99 = (1000 * np.percentile(times, q) for q in (50, 99))
                rate = len(times) / given.seconds
                print(f"{size} | {clients} | {rate:.0f} | {p50:.1f} | {p99:.1f}", flush=True)
    finally:
        service.terminate()
        service.wait()


def _plan(jobs: int, machines: int) -> dict[str, object]:
    """Return a shop at its beginning."""
    rng = np.random.default_rng(1)
    return {
        "machines": {f"m{i}": 0 for i in range(machines)},
        "jobs": [
            {
                "name": f"job {i}",
                "operations": [
                    [f"m{m}", int(rng.integers(1, 100))] for m in rng.permutation(machines)
                ],
            }
            for i in range(jobs)
        ],
    }


def _wait_for(port: int, service: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if service.poll() is not None:
            raise SystemExit("the service has ended: pip install 'ragged-rl[serve]'")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise SystemExit("the service does not answer")


def _load(port: int, body: str, clients: int, seconds: float) -> list[float]:
    """Return the seconds of each answer, with several clients that ask at once."""
    times: list[list[float]] = [[] for _ in range(clients)]
    until = time.perf_counter() + seconds

    def ask(own: list[float]) -> None:
        own += _ask(port, body, until)

    threads = [threading.Thread(target=ask, args=(own,)) for own in times]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [one for own in times for one in own]


def _ask(port: int, body: str, until: float) -> list[float]:
    connection, times = http.client.HTTPConnection("127.0.0.1", port), []
    while time.perf_counter() < until:
        begun = time.perf_counter()
        connection.request("POST", "/next", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"the service answered {answer.status}: {text[:200]!r}")
        times.append(time.perf_counter() - begun)
    connection.close()
    return times
