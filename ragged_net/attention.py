"""Attention within frames of different lengths, without padding: one interface, several backends.

To add a backend, write ``backend(qkv, frames) -> (N, H, D)``, put it in ``BACKENDS`` under a name,
and teach ``_auto`` when it is the best choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ragged_net.errors import ShapeError, UnknownNameError
from ragged_net.ragged import offsets_of

__all__ = [
    "BACKENDS",
    "AttentionBackend",
    "FrameGroups",
    "Frames",
    "Permute",
    "attend",
    "check_backend",
    "permute",
    "ragged_attention",
]


@dataclass(frozen=True, eq=False)
class FrameGroups:
    """The frames of a batch, sorted by length, so that frames of one length form a dense tensor.

    Args:
        order: (N,) int64: the flat row that comes at each place of the group order, or None where
            the flat order is the group order already.
        inverse: (N,) int64: the inverse permutation of ``order``, or None.
        sizes: (length, number of frames) of each group, in the group order. Lengths are over 0.
        masks: For each group (count, 1, L, L) bool, True where a query may attend to a key; None
            where nothing is hidden.
    """

    order: Tensor | None
    inverse: Tensor | None
    sizes: tuple[tuple[int, int], ...]
    masks: tuple[Tensor, ...] | None


@dataclass(frozen=True, eq=False)
class Frames:
    """What attention must know about the frames of a batch; shared by all layers of a network.

    Args:
        offsets: (B + 1,) int64.
        num_rows: N.
        hidden: (N,) bool: a query that is not hidden attends to keys that are not hidden, a hidden
            query to all keys of its frame. None: nothing is hidden.
    """

    offsets: Tensor
    num_rows: int
    hidden: Tensor | None = None

    @cached_property
    def groups(self) -> FrameGroups:
        """The frames grouped by exact length; computed once, when a backend first asks."""
        lengths = self.offsets[1:] - self.offsets[:-1]
        ordered, frames = lengths.sort(stable=True)
        values, counts = torch.unique_consecutive(ordered, return_counts=True)
        table = torch.stack([values, counts]).tolist()
        sizes = tuple((n, count) for n, count in zip(*table, strict=True) if n > 0)
        if len(sizes) <= 1 or bool((lengths == ordered).all()):
            return FrameGroups(None, None, sizes, self._masks(self.hidden, sizes))
        shift = self.offsets[:-1].index_select(0, frames) - offsets_of(ordered)[:-1]
        places = torch.arange(self.num_rows, device=shift.device)
        order = shift.repeat_interleave(ordered, output_size=self.num_rows) + places
        inverse = torch.empty_like(order).index_copy_(0, order, places)
        hidden = None if self.hidden is None else self.hidden.index_select(0, order)
        return FrameGroups(order, inverse, sizes, self._masks(hidden, sizes))

    @staticmethod
    def _masks(
        hidden: Tensor | None, sizes: tuple[tuple[int, int], ...]
    ) -> tuple[Tensor, ...] | None:
        if hidden is None:
            return None
        masks = []
        rows = torch.split(hidden, [length * count for length, count in sizes])
        for part, (length, count) in zip(rows, sizes, strict=True):
            query = part.view(count, 1, length, 1)
            masks.append(query | ~part.view(count, 1, 1, length))  # (count, 1, L, L)
        return tuple(masks)


AttentionBackend: TypeAlias = Callable[[Tensor, Frames], Tensor]


def ragged_attention(
    qkv: Tensor, offsets: Tensor, hidden: Tensor | None = None, backend: str = "auto"
) -> Tensor:
    """Multi-head self-attention within each frame.

    Args:
        qkv: (N, 3, H, D) floating: queries, keys and values of all rows.
        offsets: (B + 1,) int64; the rows of frame b are ``offsets[b]:offsets[b + 1]``.
        hidden: (N,) bool: rows that only hidden rows attend to. None: nothing is hidden.
        backend: ``auto`` or a name from ``BACKENDS``.

    Returns:
        (N, H, D): for each row the softmax(q k / sqrt(D))-weighted mean of the values.
    """
    return attend(qkv, Frames(offsets, qkv.shape[0], hidden), backend)


def attend(qkv: Tensor, frames: Frames, backend: str = "auto") -> Tensor:
    """``ragged_attention`` for ``frames`` that several layers share."""
    if qkv.ndim != 4 or qkv.shape[:2] != (frames.num_rows, 3):
        raise ShapeError(
            "qkv has the wrong shape",
            expected=f"({frames.num_rows}, 3, H, D)",
            received=tuple(qkv.shape),
        )
    check_backend(backend)
    # The only place that cares about empty batches: backends see at least one row.
    if frames.num_rows == 0:
        return qkv[:, 2]
    name = _auto(qkv, frames) if backend == "auto" else backend
    return BACKENDS[name](qkv, frames)


def check_backend(name: str) -> None:
    """Raise UnknownNameError unless ``name`` is ``auto`` or a backend."""
    if name != "auto" and name not in BACKENDS:
        options = ["auto", *BACKENDS]
        raise UnknownNameError(f"attention backend {name!r} does not exist", options=options)


def _auto(qkv: Tensor, frames: Frames) -> str:
    return "grouped"


def _reference(qkv: Tensor, frames: Frames) -> Tensor:
    """One frame at a time, softmax written out: slow, and plain enough to be believed."""
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
    """One scaled_dot_product_attention for all frames of one length: any device, any dtype."""
    groups = frames.groups
    if groups.order is not None and groups.inverse is not None:
        qkv = permute(qkv, groups.order, groups.inverse)
    outputs = []
    # split, not slices: its backward writes one gradient instead of summing padded ones.
    parts = torch.split(qkv, [length * count for length, count in groups.sizes])
    for i, (part, (length, count)) in enumerate(zip(parts, groups.sizes, strict=True)):
        if length == 1:
            outputs.append(part[:, 2])  # a row alone attends to itself with weight 1
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


def permute(x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    """``x[order]`` for a permutation ``order`` (N,) of the rows of ``x`` (N, ...)."""
    result: Tensor = Permute.apply(x, order, inverse)  # type: ignore[no-untyped-call]
    return result


class Permute(torch.autograd.Function):
    """``x[order]``, whose gradient is gathered with the inverse permutation.

    Indexing in general must add up gradients; a permutation need not, and a gather is much faster.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        """Rows of ``x`` (N, ...) in the given ``order`` (N,)."""
        ctx.save_for_backward(order, inverse)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """The gradient in the order of ``x``; differentiable itself."""
        order, inverse = ctx.saved_tensors
        return permute(gradient, inverse, order), None, None


BACKENDS: dict[str, AttentionBackend] = {"reference": _reference, "grouped": _grouped}
