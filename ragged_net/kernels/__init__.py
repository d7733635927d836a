"""Numba kernels for the CPU: index arithmetic, matrix products, attention, transformer blocks.

Importing this needs no Numba; the modules in it do, and are loaded when they are first used.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

__all__ = ["available", "load", "need_compiling"]


@functools.cache
def available() -> bool:
    """Whether Numba is there and compiles; without it everything runs in plain torch."""
    try:
        import numba
    except ImportError:
        return False
    return not numba.config.DISABLE_JIT


@functools.cache
def load(name: str) -> ModuleType:
    """A module of kernels."""
    return importlib.import_module(f"ragged_net.kernels.{name}")


def need_compiling() -> bool:
    """Whether the first use in this process will take 10 to 40 seconds."""
    return available() and not load("jit").is_cached(load("block").block_backward)
