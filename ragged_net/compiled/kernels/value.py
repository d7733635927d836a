"""The value of each frame: an MLP with one hidden layer on the mean of its entities."""

from __future__ import annotations

import numpy as np

from ragged_net.compiled.kernels.jit import kernel
from ragged_net.compiled.kernels.linear import (
    CHUNK,
    add_bias_gradient,
    add_weight_gradient,
    gradient_scratch,
    linear,
    pack,
)
from ragged_net.compiled.kernels.tile import RELU, SET
from ragged_net.compiled.kernels.vector import LANES, fma, load, splat, store, total, where_positive

__all__ = ["value_backward", "value_forward"]


@kernel
def value_forward(means, w_hidden, b_hidden, w_out, b_out, hidden, values):
    """``values = relu(means @ w_hidden.T + b_hidden) @ w_out + b_out``.

    Args:
        means: (B * D) float32; D is a multiple of 32.
        w_hidden: (M, D); M is a multiple of 32.
        b_hidden: (M,).
        w_out: (M,).
        b_out: (1,).
        hidden: (B * M) float32, written: after the activation.
        values: (B,) float32, written.
    """
    size, dim = w_hidden.shape
    frames, zero = values.shape[0], np.int64(0)  # see ``block.py``
    panels = pack(w_hidden, True)
    for first in range(0, frames, CHUNK):
        end = min(first + CHUNK, frames)
        linear(
            means, first * dim, end - first, dim, panels, hidden, first * size, size,
            RELU, b_hidden, zero, zero,
        )  # fmt: skip
        for b in range(first, end):
            sums = splat(np.float32(0))
            for d in range(0, size, LANES):
                sums = fma(load(hidden, b * size + d), load(w_out, d), sums)
            values[b] = total(sums) + b_out[0]


@kernel
def value_backward(
    d_values, means, w_hidden, w_out, hidden, d_means, g_w_hidden, g_b_hidden, g_w_out, g_b_out
):
    """Write ``d_means`` of ``value_forward``, and add to the other gradients."""
    size, dim = w_hidden.shape
    frames, zero = d_values.shape[0], np.int64(0)  # see ``block.py``
    panels, scratch = pack(w_hidden, False), gradient_scratch(size)
    d_hidden = np.empty(CHUNK * size, np.float32)
    for first in range(0, frames, CHUNK):
        rows = min(CHUNK, frames - first)
        for d in range(0, size, LANES):
            sums, weight = splat(np.float32(0)), load(w_out, d)
            for i in range(rows):
                own, change = load(hidden, (first + i) * size + d), splat(d_values[first + i])
                sums = fma(own, change, sums)
                store(d_hidden, i * size + d, where_positive(own, change * weight))
            store(g_w_out, d, load(g_w_out, d) + sums)
        part = np.float32(0)
        for i in range(rows):
            part += d_values[first + i]
        g_b_out[0] += part
        add_weight_gradient(
            d_hidden, zero, rows, size, means, first * dim, dim, g_w_hidden, scratch
        )
        add_bias_gradient(d_hidden, zero, rows, size, g_b_hidden)
        linear(
            d_hidden, zero, rows, size, panels, d_means, first * dim, dim,
            SET, d_means, first * dim, dim,
        )  # fmt: skip
