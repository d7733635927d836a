"""Compile kernels once, and again when any of them changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

from entity_env.storage.kernel_cache import announce_compiling, folder_digest, keep_compiled

__all__ = ["is_cached", "is_kept", "kernel"]


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` with Numba, without the GIL, and keep the result on disk.

    Numba's cache notices changes of the function's own file only. A kernel contains those that it
    calls, from other files: without more it would go on running their old versions.
    """
    try:
        compiled: Any = njit(cache=True, nogil=True, no_cfunc_wrapper=True)(function)
        keep_compiled(compiled, folder_digest(Path(__file__).parent))
        kept = True
    except (AttributeError, RuntimeError):
        # Another version of Numba, or no folder to write to: compile anew in each process.
        compiled, kept = njit(nogil=True)(function), False
    announce_compiling(compiled, "the network", "10 to 40 seconds", kept=kept)
    return compiled


def is_kept(compiled: Any) -> bool:
    """Return True if what ``kernel`` made is kept on disk once it is compiled."""
    return hasattr(getattr(compiled, "_cache", None), "_cache_file")


def is_cached(compiled: Any) -> bool:
    """Return True if a compiled kernel for this kind of processor is on disk."""
    try:
        processor = compiled.targetctx.codegen().magic_tuple()
        return any(key[1] == processor for key in compiled._cache._cache_file._load_index())
    except (AttributeError, OSError):
        return False
