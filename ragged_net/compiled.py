"""The Numba kernels as operations of autograd: attention, and whole transformer blocks.

They run on the CPU in float32. Numba compiles them at the first use on a machine, which takes some
seconds, and loads them from its cache ever after.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from ragged_net.errors import DeviceError
from ragged_net.frames import Frames

__all__ = ["attention", "available", "block", "can_run_block"]

_HEAD = 8
"""The kernels work on heads whose width is a multiple of this."""
_DIM = 32
"""Blocks have a width that is a multiple of this."""


@functools.cache
def available() -> bool:
    """Whether Numba can be imported; without it everything runs in plain torch."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def attention(qkv: Tensor, frames: Frames) -> Tensor:
    """The attention backend "numba": qkv (N, 3, H, D) -> (N, H, D), float32 on the CPU."""
    if qkv.device.type != "cpu" or qkv.dtype != torch.float32 or not available():
        raise DeviceError(
            "attention backend 'numba' cannot run this batch",
            expected="float32 on the CPU, and Numba installed",
            received=f"{qkv.dtype} on {qkv.device}, Numba "
            + ("installed" if available() else "missing"),
            hint="backend 'auto' takes one that can",
        )
    width = qkv.shape[3]
    scale = width**-0.5
    if width % _HEAD:  # zeros change neither products nor, cut off again, the result
        qkv = pad(qkv, (0, _HEAD - width % _HEAD))
    mixed: Tensor = _Attention.apply(qkv, frames, scale)  # type: ignore[no-untyped-call]
    return mixed if mixed.shape[2] == width else mixed[:, :, :width]


def can_run_block(x: Tensor, dim: int, heads: int) -> bool:
    """Whether ``block`` takes rows ``x`` (N, dim) with that many heads."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and dim % _DIM == 0
        and (dim // heads) % _HEAD == 0
        and x.shape[0] > 0
        and available()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def block(x: Tensor, frames: Frames, heads: int, weights: Sequence[Tensor]) -> Tensor:
    """A pre-norm transformer block with ReLU.

    Args:
        x: (N, D) float32 on the CPU, for which ``can_run_block`` holds.
        frames: Which rows belong together.
        heads: H.
        weights: Gain and bias of the first norm; weight (3 * D, D) and bias of queries, keys and
            values; weight (D, D) and bias of the output; gain and bias of the second norm; weight
            (M, D) and bias, and weight (D, M) and bias of the MLP.

    Returns:
        (N, D).
    """
    result: Tensor = _Block.apply(x, frames, heads, *weights)  # type: ignore[no-untyped-call]
    return result


@functools.cache
def _kernels(name: str) -> ModuleType:
    """A module of kernels, imported late: Numba takes half a second, and may be missing."""
    return importlib.import_module(f"ragged_net.kernels.{name}")


class _Attention(torch.autograd.Function):
    """``attention`` for widths that the kernel takes."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, frames: Frames, scale: float) -> Tensor:
        rows, _, heads, width = qkv.shape
        qkv = qkv.contiguous()
        out, kept = qkv.new_empty(rows, heads, width), _kept(frames, heads)
        _kernels("attention").attend_forward(
            _flat(qkv), frames.plan, heads, width, np.float32(scale), _hidden(frames),
            _flat(out), kept.numpy(),
        )  # fmt: skip
        ctx.save_for_backward(qkv, kept)
        ctx.frames, ctx.scale = frames, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (qkv, kept), frames = ctx.saved_tensors, ctx.frames
        d_qkv = torch.empty_like(qkv)
        _kernels("attention").attend_backward(
            _flat(qkv), frames.plan, qkv.shape[2], qkv.shape[3], np.float32(ctx.scale),
            _hidden(frames), kept.numpy(), _flat(d_out.contiguous()), _flat(d_qkv),
        )  # fmt: skip
        return d_qkv, None, None


class _Block(torch.autograd.Function):
    """``block``, which keeps what the backward pass needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, frames: Frames, heads: int, *weights: Tensor) -> Tensor:
        rows, dim = x.shape
        x, weights = x.contiguous(), tuple(weight.contiguous() for weight in weights)
        inner = weights[8].shape[0]
        # qkv, mixed, middle, inner: see the kernel.
        between = [x.new_empty(rows * n) for n in (3 * dim, dim, dim, inner)]
        between.append(_kept(frames, heads))
        y = torch.empty_like(x)
        _kernels("block").block_forward(
            _flat(x), frames.plan, _hidden(frames), heads, dim, _arrays(weights),
            *_arrays(between), _flat(y),
        )  # fmt: skip
        ctx.save_for_backward(x, *between, *weights)
        ctx.frames, ctx.heads = frames, heads
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        (x, *others), frames = ctx.saved_tensors, ctx.frames
        between, weights = others[:5], others[5:]
        d_x = torch.empty_like(x)
        gradients = [torch.zeros_like(weight) for weight in weights]
        _kernels("block").block_backward(
            _flat(d_y.contiguous()), _flat(x), frames.plan, _hidden(frames), ctx.heads,
            x.shape[1], _arrays(weights), *_arrays(between), _flat(d_x),
            tuple(_flat(gradient) for gradient in gradients),
        )  # fmt: skip
        return d_x, None, None, *gradients


def _hidden(frames: Frames) -> npt.NDArray[np.bool_]:
    return np.empty(0, np.bool_) if frames.hidden is None else frames.hidden.numpy()


def _kept(frames: Frames, heads: int) -> Tensor:
    """Room for what attention keeps for the backward pass."""
    return torch.empty(int(frames.plan.kept[-1]) * heads)


def _flat(tensor: Tensor) -> npt.NDArray[np.float32]:
    return tensor.detach().view(-1).numpy()


def _arrays(tensors: Sequence[Tensor]) -> tuple[npt.NDArray[np.float32], ...]:
    return tuple(tensor.detach().numpy() for tensor in tensors)
