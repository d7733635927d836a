"""How kernels are compiled: once, and again when any file of this package changes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from entity_env.collector import uncollected

__all__ = ["kernel"]


def _sources() -> str:
    """A digest of everything that a kernel here may contain."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _sources()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` with Numba, without the GIL, and keep the result on disk.

    Numba's cache notices changes of the function's own file only. A kernel contains the functions
    that it calls and the constants of the rules, from other files: without more it would go on
    playing by old rules. With ``NUMBA_DISABLE_JIT=1`` the function stays what it is.
    """
    try:
        compiled: Any = njit(cache=True, nogil=True)(function)
        if compiled is function:
            return _wrapping(function)
        file = compiled._cache._cache_file
        file._source_stamp = (*file._source_stamp, _SOURCES)
        compiled._cache.save_overload = _kept_where_it_can(compiled._cache.save_overload)
        # The collector would look at all that Numba makes, again and again, and find nothing.
        compiled.compile = uncollected(compiled.compile)
    except (AttributeError, RuntimeError):
        # Another version of Numba, or no folder to write to: compile anew in each process.
        return njit(nogil=True)(function)
    return compiled


def _kept_where_it_can(save: Callable[..., None]) -> Callable[..., None]:
    """On a full disk the result is compiled anew in each process."""

    @functools.wraps(save)
    def saved(*args: Any) -> None:
        with contextlib.suppress(OSError):
            save(*args)

    return saved


def _wrapping(function: Callable[..., Any]) -> Any:
    """Without compiling, NumPy warns where random numbers wrap around, as they should."""

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*args)

    return called
