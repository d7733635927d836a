"""A whole transformer block, forward and backward, one tile of frames at a time.

A tile is some consecutive frames of about ``TILE`` rows (or one longer frame). All that happens to
its rows happens while they are in the cache, and no intermediate result needs a pass of its own
over memory.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ragged_net.kernels.frame_attention import (
    attend_frame,
    attend_frame_backward,
    attention_scratch,
    longest_frame,
)
from ragged_net.kernels.linear import (
    add_bias_gradient,
    add_linear,
    add_weight_gradient,
    normalize,
    normalize_backward,
    pack,
    set_rows,
    set_sum,
    set_zero,
)
from ragged_net.kernels.vector import LANES, load, store, where_positive

__all__ = ["block_backward", "block_forward"]

TILE = 64
"""Rows that go through a block together."""


@njit(cache=True, nogil=True)
def block_forward(x, offsets, hidden, heads, dim, weights, qkv, softmax, mixed, middle, inner, y):
    """Attention and an MLP with ReLU, each behind a LayerNorm and around a residual connection.

    Args:
        x: (N * D) float32, the rows.
        offsets: (B + 1,) int64.
        hidden: (N,) bool, or empty (see ``attend_forward``).
        heads: H; D / H is a multiple of 8.
        dim: D, a multiple of 32.
        weights: gain and bias of the first norm; weight (3 * D, D) and bias of qkv; weight and bias
            of the output; the second norm; weights and biases of the MLP, (M, D) and (D, M).
        qkv: (N * 3 * D), written, as all that follow: kept for the backward pass.
        softmax: (N * 2 * H), see ``attend_forward``.
        mixed: (N * D), the values mixed by attention.
        middle: (N * D), the rows after attention.
        inner: (N * M), the hidden layer of the MLP after its activation.
        y: (N * D), the result.
    """
    (gain1, bias1, w_qkv, b_qkv, w_out, b_out, gain2, bias2, w_up, b_up, w_down, b_down) = weights
    p_qkv, p_out = pack(w_qkv, True), pack(w_out, True)
    p_up, p_down = pack(w_up, True), pack(w_down, True)
    size, width = b_up.shape[0], dim // heads
    scale = np.float32(1 / np.sqrt(width))
    longest = longest_frame(offsets)
    normal = np.empty(max(TILE, longest) * dim, np.float32)
    scratch = attention_scratch(longest, width)
    frame = 0
    while frame < offsets.shape[0] - 1:
        end = _tile_end(offsets, frame)
        start, rows = offsets[frame], offsets[end] - offsets[frame]
        normalize(x, start * dim, rows, dim, gain1, bias1, normal)
        set_rows(qkv, start * 3 * dim, rows, 3 * dim, b_qkv)
        add_linear(normal, 0, rows, dim, p_qkv, qkv, start * 3 * dim, 3 * dim)
        for b in range(frame, end):
            first, length = offsets[b], offsets[b + 1] - offsets[b]
            attend_frame(qkv, first, length, heads, width, scale, hidden, mixed, softmax, scratch)
        set_sum(middle, start * dim, rows, dim, b_out, x)
        add_linear(mixed, start * dim, rows, dim, p_out, middle, start * dim, dim)
        normalize(middle, start * dim, rows, dim, gain2, bias2, normal)
        set_rows(inner, start * size, rows, size, b_up)
        add_linear(normal, 0, rows, dim, p_up, inner, start * size, size)
        for i in range(start * size, (start + rows) * size, LANES):
            store(inner, i, where_positive(load(inner, i), load(inner, i)))
        set_sum(y, start * dim, rows, dim, b_down, middle)
        add_linear(inner, start * size, rows, size, p_down, y, start * dim, dim)
        frame = end


@njit(cache=True, nogil=True)
def block_backward(
    d_y, x, offsets, hidden, heads, dim, weights, qkv, softmax, mixed, middle, inner, d_x, gradients
):
    """The gradients of ``block_forward``, from its arguments and what it kept.

    ``d_y`` (N * D) is the gradient of its result; ``d_x`` (N * D) is written; ``gradients``, flat
    and in the order of ``weights``, are added to.
    """
    (gain1, bias1, w_qkv, _, w_out, _, gain2, bias2, w_up, b_up, w_down, _) = weights
    (g_gain1, g_bias1, g_qkv, g_b_qkv, g_out, g_b_out) = gradients[:6]
    (g_gain2, g_bias2, g_up, g_b_up, g_down, g_b_down) = gradients[6:]
    p_qkv, p_out = pack(w_qkv, False), pack(w_out, False)
    p_up, p_down = pack(w_up, False), pack(w_down, False)
    size, width = b_up.shape[0], dim // heads
    scale = np.float32(1 / np.sqrt(width))
    longest = longest_frame(offsets)
    most = max(TILE, longest)
    normal, d_normal = np.empty(most * dim, np.float32), np.empty(most * dim, np.float32)
    d_inner, d_qkv = np.empty(most * size, np.float32), np.empty(most * 3 * dim, np.float32)
    columns = np.empty(most * 8, np.float32)
    scratch = attention_scratch(longest, width)
    frame = 0
    while frame < offsets.shape[0] - 1:
        end = _tile_end(offsets, frame)
        start, rows = offsets[frame], offsets[end] - offsets[frame]
        at = start * dim
        # The MLP.
        set_zero(d_inner, rows * size)
        add_linear(d_y, at, rows, dim, p_down, d_inner, 0, size)
        add_weight_gradient(d_y, at, rows, dim, inner, start * size, size, g_down, columns)
        add_bias_gradient(d_y, at, rows, dim, g_b_down)
        for i in range(0, rows * size, LANES):
            store(d_inner, i, where_positive(load(inner, start * size + i), load(d_inner, i)))
        normalize(middle, at, rows, dim, gain2, bias2, normal)
        add_weight_gradient(d_inner, 0, rows, size, normal, 0, dim, g_up, columns)
        add_bias_gradient(d_inner, 0, rows, size, g_b_up)
        set_zero(d_normal, rows * dim)
        add_linear(d_inner, 0, rows, size, p_up, d_normal, 0, dim)
        for i in range(at, at + rows * dim, LANES):
            store(d_x, i, load(d_y, i))
        normalize_backward(d_normal, middle, at, rows, dim, gain2, d_x, g_gain2, g_bias2)
        # Attention; d_x is the gradient of the rows in the middle.
        add_weight_gradient(d_x, at, rows, dim, mixed, at, dim, g_out, columns)
        add_bias_gradient(d_x, at, rows, dim, g_b_out)
        set_zero(d_normal, rows * dim)
        add_linear(d_x, at, rows, dim, p_out, d_normal, 0, dim)
        for b in range(frame, end):
            first, length = offsets[b], offsets[b + 1] - offsets[b]
            attend_frame_backward(
                qkv, first, length, heads, width, scale, hidden, softmax,
                d_normal, start, d_qkv, start, scratch,
            )  # fmt: skip
        normalize(x, at, rows, dim, gain1, bias1, normal)
        add_weight_gradient(d_qkv, 0, rows, 3 * dim, normal, 0, dim, g_qkv, columns)
        add_bias_gradient(d_qkv, 0, rows, 3 * dim, g_b_qkv)
        set_zero(d_normal, rows * dim)
        add_linear(d_qkv, 0, rows, 3 * dim, p_qkv, d_normal, 0, dim)
        normalize_backward(d_normal, x, at, rows, dim, gain1, d_x, g_gain1, g_bias1)
        frame = end


@njit(cache=True, nogil=True)
def _tile_end(offsets, frame):
    """The frame after the last one of the tile that begins with ``frame``."""
    end = frame + 1
    while end < offsets.shape[0] - 1 and offsets[end + 1] - offsets[frame] <= TILE:
        end += 1
    return end
