"""Attention within frames of different lengths, without padding: one interface, several backends.

To add a backend, write ``backend(qkv, frames) -> (N, H, D)``, add its name to ``config.BACKENDS``
and the function to ``BACKENDS`` below, and let ``_auto`` return it where it is the best choice.

``PositionBias`` adds a bias to each score, computed by a small network from the offset of two
entities. Offsets are relative to the query, rotated by its heading if it has one, and compressed
for distant entities. The network is evaluated for each pair of entities of a frame, so that it
takes more time than ``PositionWaves``; it runs in plain torch only, on frames grouped by length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from entity_env.errors import BatchError, DeviceError, nearest, shorten
from ragged_net import kernels
from ragged_net.compiled import autograd as compiled
from ragged_net.config import NetConfig
from ragged_net.frames import Frames
from ragged_net.gpu import attention as gpu
from ragged_net.model.geometry import distance, into_frame, offsets_between, turn, turn_back
from ragged_net.position_config import RelativePosition
from ragged_net.ragged import RaggedTensor
from ragged_net.tensor_checks import check_tensor

__all__ = [
    "BACKENDS",
    "AttentionBackend",
    "Permute",
    "PositionBias",
    "attend",
    "permute",
    "ragged_attention",
]

AttentionBackend: TypeAlias = Callable[[Tensor, Frames], Tensor]


def ragged_attention(
    qkv: Tensor,
    offsets: Tensor,
    hidden: Tensor | None = None,
    backend: str = "auto",
    turns: Tensor | None = None,
) -> Tensor:
    """Multi-head self-attention within each frame.

    Args:
        qkv: (N, 3, H, D) floating: queries, keys and values of all rows.
        offsets: (B + 1,) int64; the rows of frame b are ``offsets[b]:offsets[b + 1]``.
        hidden: (N,) bool: rows that only hidden rows attend to. None: nothing is hidden.
        backend: ``auto`` or a name from ``BACKENDS``.
        turns: (N, 2, H * D) float32: cosines and signed sines of positions, by which queries, keys
            and values are rotated, and the result is rotated back (``turns.py``).

    Returns:
        (N, H, D): for each row the softmax(q k / sqrt(D))-weighted mean of the values.

    Raises:
        BatchError, DtypeError, DeviceError, BatchError: Arguments that do not fit together.
    """
    RaggedTensor(qkv, offsets)  # checks that they belong together
    if hidden is not None:
        check_tensor("hidden", hidden)
    if hidden is not None and (hidden.shape != qkv.shape[:1] or hidden.dtype != torch.bool):
        raise BatchError(
            "hidden does not have one boolean for each row",
            expected=f"({qkv.shape[0]},) bool",
            received=f"{tuple(hidden.shape)} {hidden.dtype}",
        )
    return attend(qkv, Frames(offsets, qkv.shape[0], hidden, turns=turns), backend)


def attend(qkv: Tensor, frames: Frames, backend: str = "auto") -> Tensor:
    """Return ``ragged_attention`` for ``frames`` that several layers share."""
    if qkv.ndim != 4 or qkv.shape[:2] != (frames.num_rows, 3):
        raise BatchError(
            "qkv has the wrong shape",
            expected=f"({frames.num_rows}, 3, H, D)",
            received=tuple(qkv.shape),
        )
    function = _backend(backend, qkv, frames)
    # The only place that handles empty batches, so that backends get at least one row.
    if frames.num_rows == 0:
        return qkv[:, 2]
    if frames.turns is None:
        return function(qkv, frames)
    return _turned(qkv, frames.turns, lambda x: function(x, frames))


def _turned(qkv: Tensor, turns: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return attention that depends on offsets; backends do not handle positions."""
    rows, _, heads, width = qkv.shape
    if turns.shape != (rows, 2, heads * width):
        raise BatchError(
            "turns do not have a cosine and a sine for each number of each row",
            expected=f"({rows}, 2, {heads * width})",
            received=tuple(turns.shape),
        )
    wide = qkv.reshape(rows, 3, heads * width)
    mixed = function(_turn(wide, turns, back=False).view(qkv.shape))
    return _turn(mixed.reshape(rows, 1, -1), turns, back=True).view(mixed.shape)


def _turn(x: Tensor, turns: Tensor, *, back: bool) -> Tensor:
    """Rotate the parts of rows (N, P, D) by the ``turns`` (N, 2, D) of each row, or back."""
    fast = compiled.turn(x, turns, back)
    if fast is not None:
        return fast
    cos, sin = turns.to(x.dtype).unsqueeze(2).unbind(1)  # (N, 1, D) each
    return turn_back(x, cos, sin) if back else turn(x, cos, sin)


def _backend(name: str, qkv: Tensor, frames: Frames) -> AttentionBackend:
    """Return the backend with a name, or for ``auto`` the fastest one; else raise BatchError."""
    if not isinstance(name, str) or (name != "auto" and name not in BACKENDS):
        options = ["auto", *BACKENDS]
        raise BatchError(
            f"attention backend {shorten(name)} does not exist",
            options=options,
            hint=nearest(name, options),
        )
    return BACKENDS[_auto(qkv, frames) if name == "auto" else name]


def _auto(qkv: Tensor, frames: Frames) -> str:
    if kernels.in_forward_mode():
        return "reference"  # the only backend with forward-mode derivatives
    if qkv.is_cpu:
        return "numba" if qkv.dtype == torch.float32 and kernels.available() else "grouped"
    return "triton" if _fits_triton(qkv) else "grouped"


def _reference(qkv: Tensor, frames: Frames) -> Tensor:
    """Compute one frame at a time with an explicit softmax: slow, but simple to verify."""
    outputs = []
    for start, end in zip(frames.offsets[:-1].tolist(), frames.offsets[1:].tolist(), strict=True):
        query, key, value = qkv[start:end].permute(1, 2, 0, 3)  # each (H, L, D)
        scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
        if frames.hidden is not None:
            hidden = frames.hidden[start:end]
            scores = scores.masked_fill(hidden[None, :] & ~hidden[:, None], float("-inf"))
        outputs.append((scores.softmax(-1) @ value).transpose(0, 1))
    return torch.cat(outputs)


def _grouped(qkv: Tensor, frames: Frames) -> Tensor:
    """Call scaled_dot_product_attention once for each length of frames: any device, any dtype."""
    groups = frames.groups
    if groups.order is not None and groups.inverse is not None:
        qkv = permute(qkv, groups.order, groups.inverse)
    outputs = []
    # torch.split, because its backward pass writes one gradient, where slices sum padded ones.
    parts = torch.split(qkv, [length * count for length, count in groups.sizes])
    for i, (part, (length, count)) in enumerate(zip(parts, groups.sizes, strict=True)):
        if length == 1:
            outputs.append(part[:, 2])  # a single row attends to itself with weight 1
            continue
        heads, dim = part.shape[2:]
        dense = part.view(count, length, 3, heads, dim)
        query, key, value = dense.permute(2, 0, 3, 1, 4)  # each (count, H, L, D)
        mask = None if groups.masks is None else groups.masks[i]
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        outputs.append(mixed.transpose(1, 2).reshape(count * length, heads, dim))
    output = torch.cat(outputs)
    if groups.order is not None and groups.inverse is not None:
        output = permute(output, groups.inverse, groups.order)
    return output


def _triton(qkv: Tensor, frames: Frames) -> Tensor:
    """Run the Triton kernels, which need no lengths on the CPU and do not wait for the GPU."""
    if not _fits_triton(qkv):
        raise DeviceError(
            "attention backend 'triton' cannot run this batch",
            expected=f"a GPU that Triton runs on, float32, bfloat16 or float16, heads of at most "
            f"{gpu.WIDEST} numbers",
            received=f"{qkv.device}, {qkv.dtype}, heads of {qkv.shape[3]}",
            hint="backend 'auto' chooses one that can",
        )
    return gpu.attention(qkv, frames.spans, frames.hidden)


def _fits_triton(qkv: Tensor) -> bool:
    floats = torch.float32, torch.bfloat16, torch.float16
    return qkv.dtype in floats and qkv.shape[3] <= gpu.WIDEST and gpu.available(qkv.device)


def permute(x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    """``x[order]`` for a permutation ``order`` (N,) of the rows of ``x`` (N, ...)."""
    result: Tensor = Permute.apply(x, order, inverse)  # type: ignore[no-untyped-call]
    return result


class Permute(torch.autograd.Function):
    """The operation ``x[order]``, whose gradient is gathered with the inverse permutation.

    The gradient of indexing in general must be added up; for a permutation a gather is enough, and
    much faster.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        """Return the rows of ``x`` (N, ...) in the given ``order`` (N,)."""
        return x.index_select(0, order)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        """Keep both orders."""
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient in the order of ``x``, which is differentiable."""
        order, inverse = ctx.saved_tensors
        return permute(gradient, inverse, order), None, None


BACKENDS: dict[str, AttentionBackend] = {
    "reference": _reference,
    "grouped": _grouped,
    "numba": compiled.attention,
    "triton": _triton,
}


_HIDDEN = 32
_MOST_PAIRS = 1 << 18
"""Maximum number of pairs in one pass of the small network."""


class PositionBias(nn.Module):
    """The bias of one block, a number for each head and offset.

    Args:
        config: Heads, unit and extent.
        axes: Number of coordinates K of a position.
    """

    def __init__(self, config: NetConfig, axes: int = 2) -> None:
        super().__init__()
        setting = config.relative_position or RelativePosition()
        self.unit, self.extent = setting.unit, setting.extent
        self.mlp = nn.Sequential(
            nn.Linear(axes + 1, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, config.heads)
        )

    def forward(self, offsets: Tensor) -> Tensor:
        """Return biases (..., H) of offsets (..., K)."""
        far = distance(offsets).unsqueeze(-1)
        squashed = 2 * offsets / (self.unit + far)
        scale = math.log1p(self.extent / self.unit)
        levels = (far / self.unit).log1p() * (2 / scale)
        result: Tensor = self.mlp(torch.cat([squashed, levels], -1))
        return result

    def attend(self, qkv: Tensor, frames: Frames) -> Tensor:
        """Return the attention (N, H, D) of qkv (N, 3, H, D), with a bias between positions."""
        places, groups = frames.places, frames.groups
        if places is None or not qkv.shape[0]:
            return qkv[:, 2]
        tensors = [places.positions, places.known[:, None].float()]
        if places.heading is not None:
            tensors.append(places.heading[:, None])
        rows = torch.cat(tensors, 1)
        if groups.order is not None and groups.inverse is not None:
            qkv = permute(qkv, groups.order, groups.inverse)
            rows = rows.index_select(0, groups.order)
        outputs = []
        sizes = [length * count for length, count in groups.sizes]
        pieces = zip(torch.split(qkv, sizes), torch.split(rows, sizes), groups.sizes, strict=True)
        for i, (part, placed, (length, count)) in enumerate(pieces):
            mask = None if groups.masks is None else groups.masks[i]
            step = count if kernels.sizes_are_open() else max(1, _MOST_PAIRS // length**2)
            for first in range(0, count, step):
                here = slice(first * length, (first + step) * length)
                hidden = None if mask is None else mask[first : first + step]
                outputs.append(self._attend(part[here], placed[here], length, hidden))
        output = torch.cat(outputs)
        if groups.order is not None and groups.inverse is not None:
            output = permute(output, groups.inverse, groups.order)
        return output

    def _attend(self, qkv: Tensor, rows: Tensor, length: int, allowed: Tensor | None) -> Tensor:
        """Return the attention of some frames of one length."""
        _, _, heads, width = qkv.shape
        query, key, value = qkv.view(-1, length, 3, heads, width).permute(2, 0, 3, 1, 4)
        bias = self.biases(rows.view(-1, length, rows.shape[1])).to(qkv.dtype)
        if allowed is not None:
            bias = bias.masked_fill(~allowed, float("-inf"))
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return mixed.transpose(1, 2).reshape(-1, heads, width)

    def biases(self, rows: Tensor) -> Tensor:
        """Return biases (B, H, L, L) of frames of one length, from the rows of ``attend``."""
        axes = self.mlp[0].in_features - 1  # type: ignore[operator]
        positions, known = rows[..., :axes], rows[..., axes]
        offsets = offsets_between(positions)
        if rows.shape[-1] > axes + 1:
            offsets = into_frame(offsets, rows[..., axes + 1, None])
        both = (known[:, :, None] * known[:, None, :]).unsqueeze(-1)
        biases: Tensor = self(offsets) * both
        return biases.permute(0, 3, 1, 2)
