"""How kernels are compiled: once, and again when any of them changes."""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

__all__ = ["is_cached", "is_kept", "kernel"]


def _sources() -> str:
    """A digest of all kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _sources()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` with Numba, without the GIL, and keep the result on disk.

    Numba's cache notices changes of the function's own file only. A kernel contains those that it
    calls, from other files: without more it would go on running their old versions.
    """
    try:
        compiled = njit(cache=True, nogil=True, no_cfunc_wrapper=True)(function)
        file = compiled._cache._cache_file
        file._source_stamp = (*file._source_stamp, _SOURCES)
        compiled._cache.save_overload = _kept_where_it_can(compiled._cache.save_overload)
        compiled.compile = _uncollected(compiled.compile)
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


def _uncollected(compile_kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Without the garbage collector, which would look at all that Numba makes, and find nothing."""

    @functools.wraps(compile_kernel)
    def compiled(*args: Any) -> Any:
        collects = gc.isenabled()
        gc.disable()
        try:
            return compile_kernel(*args)
        finally:
            if collects:
                gc.enable()

    return compiled


def is_kept(compiled: Any) -> bool:
    """Whether what ``kernel`` made is kept on disk once it is compiled."""
    return hasattr(getattr(compiled, "_cache", None), "_cache_file")


def is_cached(compiled: Any) -> bool:
    """Whether a kernel that ``kernel`` made was compiled for this kind of processor before."""
    try:
        processor = compiled.targetctx.codegen().magic_tuple()
        return any(key[1] == processor for key in compiled._cache._cache_file._load_index())
    except (AttributeError, OSError):
        return False
