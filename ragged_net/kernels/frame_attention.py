"""Attention within one frame of any length.

A block of one or two vectors of queries of one head is worked on at once. Scores lie transposed,
(keys, block), so that the softmax runs down the keys without ever adding up a vector.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ragged_net.kernels.jit import kernel
from ragged_net.kernels.tile import add_product
from ragged_net.kernels.vector import LANES, exp, fma, load, maximum, splat, store

__all__ = ["attend_frame", "attend_frame_backward"]

_TWO = 2 * LANES
_UNSEEN = np.float32(-1e30)
"""The score of a key that a query may not see; the exponential makes it an exact 0."""


@kernel
def attend_frame(
    qkv, start, length, heads, width, scale, hidden, row, out, out_start, softmax, at, scratch
):
    """Attention of one frame.

    Args:
        qkv: Flat float32; rows of 3 * D, D = heads * width.
        start: Where the first row starts in qkv.
        length: Rows of the frame.
        heads: H.
        width: D / H, a multiple of 8.
        scale: float32, what a product of query and key is multiplied by.
        hidden: (N,) bool, or empty where nothing is hidden.
        row: The first row of the frame in ``hidden``.
        out: Flat float32, written; rows of D.
        out_start: Where the first row starts in ``out``.
        softmax: Flat float32, written: (length, 2, H), the largest score of each row and head, and
            1 / the sum of the exponentials.
        at: Where that begins.
        scratch: 2 * (width + length) * 2 * LANES floats.
    """
    dim, block = heads * width, _block(length)
    one = np.int64(1)  # see ``block.py``
    scores = width * block  # where they start in the scratch
    for i in range(out_start, out_start + length * dim):
        out[i] = 0
    for head in range(heads):
        own = start + head * width
        for first in range(0, length, block):
            count = min(block, length - first)
            _score(qkv, own, first, count, length, dim, width, scale, hidden, row, scratch, block)
            for lanes in range(0, block, LANES):
                begin, end = scores + lanes, scores + lanes + length * block
                largest = load(scratch, begin)
                for j in range(begin + block, end, block):
                    largest = maximum(largest, load(scratch, j))
                total = splat(np.float32(0))
                for j in range(begin, end, block):
                    weight = exp(load(scratch, j) - largest)
                    total = total + weight
                    store(scratch, j, weight)
                inverse = splat(np.float32(1)) / total
                for j in range(begin, end, block):
                    store(scratch, j, load(scratch, j) * inverse)
                store(scratch, lanes, largest)  # the queries are not needed any more
                store(scratch, block + lanes, inverse)
            for lane in range(count):
                place = at + (first + lane) * 2 * heads + head
                softmax[place], softmax[place + heads] = scratch[lane], scratch[block + lane]
            _add_head(
                count, length, width, scratch, scores, one, block, qkv, own + 2 * dim, 3 * dim,
                out, out_start + first * dim + head * width, dim,
            )  # fmt: skip


@kernel
def attend_frame_backward(
    qkv, start, length, heads, width, scale, hidden, row, softmax, at,
    d_out, out_start, d_qkv, d_start, scratch,
):  # fmt: skip
    """The gradient ``d_qkv``, written from ``d_start`` on, of ``attend_frame`` for ``d_out``."""
    dim, block = heads * width, _block(length)
    one = np.int64(1)  # see ``block.py``
    scores = width * block
    changes, gradients = scores + length * block, scores + 2 * length * block
    for i in range(d_start, d_start + length * 3 * dim):
        d_qkv[i] = 0
    for head in range(heads):
        own, to = start + head * width, d_start + head * width
        for first in range(0, length, block):
            count = min(block, length - first)
            q_at, d_at = own + first * 3 * dim, out_start + first * dim + head * width
            _score(qkv, own, first, count, length, dim, width, scale, hidden, row, scratch, block)
            _transpose(d_out, d_at, dim, count, width, np.float32(1), scratch, gradients, block)
            _products(
                length, width, qkv, own + 2 * dim, 3 * dim, scratch, gradients, changes, block
            )
            for lane in range(block):
                place = at + (first + lane) * 2 * heads + head
                scratch[lane] = softmax[place] if lane < count else np.float32(0)
                scratch[block + lane] = softmax[place + heads] if lane < count else np.float32(0)
            # d softmax: each weight times (its own change - the weighted mean of all changes).
            for lanes in range(0, block, LANES):
                largest, inverse = load(scratch, lanes), load(scratch, block + lanes)
                mean = splat(np.float32(0))
                for j in range(lanes, lanes + length * block, block):
                    weight = exp(load(scratch, scores + j) - largest) * inverse
                    store(scratch, scores + j, weight)
                    mean = fma(weight, load(scratch, changes + j), mean)
                for j in range(lanes, lanes + length * block, block):
                    change = (load(scratch, changes + j) - mean) * splat(scale)
                    store(scratch, changes + j, load(scratch, scores + j) * change)
            _add_head(
                length, count, width, scratch, scores, block, one, d_out, d_at, dim,
                d_qkv, to + 2 * dim, 3 * dim,
            )  # fmt: skip
            _add_head(
                length, count, width, scratch, changes, block, one, qkv, q_at, 3 * dim,
                d_qkv, to + dim, 3 * dim,
            )  # fmt: skip
            _add_head(
                count, length, width, scratch, changes, one, block, qkv, own + dim, 3 * dim,
                d_qkv, to + first * 3 * dim, 3 * dim,
            )  # fmt: skip


@njit(inline="always")
def _block(length):
    """Queries that are worked on together: one vector of them, or two for longer frames."""
    return LANES if length <= LANES else _TWO


@njit(inline="always")
def _score(qkv, own, first, count, length, dim, width, scale, hidden, row, scratch, block):
    """Scores (length, block) of all keys of a frame for the queries ``first .. first + count``."""
    scores = width * block
    _transpose(
        qkv, own + first * 3 * dim, 3 * dim, count, width, scale, scratch, np.int64(0), block
    )
    _products(length, width, qkv, own + dim, 3 * dim, scratch, np.int64(0), scores, block)
    if hidden.shape[0] > 0:
        for j in range(length):
            if hidden[row + j]:
                for lane in range(count):
                    if not hidden[row + first + lane]:
                        scratch[scores + j * block + lane] = _UNSEEN


@kernel
def _products(length, width, rows, at, stride, scratch, columns, result, block):
    """(length, block) products of rows with the (width, block) ``columns``, both in the scratch."""
    for j in range(result, result + length * block, LANES):
        store(scratch, j, splat(np.float32(0)))
    if block == LANES:
        add_product(
            LANES, length, width, rows, at, stride, 1, scratch, columns, block,
            scratch, result, block,
        )  # fmt: skip
    else:
        add_product(
            _TWO, length, width, rows, at, stride, 1, scratch, columns, block,
            scratch, result, block,
        )  # fmt: skip


@njit(inline="always")
def _transpose(rows, at, stride, count, width, scale, columns, begin, block):
    """``columns`` (width, block) = ``scale`` times ``count`` rows from ``at`` on, then zeros."""
    if count < block:
        for i in range(begin, begin + width * block, LANES):
            store(columns, i, splat(np.float32(0)))
    for lane in range(count):
        for d in range(width):
            columns[begin + d * block + lane] = rows[at + lane * stride + d] * scale


@kernel
def _add_head(
    rows, depth, width, a, a_start, a_row, a_column, b, b_start, b_row, c, c_start, c_row
):
    """``C (rows, width) += A @ B`` for a width that is a multiple of 8."""
    if width % 32 == 0:
        for d in range(0, width, 32):
            add_product(
                32, rows, depth, a, a_start, a_row, a_column, b, b_start + d, b_row,
                c, c_start + d, c_row,
            )  # fmt: skip
    elif width % 16 == 0:
        for d in range(0, width, 16):
            add_product(
                16, rows, depth, a, a_start, a_row, a_column, b, b_start + d, b_row,
                c, c_start + d, c_row,
            )  # fmt: skip
    else:
        for d in range(0, width, 8):
            add_product(
                8, rows, depth, a, a_start, a_row, a_column, b, b_start + d, b_row,
                c, c_start + d, c_row,
            )  # fmt: skip
