"""Starts fresh Python processes: unlike forks they share no locks with this one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

__all__ = ["start_python"]


def start_python(code: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Run ``code`` in a Python that finds the modules that this one finds.

    Args:
        code: What it runs.
        arguments: Its ``sys.argv[1:]``.
        options: Those of ``subprocess.Popen``.

    Raises:
        OSError: It cannot be started.
    """
    # As here: -P keeps the working directory out, and import skips what is no string.
    path = [place or "." for place in sys.path if isinstance(place, str)]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        **options,
    )
