"""Attention within frames in Triton, as an operation of autograd that never waits for the GPU."""

from __future__ import annotations

import functools
import math
import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ragged_net import kernels as compiled
from ragged_net.kernels.first_order import once_differentiable

__all__ = ["WIDEST", "Spans", "Tiles", "attention", "available", "choose_tiles"]

WIDEST = 128
"""The widest head; the tiles of wider ones do not fit the registers."""


@dataclass(frozen=True)
class Spans:
    """The frame of each row.

    Args:
        starts: First row of the frame. Shape: (N,), int32.
        ends: Row after its last one. Shape: (N,), int32.
        mean: Mean length of the frames, for the choice of tiles.
    """

    starts: Tensor
    ends: Tensor
    mean: float

    @classmethod
    def of(cls, offsets: Tensor, rows: int) -> Spans:
        """Return the spans of frames with ``offsets`` (B + 1,), computed on their device."""
        numbers = torch.arange(rows, device=offsets.device)
        # The last frame that begins at the row or before it: others that begin with it are empty.
        frames = torch.searchsorted(offsets, numbers, right=True) - 1
        short = offsets.to(torch.int32)
        starts, ends = short.index_select(0, frames), short.index_select(0, frames + 1)
        return cls(starts, ends, rows / max(1, offsets.shape[0] - 1))


@dataclass(frozen=True)
class Tiles:
    """The sizes of the work of a kernel's programs.

    Args:
        rows: Number of rows of a program.
        others: Number of rows that they are compared with at once.
        warps: Number of warps of a program.
    """

    rows: int
    others: int
    warps: int


def choose_tiles(dtype: torch.dtype, width: int, mean: float) -> Tiles:
    """Return the tiles for heads of this ``width``, in frames of ``mean`` length.

    Small tiles compute fewer products with rows of other frames. Large ones read keys less often,
    but must fit the registers.
    """
    if mean <= 24:
        return Tiles(16, 16, 1 if width <= 32 else 2 if width <= 64 else 4)
    if width > 64 and dtype == torch.float32:
        return Tiles(32, 32, 4)
    return Tiles(64, 32, 4)


def available(device: torch.device) -> bool:
    """Return True if kernels may run on ``device``; warn once of a GPU on which they cannot."""
    if torch.compiler.is_compiling() or compiled.torch_is_wanted():
        return False
    return _obstacle(device) is None


@functools.cache
def _obstacle(device: torch.device) -> str | None:
    """Return the reason why kernels cannot run on ``device``, or None if they can."""
    if device.type != "cuda":
        interprets = device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
        return None if interprets and _triton_is_here() else f"no GPU: {device}"
    reason = _why_not(device)
    if reason is not None:
        warnings.warn(f"attention on {device} runs in plain torch, slower: {reason}", stacklevel=2)
    return reason


def _why_not(device: torch.device) -> str | None:
    if not _triton_is_here():
        return "Triton is not installed (pip install triton)"
    if torch.version.hip is None and torch.cuda.get_device_capability(device) < (8, 0):
        return "Triton needs a card of compute capability 8.0 (Ampere) or newer"
    try:  # fails with a driver that is too old, or without a C compiler
        qkv = torch.zeros(1, 3, 1, 16, device=device)
        _run_forward(qkv, Spans.of(torch.tensor([0, 1], device=device), 1), None, learns=False)
        torch.cuda.synchronize(device)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip() or '?'}".splitlines()[0][:200]
    return None


@functools.cache
def _triton_is_here() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def _kernels() -> ModuleType:
    from ragged_net.gpu import kernels  # needs Triton

    return kernels


def attention(qkv: Tensor, spans: Spans, hidden: Tensor | None = None) -> Tensor:
    """Return the attention (N, H, D) of qkv (N, 3, H, D), with N at least 1, D at most ``WIDEST``.

    Args:
        qkv: float32, computed as exactly as in torch; bfloat16 or float16, added up in float32.
        spans: Spans of the rows.
        hidden: Mask of rows that only hidden rows attend to; None hides nothing. Shape: (N,), bool.
    """
    qkv = qkv.contiguous()
    if torch.is_grad_enabled() and qkv.requires_grad:
        mixed: Tensor = _Attention.apply(qkv, spans, hidden)  # type: ignore[no-untyped-call]
        return mixed
    return _run_forward(qkv, spans, hidden, learns=False)[0]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, spans: Spans, hidden: Tensor | None) -> Tensor:
        mixed, log = _run_forward(qkv, spans, hidden, learns=True)
        ctx.save_for_backward(qkv, mixed, log, hidden)
        ctx.spans = spans
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mixed: Tensor) -> tuple[Tensor | None, ...]:
        qkv, mixed, log, hidden = ctx.saved_tensors
        spans, kernels = ctx.spans, _kernels()
        d_mixed, d_qkv, inner = d_mixed.contiguous(), torch.empty_like(qkv), torch.empty_like(log)
        where = spans.starts, spans.ends, spans.starts if hidden is None else hidden
        grid, scale, settings = _launch(qkv, spans, hidden)
        settings["FACTOR"] = qkv.shape[3] ** -0.5
        with _device_of(qkv):
            kernels.backward_queries[grid](
                qkv, *where, mixed, log, d_mixed, d_qkv, inner, len(qkv), scale, **settings
            )
            kernels.backward_keys[grid](
                qkv, *where, log, d_mixed, d_qkv, inner, len(qkv), scale, **settings
            )
        return d_qkv, None, None


def _run_forward(
    qkv: Tensor, spans: Spans, hidden: Tensor | None, *, learns: bool
) -> tuple[Tensor, Tensor]:
    """Return the result and, for the backward pass, logarithms (H, N)."""
    rows, _, heads, width = qkv.shape
    mixed = qkv.new_empty(rows, heads, width)
    log = qkv.new_empty(heads, rows if learns else 0, dtype=torch.float32)
    grid, scale, settings = _launch(qkv, spans, hidden)
    shown = spans.starts if hidden is None else hidden  # any pointer, which is not read
    with _device_of(qkv):
        _kernels().forward[grid](
            qkv, spans.starts, spans.ends, shown, mixed, log, rows, scale, LEARNS=learns, **settings
        )
    return mixed, log


def _device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context for kernels on a tensor's device, because Triton takes the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def _launch(
    qkv: Tensor, spans: Spans, hidden: Tensor | None
) -> tuple[tuple[int], float, dict[str, Any]]:
    """Return the grid, the factor of scores in powers of 2, and the constants of a kernel."""
    rows, _, heads, width = qkv.shape
    tiles = choose_tiles(qkv.dtype, width, spans.mean)
    settings = {
        "H": heads,
        "D": width,
        "WIDE": max(16, 1 << (width - 1).bit_length()),
        "TILE": tiles.rows,
        "OTHERS": tiles.others,
        "HIDDEN": hidden is not None,
        # Three products of tf32 replace one of float32; cards of AMD multiply float32 directly.
        "PRECISION": "tf32x3" if torch.version.hip is None else "ieee",
        "num_warps": tiles.warps,
        "num_stages": 1,
    }
    return (-(-rows // tiles.rows) * heads,), width**-0.5 * math.log2(math.e), settings
