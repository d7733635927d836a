"""Linear layers and LayerNorm over the rows of flat float32 arrays."""

from __future__ import annotations

import numpy as np
from numba import njit

from ragged_net.kernels.jit import kernel
from ragged_net.kernels.tile import PANEL, add_product, set_product
from ragged_net.kernels.vector import LANES, fma, load, splat, store, total

__all__ = [
    "CHUNK",
    "add_bias_gradient",
    "add_weight_gradient",
    "linear",
    "normalize",
    "normalize_backward",
    "pack",
    "set_sum",
    "set_zero",
]

EPSILON = 1e-5
"""What LayerNorm adds to the variance, as torch does."""
CHUNK = 64
"""Rows whose share in a gradient is summed up before it is added: one running sum over all rows
would lose the small terms."""


@kernel
def pack(weight, transposed):
    """A weight (J, K) in panels for ``linear``.

    Returns:
        (J * K,) float32: for x @ weight (``transposed`` False) the panels hold ``PANEL`` columns of
        the weight each; for x @ weight.T, those of its transpose. Columns must be a multiple of
        ``PANEL``.
    """
    rows, columns = weight.shape
    panels = np.empty(rows * columns, np.float32)
    if transposed:
        for j in range(rows):
            at = j // PANEL * columns * PANEL + j % PANEL
            for k in range(columns):
                panels[at + k * PANEL] = weight[j, k]
    else:
        for j in range(rows):
            for k in range(columns):
                panels[(k // PANEL * rows + j) * PANEL + k % PANEL] = weight[j, k]
    return panels


@kernel
def linear(x, x_start, rows, depth, panels, y, y_start, columns, how, e, e_start, e_row):
    """``y (rows, columns)`` becomes what ``how`` makes of ``x (rows, depth) @ panels`` and e.

    x, y and e from their starts on. ``how``, e and ``e_row`` are those of ``set_product``.
    """
    for i in range(0, rows, 8):
        count = min(8, rows - i)
        for p in range(columns // PANEL):
            set_product(
                32, count, depth, x, x_start + i * depth, depth, 1,
                panels, p * depth * PANEL, PANEL,
                y, y_start + i * columns + p * PANEL, columns,
                how, e, e_start + i * e_row + p * PANEL, e_row,
            )  # fmt: skip


@kernel
def add_weight_gradient(d_y, d_start, rows, columns, x, x_start, depth, gradient, scratch):
    """``gradient (columns, depth) += d_y (rows, columns).T @ x (rows, depth)``.

    ``scratch`` holds LANES * CHUNK floats: the columns of d_y lie too far apart for the cache.
    """
    for first in range(0, rows, CHUNK):
        count = min(CHUNK, rows - first)
        d_at, x_at = d_start + first * columns, x_start + first * depth
        for j in range(0, columns, LANES):
            for i in range(count):
                store(scratch, i * LANES, load(d_y, d_at + i * columns + j))
            for p in range(0, depth, PANEL):
                add_product(
                    32, LANES, count, scratch, 0, 1, LANES, x, x_at + p, depth,
                    gradient, j * depth + p, depth,
                )  # fmt: skip


@kernel
def add_bias_gradient(d_y, start, rows, columns, gradient):
    """``gradient (columns,) +=`` the sum of d_y (rows, columns) over its rows."""
    for first in range(0, rows, CHUNK):
        begin, size = start + first * columns, min(CHUNK, rows - first) * columns
        for j in range(0, columns, LANES):
            sums = splat(np.float32(0))
            for at in range(begin + j, begin + j + size, columns):
                sums = sums + load(d_y, at)
            store(gradient, j, load(gradient, j) + sums)


@kernel
def set_sum(y, start, rows, columns, bias, x, x_start):
    """``y (rows, columns) = bias + x``; y and x from their starts on."""
    for j in range(0, columns, LANES):
        own = load(bias, j)
        for at in range(j, j + rows * columns, columns):
            store(y, start + at, own + load(x, x_start + at))


@kernel
def set_zero(y, size):
    """The first ``size`` numbers of y, a multiple of ``LANES``, become 0."""
    for i in range(0, size, LANES):
        store(y, i, splat(np.float32(0)))


@kernel
def normalize(x, start, rows, dim, gain, bias, y):
    """LayerNorm of ``rows`` rows of x from ``start`` on, written to the beginning of y."""
    for i in range(rows):
        at = start + i * dim
        mean, inverse = _moments(x, at, dim)
        for d in range(0, dim, LANES):
            normal = (load(x, at + d) - mean) * inverse
            store(y, i * dim + d, fma(normal, load(gain, d), load(bias, d)))


@kernel
def normalize_backward(d_y, x, start, rows, dim, gain, d_x, d_gain, d_bias):
    """Add to ``d_x``, ``d_gain`` and ``d_bias`` what comes through a LayerNorm of x.

    x is read from ``start`` on, ``d_y`` and ``d_x`` from their beginning.

    With x' the normalised row and g = d_y * gain: d_x = (g - mean(g) - x' mean(g x')) / deviation
    (Ba, Kiros and Hinton 2016, arXiv:1607.06450).
    """
    zero = splat(np.float32(0))
    share = splat(np.float32(1 / dim))
    sums = np.zeros(2 * dim, np.float32)  # of d_gain, then of d_bias
    for i in range(rows):
        at, own = start + i * dim, i * dim
        mean, inverse = _moments(x, at, dim)
        sum_g, sum_gx = zero, zero
        for d in range(0, dim, LANES):
            change, normal = load(d_y, own + d), (load(x, at + d) - mean) * inverse
            store(sums, d, fma(change, normal, load(sums, d)))
            store(sums, dim + d, load(sums, dim + d) + change)
            g = change * load(gain, d)
            sum_g, sum_gx = sum_g + g, fma(g, normal, sum_gx)
        mean_g, mean_gx = splat(total(sum_g)) * share, splat(total(sum_gx)) * share
        for d in range(0, dim, LANES):
            normal = (load(x, at + d) - mean) * inverse
            g = load(d_y, own + d) * load(gain, d)
            change = fma(g - mean_g - normal * mean_gx, inverse, load(d_x, own + d))
            store(d_x, own + d, change)
        if i % CHUNK == CHUNK - 1 or i == rows - 1:
            for d in range(0, dim, LANES):
                store(d_gain, d, load(d_gain, d) + load(sums, d))
                store(d_bias, d, load(d_bias, d) + load(sums, dim + d))
                store(sums, d, zero)
                store(sums, dim + d, zero)


@njit(inline="always")
def _moments(x, at, dim):
    """The mean of a row, and 1 / its deviation, as vectors."""
    sums = splat(np.float32(0))
    for d in range(at, at + dim, LANES):
        sums = sums + load(x, d)
    mean = splat(total(sums) / np.float32(dim))
    squares = splat(np.float32(0))
    for d in range(at, at + dim, LANES):
        centred = load(x, d) - mean
        squares = fma(centred, centred, squares)
    variance = total(squares) / np.float32(dim)
    return mean, splat(np.float32(1) / np.sqrt(variance + np.float32(EPSILON)))
