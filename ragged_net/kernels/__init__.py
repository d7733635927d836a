"""Numba kernels for the CPU: index arithmetic, matrix products, attention, transformer blocks.

Importing this needs no Numba; the modules in it do, and are loaded when they are first used.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from types import ModuleType

__all__ = ["available", "load", "need_compiling"]


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


def need_compiling() -> bool:
    """Whether the first use will take some seconds: nothing in Numba's cache fits these kernels."""
    if not available():
        return False
    path = Path(load("block").block_backward.stats.cache_path)
    newest = max(source.stat().st_mtime for source in Path(__file__).parent.glob("*.py"))
    cached = [file.stat().st_mtime for file in path.glob("block.block_backward-*.nbi")]
    return not cached or max(cached) < newest
