"""The Numba kernel of attention as an operation of autograd, and parts that all kernels share.

They run on the CPU in float32. Numba compiles them when they are first used on a machine, which
takes some seconds, and later loads them from its cache.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from entity_env.errors import BatchError, DeviceError, DtypeError
from ragged_net import kernels
from ragged_net.frames import Frames
from ragged_net.kernels.first_order import once_differentiable
from ragged_net.kernels.threads import together
from ragged_net.ragged import check_memory

__all__ = [
    "HEAD",
    "Arrays",
    "WeightArrays",
    "all_are_watched",
    "attention",
    "can_run",
    "flat",
    "hidden_rows",
    "run",
    "save",
    "saved",
    "turn",
    "turns_of_rows",
    "widths_fit",
]

Arrays = tuple[npt.NDArray[np.float32], ...]

HEAD = 8
"""Head widths must be a multiple of this, after padding with zeros."""
_DIM = 32
"""Widths of blocks must be a multiple of this."""


def attention(qkv: Tensor, frames: Frames) -> Tensor:
    """Compute attention as backend "numba": qkv (N, 3, H, D) -> (N, H, D), float32 on the CPU."""
    if qkv.device.type != "cpu" or qkv.dtype != torch.float32 or not kernels.available():
        raise DeviceError(
            "attention backend 'numba' cannot run this batch",
            expected="float32 on the CPU, and Numba installed",
            received=f"{qkv.dtype} on {qkv.device}, Numba "
            + ("installed" if kernels.available() else "missing"),
            hint="backend 'auto' chooses one that can",
        )
    width = qkv.shape[3]
    scale = width**-0.5
    if width % HEAD:  # zeros do not change products, and are cut off the result
        qkv = pad(qkv, (0, HEAD - width % HEAD))
    mixed: Tensor = run(_Attention, qkv, frames, scale)
    return mixed if mixed.shape[2] == width else mixed[:, :, :width]


def can_run(x: Tensor) -> bool:
    """Return True if ``compiled_layers`` accept rows ``x`` (N, D); heads are checked separately."""
    return (
        kernels.available()
        and x.is_cpu
        and x.dtype == torch.float32
        and widths_fit(x.shape[1])
        and x.shape[0] > 0
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not all_are_watched()
    )


def all_are_watched() -> bool:
    """Return True if there are hooks on every module."""
    return any(_ON_EVERY_MODULE)


_ON_EVERY_MODULE = [
    getattr(nn.modules.module, f"_global_{kind}_hooks", {})
    for kind in ("forward", "forward_pre", "backward", "backward_pre")
]


def widths_fit(dim: int, heads: int = 1) -> bool:
    """Return True if the kernels accept layers of width ``dim`` and this number of heads."""
    return dim % _DIM == 0 and dim % (heads * HEAD) == 0


def run(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Call ``function.apply``, or only its forward pass if no gradient is needed.

    ``apply`` alone takes as long as a small layer.
    """
    if torch.is_grad_enabled():
        return function.apply(*arguments)  # type: ignore[no-untyped-call]
    return function.forward(_Forgetful(), *arguments)


def save(ctx: Any, *tensors: Tensor) -> None:
    """Save tensors for the backward pass, those of inference mode as copies."""
    if isinstance(ctx, _Forgetful):
        return
    ctx.save_for_backward(
        *(tensor.clone() if tensor.is_inference() else tensor for tensor in tensors)
    )
    ctx.saved_kinds = [(tensor.numel(), tensor.dtype) for tensor in tensors]


def saved(ctx: Any) -> tuple[Tensor, ...]:
    """Return the tensors that ``save`` has stored.

    Kernels rely on the number of values. Autograd detects in-place changes of a tensor, but not
    ``tensor.data = another``.

    Raises:
        BatchError: A tensor has another number of values, or another dtype, than before.
    """
    tensors: tuple[Tensor, ...] = ctx.saved_tensors
    for tensor, kind in zip(tensors, ctx.saved_kinds, strict=True):
        if (tensor.numel(), tensor.dtype) != kind:
            raise BatchError(
                "a tensor has been replaced between the forward and the backward pass",
                expected=f"{kind[0]} values of {kind[1]}",
                received=f"{tuple(tensor.shape)} of {tensor.dtype}",
            )
    return tensors


class _Forgetful:
    """A context that saves nothing, for operations without a backward pass."""


class _Attention(torch.autograd.Function):
    """``attention`` for widths that the kernel takes."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, frames: Frames, scale: float) -> Tensor:
        rows, _, heads, width = qkv.shape
        qkv = qkv.contiguous()
        out = qkv.new_empty(rows, heads, width)
        kept = qkv.new_empty(int(frames.plan.kept[-1]) * heads)
        work = functools.partial(
            kernels.load("attention").attend_forward, flat(qkv), heads, width, np.float32(scale),
            hidden_rows(frames), flat(out), kept.numpy(),
        )  # fmt: skip
        together(work, frames.shares(heads * width, 0))
        save(ctx, qkv, out, kept)
        ctx.frames, ctx.scale = frames, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (qkv, out, kept), frames = saved(ctx), ctx.frames
        d_qkv = torch.empty_like(qkv)
        _, _, heads, width = qkv.shape
        work = functools.partial(
            kernels.load("attention").attend_backward, flat(qkv), heads, width,
            np.float32(ctx.scale), hidden_rows(frames), flat(out), kept.numpy(),
            flat(d_out.contiguous()), flat(d_qkv),
        )  # fmt: skip
        together(work, frames.shares(heads * width, 0))
        return d_qkv, None, None


def turn(x: Tensor, turns: Tensor, back: bool) -> Tensor | None:
    """Return ``turn``, or ``turn_back``, of geometry.py; None if torch must run it.

    Args:
        x: (N, P, D): rows of P parts.
        turns: (N, 2, D): cosines and signed sines.
        back: True for ``turn_back``.
    """
    if (
        not kernels.available()
        or not (x.is_cpu and turns.is_cpu)
        or not x.dtype == turns.dtype == torch.float32
        or turns.requires_grad
        or x.shape[2] % _TURNED
        or not x.shape[0]
    ):
        return None
    turned: Tensor = run(_Turn, x, turns, -1 if back else 1)
    return turned


_TURNED = 16
"""Numbers of a row that are rotated at a time, or half as many."""


class _Turn(torch.autograd.Function):
    """The operation behind ``turn``, whose gradient is rotated in the other direction."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, turns: Tensor, sense: int) -> Tensor:
        x, turns = x.contiguous(), turns.contiguous()
        y, (_, parts, dim) = torch.empty_like(x), x.shape
        kernels.load("turn").turn_all(flat(x), parts, dim, flat(turns), sense, flat(y))
        save(ctx, turns)
        ctx.sense = sense
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        ((turns,), d_y) = saved(ctx), d_y.contiguous()
        d_x, (_, parts, dim) = torch.empty_like(d_y), d_y.shape
        kernels.load("turn").turn_all(flat(d_y), parts, dim, flat(turns), -ctx.sense, flat(d_x))
        return d_x, None, None


def hidden_rows(frames: Frames) -> npt.NDArray[np.bool_]:
    """Return ``frames.hidden`` as an array, empty if nothing is hidden."""
    if frames.hidden is None:
        return np.empty(0, np.bool_)
    if frames.hidden.shape != (frames.num_rows,) or frames.hidden.dtype != torch.bool:
        raise BatchError(
            "hidden does not have one boolean for each row",
            expected=f"({frames.num_rows},) bool",
            received=f"{tuple(frames.hidden.shape)} {frames.hidden.dtype}",
        )
    return frames.hidden.contiguous().numpy()


def turns_of_rows(frames: Frames, dim: int) -> npt.NDArray[np.float32]:
    """Return ``frames.turns`` as an array, empty if there are none."""
    turns = frames.turns
    if turns is None:
        return np.empty(0, np.float32)
    if turns.shape != (frames.num_rows, 2, dim) or turns.dtype != torch.float32:
        raise BatchError(
            "turns do not have a cosine and a sine for each number of each row",
            expected=f"({frames.num_rows}, 2, {dim}) float32",
            received=f"{tuple(turns.shape)} {turns.dtype}",
        )
    return flat(turns.contiguous())


def flat(tensor: Tensor) -> npt.NDArray[np.float32]:
    """Return a contiguous tensor on the CPU as a flat array over the same memory."""
    return tensor.numpy(force=True).reshape(-1)


class WeightArrays:
    """A cache of weights as arrays, renewed if a weight has moved or changed its shape.

    Making an array of a tensor takes two microseconds, and a small network has thirty weights.
    """

    def __init__(self) -> None:
        self._kept: tuple[list[tuple[int, torch.Size]], Arrays] = ([], ())

    def of(self, weights: Sequence[Tensor]) -> Arrays:
        """Return arrays over the same memory.

        Raises:
            DtypeError: A weight is not float32 on the CPU.
        """
        places, arrays = self._kept
        # A copy of a weight that is not contiguous would not change when the weight is trained.
        now = [
            (weight.data_ptr() if weight.is_contiguous() else 0, weight.shape) for weight in weights
        ]
        if now == places:
            return arrays
        arrays = tuple(map(_weight_array, weights))
        if all(place for place, _ in now) and sum(array.size for array in arrays) < _MOST_KEPT:
            self._kept = now, arrays
        return arrays

    def __reduce__(self) -> tuple[type[WeightArrays], tuple[()]]:
        """Return an empty cache for copies and files."""
        return WeightArrays, ()


_MOST_KEPT = 1_000_000
"""Maximum number of cached values; the cache keeps weights in memory that moved to a GPU."""


def _weight_array(weight: Tensor) -> npt.NDArray[np.float32]:
    if weight.dtype != torch.float32 or not weight.is_cpu:
        raise DtypeError(
            "the weights of a layer do not fit its rows",
            expected="float32 on the CPU",
            received=f"{weight.dtype} on {weight.device}",
        )
    check_memory("a weight", weight)
    array: npt.NDArray[np.float32] = weight.contiguous().numpy(force=True)
    return array
