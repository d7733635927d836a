"""A setting of malloc that keeps freed memory, which is soon needed again."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

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
