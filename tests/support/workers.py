"""Functions of the tests of worker processes."""

from __future__ import annotations

import os
import time


def pids(env):
    """The process ids of the workers of a ``ParallelEnv`` or an ``AsyncEnv``."""
    return [worker._process.pid for worker in env._workers]


def collected(pid):
    """Return True if a child is neither running nor a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(condition, seconds=20.0):
    """Poll ``condition``; the limit only bounds how long a failure takes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
