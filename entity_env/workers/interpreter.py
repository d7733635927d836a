"""Functions to start new Python processes, which share no locks with this one, unlike forks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["close_in_forks", "leave_signals_to_parent", "python_path", "start_python"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]


def python_path() -> str:
    """Return a ``PYTHONPATH`` with which another process finds the same modules."""
    # Import skips entries that are not strings, too.
    return os.pathsep.join(place or "." for place in sys.path if isinstance(place, str))


def start_python(code: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Run ``code`` in a new Python process that finds the same modules.

    Signals to end the process are held until it calls ``leave_signals_to_parent``.

    Args:
        code: The code to run.
        arguments: ``sys.argv[1:]`` of the process.
        options: Arguments of ``subprocess.Popen``.

    Raises:
        OSError: The process cannot be started.
    """
    with _signals_held():
        return subprocess.Popen(
            # -P, because PYTHONPATH has the working directory
            [sys.executable, "-P", "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": python_path()},
            **options,
        )


def leave_signals_to_parent() -> None:
    """Ignore Ctrl-C, SIGTERM and SIGHUP, which reach the whole group of processes.

    The parent process handles them, and ends this process afterwards.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def close_in_forks(connection: Connection[Any, Any]) -> None:
    """Close the copies of a connection in forks, so that the other side notices the end here."""
    _CONNECTIONS.add(connection)


_CONNECTIONS: weakref.WeakSet[Connection[Any, Any]] = weakref.WeakSet()


def _close_copies() -> None:
    for connection in list(_CONNECTIONS):
        connection.close()


if hasattr(os, "register_at_fork"):  # absent on systems without fork
    os.register_at_fork(after_in_child=_close_copies)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Hold signals in the block, and in processes started in it until they accept signals."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
