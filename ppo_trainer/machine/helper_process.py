"""Helper processes, which get a pickled task and end with the process that started them."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from typing import IO, Any

import torch

from entity_env.workers.interpreter import leave_signals_to_parent, start_python

__all__ = ["read_task", "start_helper"]


def start_helper(
    code: str,
    task: bytes,
    errors: int | IO[bytes] | None = subprocess.DEVNULL,
    output: int | None = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Run ``code`` in another process, which calls ``read_task``.

    Args:
        code: Python code.
        task: Pickled task.
        errors: File for stderr of the process; None for that of this process.
        output: File for stdout of the process; None for that of this process.

    Raises:
        OSError: The process cannot be started.
    """
    process = start_python(code, stdin=subprocess.PIPE, stdout=output, stderr=errors)
    assert process.stdin is not None  # stays open until this process ends for whatever reason
    with contextlib.suppress(OSError):  # the process has ended already
        process.stdin.write(task)
        process.stdin.flush()
    return process


def read_task() -> Any:
    """Return the task of this helper process, which uses one thread and ends with its parent."""
    leave_signals_to_parent()
    task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    return task


def _end_with_parent() -> None:
    # Open as long as the parent lives; not read through Python's buffer, which locks it.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)
