"""A whole transformer block, forward and backward, one tile of frames at a time.

A tile is a few groups of frames (see ``plan.py``). All that happens to its rows happens while they
are in the cache, and no intermediate result needs a pass of its own over memory.
"""

from __future__ import annotations

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.attention import attend_group, attend_group_backward, attention_scratch
from ragged_net.kernels.bundles import finish, finish_backward, room_for_bundles
from ragged_net.kernels.jit import kernel
from ragged_net.kernels.linear import (
    add_bias_gradient,
    add_weight_gradient,
    gradient_scratch,
    linear,
    pack,
    set_sum,
)
from ragged_net.kernels.norm import normalize, normalize_backward
from ragged_net.kernels.plan import (
    first_row,
    frames_in,
    largest_tile,
    length_in,
    row_step,
    tile_end,
)
from ragged_net.kernels.tile import ADD, RELU, SET, WHERE
from ragged_net.kernels.turn import turn_rows
from ragged_net.kernels.vector import LANES, load, store

__all__ = ["block_backward", "block_forward"]


@kernel
def block_forward(x, hidden, turns, heads, dim, weights, between, places, y, plan):
    """Attention and an MLP with ReLU, each behind a LayerNorm and around a residual connection.

    Args:
        x: (N * D) float32, the rows in the order of the batch.
        hidden: (N,) bool, or empty (see ``attend_forward``).
        turns: (N * 2 * D) float32, or empty: cosines and signed sines by which queries, keys and
            values are turned, and what attention mixes of them turned back (``turn.py``).
        heads: H; D / H is a multiple of 8.
        dim: D, a multiple of 32.
        weights: gain and bias of the first norm; weight (3 * D, D) and bias of qkv; weight and bias
            of the output; the second norm; weights and biases of the MLP, (M, D) and (D, M).
        between: Intermediate results for the backward pass, in the order of the plan:
            qkv (N * 3 * D); mixed (N * D), the values mixed by attention, not yet turned back;
            middle (N * D), the rows after attention; inner (N * M), the hidden layer of the MLP
            after its activation; kept (plan.kept[-1] * H), see ``attend_forward``. All empty if no
            backward pass follows.
        places: Empty, or for the last block of a network (N,) int64: the places in y of the rows
            that are read, behind the means; -1 for the others.
        y: (N * D), written: the result in the order of the batch. With ``places``, first the means
            (B * D) of the frames' results, which are added to, then the results that are read.
        plan: From ``make_plan``; a part of its groups are worked on alone, and their rows written.
    """
    (gain1, bias1, w_qkv, b_qkv, w_out, b_out, gain2, bias2, w_up, b_up, w_down, b_down) = weights
    p_qkv, p_out = pack(w_qkv, True), pack(w_out, True)
    p_up, p_down = pack(w_up, True), pack(w_down, True)
    size, width = b_up.shape[0], dim // heads
    scale = np.float32(1 / np.sqrt(width))
    most, most_kept = largest_tile(plan)
    # For a literal 0 Numba would compile what is called a second time.
    zero, one, three = np.int64(0), np.int64(1), np.int64(3)
    qkv, mixed, middle, inner, kept = between
    keep = qkv.shape[0] > 0
    if not keep:  # room for one tile, which stays in the cache
        qkv, mixed = np.empty(most * 3 * dim, np.float32), np.empty(most * dim, np.float32)
        middle, inner = np.empty(most * dim, np.float32), np.empty(most * size, np.float32)
        kept = np.empty(most_kept * heads, np.float32)
    inputs, normal = np.empty(most * dim, np.float32), np.empty(most * dim, np.float32)
    turning = turns.shape[0] > 0
    ways = np.empty(most * 2 * dim if turning else zero, np.float32)
    scratch = attention_scratch(plan, width)
    last = places.shape[0] > 0
    room = room_for_bundles(most if last else zero, size)
    group = 0
    while group < plan.in_lanes.shape[0]:
        end = tile_end(plan, group)
        start = plan.starts[plan.groups[group]]
        rows = plan.starts[plan.groups[end]] - start
        # Where the tile's first row, and the first number that attention keeps, would stand at 0.
        row, first = (zero, zero) if keep else (start, plan.kept[group])
        at = start - row
        _move(x, plan, group, end, dim, inputs, True)
        normalize(inputs, zero, rows, dim, gain1, bias1, normal)
        linear(normal, zero, rows, dim, p_qkv, qkv, at * 3 * dim, 3 * dim, ADD, b_qkv, zero, zero)
        if turning:
            _move(turns, plan, group, end, 2 * dim, ways, True)
            turn_rows(qkv, at * 3 * dim, rows, three, dim, ways, one, qkv, at * 3 * dim)
        for g in range(group, end):
            attend_group(
                qkv, plan, g, True, row, heads, width, scale, hidden, mixed, kept, first, scratch,
            )  # fmt: skip
        set_sum(inputs, zero, rows, dim, b_out, inputs, zero)
        source, source_at = mixed, at * dim
        if turning:
            turn_rows(mixed, at * dim, rows, one, dim, ways, -one, normal, zero)
            source, source_at = normal, zero
        linear(source, source_at, rows, dim, p_out, middle, at * dim, dim, ADD, inputs, zero, dim)
        normalize(middle, at * dim, rows, dim, gain2, bias2, normal)
        linear(normal, zero, rows, dim, p_up, inner, at * size, size, RELU, b_up, zero, zero)
        set_sum(inputs, zero, rows, dim, b_down, middle, at * dim)
        if last:
            finish(
                inner, at * size, inputs, rows, dim, size, p_down, plan, group, end, places, room,
                normal, y,
            )  # fmt: skip
        else:
            linear(inner, at * size, rows, size, p_down, inputs, zero, dim, ADD, inputs, zero, dim)
            _move(y, plan, group, end, dim, inputs, False)
        group = end


@kernel
def block_backward(
    d_y, x, hidden, turns, heads, dim, weights, between, places, d_x, plan, gradients
):
    """Compute the gradients of ``block_forward`` from its arguments and what it kept.

    ``d_y`` is the gradient of its result; ``d_x`` (N * D) is written; ``gradients``, flat
    and in the order of ``weights``, are added to.
    """
    (gain1, bias1, w_qkv, _, w_out, _, gain2, bias2, w_up, b_up, w_down, _) = weights
    (g_gain1, g_bias1, g_qkv, g_b_qkv, g_out, g_b_out) = gradients[:6]
    (g_gain2, g_bias2, g_up, g_b_up, g_down, g_b_down) = gradients[6:]
    qkv, mixed, middle, inner, kept = between
    p_qkv, p_out = pack(w_qkv, False), pack(w_out, False)
    p_up, p_down = pack(w_up, False), pack(w_down, False)
    size, width = b_up.shape[0], dim // heads
    scale = np.float32(1 / np.sqrt(width))
    most, _ = largest_tile(plan)
    # For a literal 0 Numba would compile what is called a second time.
    zero, one, three = np.int64(0), np.int64(1), np.int64(3)
    inputs, change = np.empty(most * dim, np.float32), np.empty(most * dim, np.float32)
    normal, d_normal = np.empty(most * dim, np.float32), np.empty(most * dim, np.float32)
    d_inner, d_qkv = np.empty(most * size, np.float32), np.empty(most * 3 * dim, np.float32)
    turning = turns.shape[0] > 0
    ways = np.empty(most * 2 * dim if turning else zero, np.float32)
    scratch, near = attention_scratch(plan, width), gradient_scratch(max(3 * dim, size))
    last = places.shape[0] > 0
    room = room_for_bundles(most if last else zero, size)
    group = 0
    while group < plan.in_lanes.shape[0]:
        end = tile_end(plan, group)
        start = plan.starts[plan.groups[group]]
        rows = plan.starts[plan.groups[end]] - start
        at = start * dim
        # The MLP.
        if last:
            finish_backward(
                d_y, inner, start * size, rows, dim, size, p_down, plan, group, end, places, room,
                normal, change, d_inner, g_down, near,
            )  # fmt: skip
        else:
            _move(d_y, plan, group, end, dim, change, True)
            linear(
                change, zero, rows, dim, p_down, d_inner, zero, size,
                WHERE, inner, start * size, size,
            )  # fmt: skip
            add_weight_gradient(change, zero, rows, dim, inner, start * size, size, g_down, near)
        add_bias_gradient(change, zero, rows, dim, g_b_down)
        normalize(middle, at, rows, dim, gain2, bias2, normal)
        add_weight_gradient(d_inner, zero, rows, size, normal, zero, dim, g_up, near)
        add_bias_gradient(d_inner, zero, rows, size, g_b_up)
        linear(d_inner, zero, rows, size, p_up, d_normal, zero, dim, SET, d_normal, zero, dim)
        # From here on ``change`` is the gradient of the rows in the middle.
        normalize_backward(d_normal, middle, at, rows, dim, gain2, change, g_gain2, g_bias2)
        # Attention.
        source, source_at = mixed, at
        if turning:
            _move(turns, plan, group, end, 2 * dim, ways, True)
            turn_rows(mixed, at, rows, one, dim, ways, -one, inputs, zero)
            source, source_at = inputs, zero
        add_weight_gradient(change, zero, rows, dim, source, source_at, dim, g_out, near)
        add_bias_gradient(change, zero, rows, dim, g_b_out)
        linear(change, zero, rows, dim, p_out, d_normal, zero, dim, SET, d_normal, zero, dim)
        if turning:
            turn_rows(d_normal, zero, rows, one, dim, ways, one, d_normal, zero)
        for g in range(group, end):
            attend_group_backward(
                qkv, plan, g, True, heads, width, scale, hidden, mixed, kept, d_normal, d_qkv,
                start, scratch,
            )  # fmt: skip
        if turning:
            turn_rows(d_qkv, zero, rows, three, dim, ways, -one, d_qkv, zero)
        _move(x, plan, group, end, dim, inputs, True)
        normalize(inputs, zero, rows, dim, gain1, bias1, normal)
        add_weight_gradient(d_qkv, zero, rows, 3 * dim, normal, zero, dim, g_qkv, near)
        add_bias_gradient(d_qkv, zero, rows, 3 * dim, g_b_qkv)
        linear(d_qkv, zero, rows, 3 * dim, p_qkv, d_normal, zero, dim, SET, d_normal, zero, dim)
        normalize_backward(d_normal, inputs, zero, rows, dim, gain1, change, g_gain1, g_bias1)
        _move(d_x, plan, group, end, dim, change, False)
        group = end


@inner
def _move(x, plan, group, end, dim, rows, here):
    """Copy the rows of a tile's frames from the batch ``x``, or with ``here`` False back to it."""
    start = first_row(plan, group, 0, True)
    for g in range(group, end):
        step = row_step(plan, g, True) * dim
        for i in range(frames_in(plan, g)):
            source = first_row(plan, g, i, False) * dim
            to = (first_row(plan, g, i, True) - start) * dim
            for _ in range(length_in(plan, g)):
                for d in range(0, dim, LANES):
                    if here:
                        store(rows, to + d, load(x, source + d))
                    else:
                        store(x, source + d, load(rows, to + d))
                source, to = source + dim, to + step
