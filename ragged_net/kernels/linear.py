"""Linear layers over the rows of flat float32 arrays."""

from __future__ import annotations

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.machine import WIDE_LEFT, WIDE_RIGHT
from ragged_net.kernels.tile import ADD, PANEL, RELU, SET, WHERE, add_product, set_product
from ragged_net.kernels.transpose import COLUMNS, load_columns
from ragged_net.kernels.vector import LANES, load, splat, store

__all__ = [
    "CHUNK",
    "add_bias_gradient",
    "add_weight_gradient",
    "gradient_scratch",
    "linear",
    "pack",
    "set_sum",
    "set_zero",
]

CHUNK = 64
"""Rows that a layer goes through at once, or whose share in a gradient is summed up before it is
added: one running sum over all rows would lose the small terms."""
LARGEST = 80
"""Rows of such a share in the gradient of a weight, at most: more do not stay in the fastest cache.
All have the same size, because a small one takes nearly as long."""
SHOWN = 1 << 16
"""Numbers of x that a panel of weights is shown to before the next one: they stay in the second
cache, which a panel from farther away is brought to less often."""
DEPTH = 256
"""Rows of a panel that are gone through at once: more would not stay in the fastest cache."""


@inner
def pack(weight, transposed):
    """Return a weight (J, K) in panels for ``linear``.

    Returns:
        (J * K,) float32: for x @ weight (``transposed`` False) the panels hold ``PANEL`` columns of
        the weight each; for x @ weight.T, those of its transpose. J and K are multiples of
        ``PANEL``.
    """
    rows, columns = weight.shape
    panels, flat = np.empty(rows * columns, np.float32), weight.reshape(-1)
    if transposed:
        places, square = np.empty(LANES, np.int64), np.empty(COLUMNS * LANES, np.float32)
        for j in range(0, rows, LANES):
            for lane in range(LANES):
                places[lane] = (j + lane) * columns
            at = j // PANEL * columns * PANEL + j % PANEL
            for k in range(0, columns, COLUMNS):
                load_columns(flat, places, k, square, np.int64(0))
                for d in range(COLUMNS):
                    store(panels, at + (k + d) * PANEL, load(square, d * LANES))
    else:
        for j in range(rows):
            for k in range(0, columns, LANES):
                at = (k // PANEL * rows + j) * PANEL + k % PANEL
                store(panels, at, load(flat, j * columns + k))
    return panels


@inner
def linear(x, x_start, rows, depth, panels, y, y_start, columns, how, e, e_start, e_row):
    """``y (rows, columns)`` becomes what ``how`` makes of ``x (rows, depth) @ panels`` and e.

    x, y and e from their starts on. ``how``, e and ``e_row`` are those of ``set_product``.
    """
    step = depth if how == WHERE else DEPTH  # what was left out could not be added to
    most = max(CHUNK, SHOWN // depth)
    for i in range(0, rows, most):
        count = min(most, rows - i)
        for p in range(columns // PANEL):
            at = y_start + i * columns + p * PANEL
            other, other_at, other_row = e, e_start + i * e_row + p * PANEL, e_row
            for k in range(0, depth, step):
                does = how
                if k + step < depth and how == RELU:
                    does = ADD  # what follows is added first
                elif k > 0 and how == SET:
                    does = ADD
                set_product(
                    32, count, min(step, depth - k), x, x_start + i * depth + k, depth, 1,
                    panels, (p * depth + k) * PANEL, PANEL,
                    y, at, columns, does, other, other_at, other_row,
                )  # fmt: skip
                other, other_at, other_row = y, at, columns


@inner
def add_weight_gradient(d_y, d_start, rows, columns, x, x_start, depth, gradient, scratch):
    """``gradient (columns, depth) += d_y (rows, columns).T @ x (rows, depth)``.

    ``scratch`` is a ``gradient_scratch``: the rows of a wide d_y or x lie too far apart for the
    cache, and are brought together there.
    """
    panel, parts = columns * LARGEST, (rows + LARGEST - 1) // LARGEST
    for part in range(parts):
        first, end = part * rows // parts, (part + 1) * rows // parts
        count, d_at, x_at = end - first, d_start + first * columns, x_start + first * depth
        a, a_at, a_row, a_step = d_y, d_at, columns, 1
        if columns >= WIDE_LEFT:
            a, a_at, a_row, a_step = scratch, 0, PANEL, LARGEST
            for j in range(0, columns, PANEL):
                _bring(d_y, d_at + j, columns, count, scratch, j * LARGEST)
        for p in range(0, depth, PANEL):
            b, b_at, b_row = x, x_at + p, depth
            if depth >= WIDE_RIGHT:
                b, b_at, b_row = scratch, panel, PANEL
                _bring(x, x_at + p, depth, count, scratch, panel)
            for j in range(0, columns, PANEL):
                add_product(
                    32, PANEL, count, a, a_at + j * a_step, 1, a_row, b, b_at, b_row,
                    gradient, j * depth + p, depth,
                )  # fmt: skip


@inner
def _bring(rows, at, stride, count, scratch, to):
    """Copy ``PANEL`` columns of ``count`` rows, from ``at`` on, side by side to the scratch."""
    for i in range(count):
        for d in range(0, PANEL, LANES):
            store(scratch, to + i * PANEL + d, load(rows, at + i * stride + d))


@inner
def gradient_scratch(columns):
    """Room for ``add_weight_gradient`` with up to so many columns."""
    return np.empty((columns + PANEL) * LARGEST, np.float32)


@inner
def add_bias_gradient(d_y, start, rows, columns, gradient):
    """``gradient (columns,) +=`` the sum of d_y (rows, columns) over its rows."""
    sums = np.zeros(columns, np.float32)
    first = 0
    while first < rows:
        # More rows at once would lie in the same places of the cache where they are wide.
        count = 8 if first + 8 <= rows else 1
        for j in range(0, columns, LANES):
            at = start + first * columns + j
            total = load(d_y, at)
            for i in range(at + columns, at + count * columns, columns):
                total = total + load(d_y, i)
            store(sums, j, load(sums, j) + total)
        first += count
    for j in range(0, columns, LANES):
        store(gradient, j, load(gradient, j) + load(sums, j))


@inner
def set_sum(y, start, rows, columns, bias, x, x_start):
    """``y (rows, columns) = bias + x``; y and x from their starts on."""
    for j in range(0, columns, LANES):
        added = load(bias, j)
        for at in range(j, j + rows * columns, columns):
            store(y, start + at, added + load(x, x_start + at))


@inner
def set_zero(y, size):
    """Set the first ``size`` numbers of y, a multiple of ``LANES``, to 0."""
    for i in range(0, size, LANES):
        store(y, i, splat(np.float32(0)))
