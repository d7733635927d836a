"""Attention of a whole batch, forward and backward, group by group (see ``plan.py``)."""

from __future__ import annotations

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.frame_attention import attend_frame, attend_frame_backward
from ragged_net.kernels.jit import kernel
from ragged_net.kernels.lane_attention import attend_lanes, attend_lanes_backward
from ragged_net.kernels.plan import first_row, frames_in, length_in, row_step
from ragged_net.kernels.room import room_of
from ragged_net.kernels.vector import LANES

__all__ = [
    "attend_backward",
    "attend_forward",
    "attend_group",
    "attend_group_backward",
    "attention_scratch",
]


@kernel
def attend_forward(qkv, heads, width, scale, hidden, out, kept, plan):
    """Attention of the frames, whose rows lie in the order of the batch.

    Args:
        qkv: (N * 3 * D) float32: queries, keys, values of each row, D = heads * width.
        heads: H.
        width: D / H, a multiple of 8.
        scale: float32, what a product of query and key is multiplied by.
        hidden: (N,) bool: rows that only hidden rows attend to; empty where there are none.
        out: (N * D) float32, written.
        kept: (plan.kept[-1] * H) float32, written, for the backward pass.
        plan: From ``make_plan``; with a part of its groups, their rows alone are written.
    """
    scratch = attention_scratch(plan, width)
    zero = np.int64(0)  # see ``block.py``
    for g in range(plan.in_lanes.shape[0]):
        attend_group(
            qkv, plan, g, False, zero, heads, width, scale, hidden, out, kept, zero, scratch
        )


@kernel
def attend_backward(qkv, heads, width, scale, hidden, out, kept, d_out, d_qkv, plan):
    """Write the gradient ``d_qkv`` (N * 3 * D) of ``attend_forward`` for ``d_out`` (N * D)."""
    scratch = attention_scratch(plan, width)
    zero = np.int64(0)  # see ``block.py``
    for g in range(plan.in_lanes.shape[0]):
        attend_group_backward(
            qkv, plan, g, False, heads, width, scale, hidden, out, kept, d_out, d_qkv, zero, scratch
        )  # fmt: skip


@inner
def attention_scratch(plan, width):
    """Return scratch that is large enough for any group of ``plan``."""
    alone, length = room_of(plan.longest, width).end, plan.longest_in_lanes
    return np.empty(max(alone, (7 * width + 2 * length) * length * LANES), np.float32)


@inner
def attend_group(
    qkv, plan, g, sorted_, start, heads, width, scale, hidden, out, kept, first, scratch
):
    """One group.

    With ``sorted_`` the rows lie in the order of the plan, else in that of the batch. qkv and out
    begin with the row ``start``, and ``kept`` with the number ``first`` of each head.
    """
    dim, at = heads * width, (plan.kept[g] - first) * heads
    length, step = length_in(plan, g), row_step(plan, g, sorted_)
    if plan.in_lanes[g]:
        qkv_places = _places(plan, g, sorted_, start, 3 * dim)
        out_places = _places(plan, g, sorted_, start, dim)
        attend_lanes(
            qkv, qkv_places, step, length, heads, width, scale, out, out_places, kept, at, scratch
        )
    else:
        row = first_row(plan, g, 0, sorted_) - start
        attend_frame(
            qkv, row * 3 * dim, length, heads, width, scale,
            hidden, plan.origins[plan.groups[g]], out, row * dim, kept, at, scratch,
        )  # fmt: skip


@inner
def attend_group_backward(
    qkv, plan, g, sorted_, heads, width, scale, hidden, out, kept, d_out, d_qkv, start, scratch
):
    """Write the gradient of one group, whose result was ``out``.

    ``d_out`` and ``d_qkv`` begin with the row ``start``, all else with the first one.
    """
    dim, at = heads * width, plan.kept[g] * heads
    length, step = length_in(plan, g), row_step(plan, g, sorted_)
    if plan.in_lanes[g]:
        qkv_places = _places(plan, g, sorted_, np.int64(0), 3 * dim)  # see ``block.py``
        out_places = _places(plan, g, sorted_, start, dim)
        d_places = _places(plan, g, sorted_, start, 3 * dim)
        attend_lanes_backward(
            qkv, qkv_places, step, length, heads, width, scale, kept, at,
            d_out, out_places, d_qkv, d_places, scratch,
        )  # fmt: skip
    else:
        row = first_row(plan, g, 0, sorted_)
        first = row - start
        attend_frame_backward(
            qkv, row * 3 * dim, length, heads, width, scale, hidden, plan.origins[plan.groups[g]],
            out, row * dim, kept, at, d_out, first * dim, d_qkv, first * 3 * dim, scratch,
        )  # fmt: skip


@inner
def _places(plan, g, sorted_, start, stride):
    """(LANES,) int64: where the frames of a group start in an array that begins with row ``start``.

    Lanes without a frame repeat the last one.
    """
    places = np.empty(LANES, np.int64)
    for lane in range(LANES):
        row = first_row(plan, g, min(lane, frames_in(plan, g) - 1), sorted_)
        places[lane] = (row - start) * stride
    return places
