"""The Numba kernels as operations of autograd: attention, and whole transformer blocks.

They run on the CPU in float32. Numba compiles them at the first use on a machine, which takes some
seconds, and loads them from its cache ever after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from ragged_net import kernels
from ragged_net.errors import DeviceError, DtypeError
from ragged_net.frames import Frames

__all__ = ["attention", "block", "can_run", "can_run_block", "norm", "relu_linear", "run"]

_HEAD = 8
"""The kernels work on heads whose width is a multiple of this."""
_DIM = 32
"""Blocks have a width that is a multiple of this."""


def attention(qkv: Tensor, frames: Frames) -> Tensor:
    """The attention backend "numba": qkv (N, 3, H, D) -> (N, H, D), float32 on the CPU."""
    if qkv.device.type != "cpu" or qkv.dtype != torch.float32 or not kernels.available():
        raise DeviceError(
            "attention backend 'numba' cannot run this batch",
            expected="float32 on the CPU, and Numba installed",
            received=f"{qkv.dtype} on {qkv.device}, Numba "
            + ("installed" if kernels.available() else "missing"),
            hint="backend 'auto' takes one that can",
        )
    width = qkv.shape[3]
    scale = width**-0.5
    if width % _HEAD:  # zeros change neither products nor, cut off again, the result
        qkv = pad(qkv, (0, _HEAD - width % _HEAD))
    mixed: Tensor = run(_Attention, qkv, frames, scale)
    return mixed if mixed.shape[2] == width else mixed[:, :, :width]


def can_run(x: Tensor) -> bool:
    """Whether ``relu_linear``, ``norm`` and, heads permitting, ``block`` take rows ``x`` (N, D)."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.shape[1] % _DIM == 0
        and x.shape[0] > 0
        and kernels.available()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def can_run_block(x: Tensor, heads: int) -> bool:
    """Whether ``block`` takes rows ``x`` (N, D) with that many heads."""
    return (x.shape[1] // heads) % _HEAD == 0 and can_run(x)


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
    if not torch.is_grad_enabled():
        return _run_block(x.contiguous(), frames, heads, weights, _NOTHING_KEPT)
    result: Tensor = _Block.apply(x, frames, heads, *weights)  # type: ignore[no-untyped-call]
    return result


def _run_block(
    x: Tensor,
    frames: Frames,
    heads: int,
    weights: Sequence[Tensor],
    between: tuple[npt.NDArray[np.float32], ...],
) -> Tensor:
    y = torch.empty_like(x)
    kernels.load("block").block_forward(
        _flat(x), frames.plan, _hidden(frames), heads, x.shape[1], _arrays(weights),
        between, _flat(y),
    )  # fmt: skip
    return y


def relu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``relu(x) @ weight.T + bias`` for rows (N, K), weight (J, K), both multiples of 32."""
    y: Tensor = run(_ReluLinear, x, weight, bias)
    return y


def norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm of rows (N, D)."""
    y: Tensor = run(_Norm, x, gain, bias)
    return y


def run(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """``function.apply``, without autograd's part in it where no gradient is wanted.

    It takes as long as a small layer.
    """
    if torch.is_grad_enabled():
        return function.apply(*arguments)  # type: ignore[no-untyped-call]
    return function.forward(_Forgetful(), *arguments)


class _Forgetful:
    """Stands for the context of an operation that no backward pass follows."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep nothing."""


class _ReluLinear(torch.autograd.Function):
    """``relu_linear``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x = x.contiguous()
        y = x.new_empty(x.shape[0], weight.shape[0])
        kernels.load("layers").relu_linear_forward(_flat(x), *_arrays((weight, bias)), _flat(y))
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        d_x, d_weight = torch.empty_like(x), weight.new_zeros(weight.shape)
        d_bias = weight.new_zeros(weight.shape[0])
        kernels.load("layers").relu_linear_backward(
            _flat(d_y.contiguous()), _flat(x), *_arrays((weight,)),
            _flat(d_x), _flat(d_weight), _flat(d_bias),
        )  # fmt: skip
        return d_x, d_weight, d_bias


class _Norm(torch.autograd.Function):
    """``norm``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        kernels.load("layers").norm_forward(_flat(x), *_arrays((gain, bias)), _flat(y))
        ctx.save_for_backward(x, gain)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, gain = ctx.saved_tensors
        d_x, d_gain, d_bias = torch.empty_like(x), torch.zeros_like(gain), torch.zeros_like(gain)
        kernels.load("layers").norm_backward(
            _flat(d_y.contiguous()), _flat(x), _flat(gain),
            _flat(d_x), _flat(d_gain), _flat(d_bias),
        )  # fmt: skip
        return d_x, d_gain, d_bias


class _Attention(torch.autograd.Function):
    """``attention`` for widths that the kernel takes."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, frames: Frames, scale: float) -> Tensor:
        rows, _, heads, width = qkv.shape
        qkv = qkv.contiguous()
        out = qkv.new_empty(rows, heads, width)
        kept = qkv.new_empty(int(frames.plan.kept[-1]) * heads)
        kernels.load("attention").attend_forward(
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
        kernels.load("attention").attend_backward(
            _flat(qkv), frames.plan, qkv.shape[2], qkv.shape[3], np.float32(ctx.scale),
            _hidden(frames), kept.numpy(), _flat(d_out.contiguous()), _flat(d_qkv),
        )  # fmt: skip
        return d_qkv, None, None


class _Block(torch.autograd.Function):
    """``block``, which keeps what the backward pass needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, frames: Frames, heads: int, *weights: Tensor) -> Tensor:
        x, (rows, dim), inner = x.contiguous(), x.shape, weights[8].shape[0]
        between = [x.new_empty(rows * n) for n in (3 * dim, dim, dim, inner)]
        between.append(x.new_empty(int(frames.plan.kept[-1]) * heads))
        y = _run_block(x, frames, heads, weights, _arrays(between))
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
        kernels.load("block").block_backward(
            _flat(d_y.contiguous()), _flat(x), frames.plan, _hidden(frames), ctx.heads,
            x.shape[1], _arrays(weights), _arrays(between), _flat(d_x),
            tuple(_flat(gradient) for gradient in gradients),
        )  # fmt: skip
        return d_x, None, None, *gradients


_NOTHING_KEPT = (np.empty(0, np.float32),) * 5
"""For ``between``, where no backward pass follows."""


def _hidden(frames: Frames) -> npt.NDArray[np.bool_]:
    return np.empty(0, np.bool_) if frames.hidden is None else frames.hidden.numpy()


def _flat(tensor: Tensor) -> npt.NDArray[np.float32]:
    return tensor.numpy(force=True).reshape(-1)


def _arrays(tensors: Sequence[Tensor]) -> tuple[npt.NDArray[np.float32], ...]:
    for tensor in tensors:
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            raise DtypeError(
                "the weights of a layer do not fit its rows",
                expected="float32 on the CPU",
                received=f"{tensor.dtype} on {tensor.device}",
            )
    return tuple(tensor.contiguous().numpy(force=True) for tensor in tensors)
