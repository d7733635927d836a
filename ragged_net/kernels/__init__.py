"""Numba kernels for the CPU: index arithmetic, matrix products, attention, transformer blocks.

Importing this needs no Numba; the modules in it do, and are loaded when they are first used.

How to read one: arrays are flat float32, so that a row is a start and a stride, all counted in
numbers: ``x, x_start, rows, depth`` is a matrix in ``x`` from ``x_start`` on. Rows lie in the order
of the batch outside, and within a block in that of the plan, frames of one length together
(``plan.py``; ``sorted_`` or ``here`` say which). ``scratch`` is memory that a caller made once and
lends for nothing in particular. What Python calls is a ``@kernel`` (``jit.py``), the rest is
``@inner`` (``inner.py``); all products are made in ``tile.py``, all vectors in ``vector.py``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from types import ModuleType

import torch
from torch.autograd import forward_ad

__all__ = [
    "are_kept",
    "available",
    "for_any_sizes",
    "in_forward_mode",
    "in_torch_func",
    "is_wrapped",
    "load",
    "need_compiling",
    "plain_torch",
    "sizes_are_open",
    "torch_is_wanted",
]

_wanting_torch = _with_open_sizes = 0
# Torch has no public names for these.
_transformation: Callable[[], object] = getattr(
    getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None
)
is_wrapped: Callable[[torch.Tensor], bool] = getattr(
    getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda tensor: False
)
"""Return True if a tensor stands for others, as in ``torch.func``."""
_onlookers: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)


def available() -> bool:
    """Return True if kernels may run; without them everything runs in plain torch."""
    return not torch_is_wanted() and _can_compile()


def torch_is_wanted() -> bool:
    """Return True if somebody asks for plain torch, or traces, counts or fakes its operations."""
    # Written out, because it is asked before every kernel.
    return bool(
        _wanting_torch
        or _transformation() is not None
        or getattr(forward_ad, "_current_level", -1) >= 0
        or _onlookers()
        or torch.jit.is_tracing()
    )


def in_torch_func() -> bool:
    """Return True if ``torch.func`` transforms what runs: its tensors are no arrays of NumPy."""
    return _transformation() is not None


def in_forward_mode() -> bool:
    """Return True if derivatives are taken forwards: tensors may carry some that arrays do not."""
    return getattr(forward_ad, "_current_level", -1) >= 0


@contextlib.contextmanager
def plain_torch() -> Iterator[None]:
    """Networks that are called within run in plain torch, on all threads.

    Autograd can then take derivatives of gradients, if ``NetConfig(attention="reference")`` says
    that attention be plain, too.
    """
    global _wanting_torch
    _wanting_torch += 1
    try:
        yield
    finally:
        _wanting_torch -= 1


@contextlib.contextmanager
def for_any_sizes() -> Iterator[None]:
    """Run networks within in operations that are the same for all sizes, and may be exported.

    The number of operations then does not depend on any number, such as a length.
    """
    global _with_open_sizes
    _with_open_sizes += 1
    try:
        with plain_torch():
            yield
    finally:
        _with_open_sizes -= 1


def sizes_are_open() -> bool:
    """Return True within ``for_any_sizes``."""
    return _with_open_sizes > 0


@functools.cache
def _can_compile() -> bool:
    """Return True if Numba is there and compiles."""
    try:
        import numba
    except ImportError:
        return False
    return not numba.config.DISABLE_JIT


@functools.cache
def load(name: str) -> ModuleType:
    """Return a module of kernels."""
    return importlib.import_module(f"ragged_net.kernels.{name}")


def need_compiling() -> bool:
    """Return True if the first blocks that learn in this process will take 10 to 40 seconds."""
    block, is_cached = load("block"), load("jit").is_cached
    return not (is_cached(block.block_forward) and is_cached(block.block_backward))


def are_kept() -> bool:
    """Return True if compiled kernels are kept on disk, for other processes too."""
    return bool(load("jit").is_kept(load("block").block_backward))
