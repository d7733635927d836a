"""Starts fresh Python processes: unlike forks they share no locks with this one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["leave_signals_to_parent", "python_path", "start_python"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]


def python_path() -> str:
    """Return the ``PYTHONPATH`` with which another Python finds the modules that this one finds."""
    # As import does, which skips what is no string.
    return os.pathsep.join(place or "." for place in sys.path if isinstance(place, str))


def start_python(code: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Run ``code`` in a Python that finds the modules that this one finds.

    Signals that ask for its end wait until it calls ``leave_signals_to_parent``.

    Args:
        code: What it runs.
        arguments: Its ``sys.argv[1:]``.
        options: Those of ``subprocess.Popen``.

    Raises:
        OSError: It cannot be started.
    """
    with _signals_held():
        return subprocess.Popen(
            [sys.executable, "-P", "-c", code, *arguments],  # -P: the working directory is in it
            env={**os.environ, "PYTHONPATH": python_path()},
            **options,
        )


def leave_signals_to_parent() -> None:
    """Ignore Ctrl-C, SIGTERM and SIGHUP, which reach the whole group of processes.

    They are for the one that has started this one, and ends it when it is done.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Hold signals within, and in a process that is started until it lets them through."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
