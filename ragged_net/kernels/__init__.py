"""Numba kernels for the CPU: index arithmetic, matrix products, attention, transformer blocks.

Importing this needs no Numba; the modules in it do, and are loaded when they are first used.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

__all__ = ["available", "load"]


@functools.cache
def available() -> bool:
    """Whether Numba can be imported; without it everything runs in plain torch."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


@functools.cache
def load(name: str) -> ModuleType:
    """A module of kernels."""
    return importlib.import_module(f"ragged_net.kernels.{name}")
