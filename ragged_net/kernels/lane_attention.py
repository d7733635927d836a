"""Attention within short frames: the lanes of a vector are frames of one length.

Nothing is added up within a vector, no lane is idle, and no loop depends on a single frame.
"""

from __future__ import annotations

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.transpose import COLUMNS, load_columns, store_columns
from ragged_net.kernels.vector import LANES, exp, fma, load, maximum, splat, store

__all__ = ["attend_lanes", "attend_lanes_backward"]


@inner
def attend_lanes(
    qkv, qkv_places, step, length, heads, width, scale, out, out_places, weights, at, scratch
):
    """Attention of up to ``LANES`` frames of ``length`` rows.

    Args:
        qkv: Flat float32; rows of 3 * D, D = heads * width.
        qkv_places: (LANES,) int64: where the first row of each frame starts. Lanes without a frame
            repeat another one.
        step: Distance in rows between two consecutive rows of a frame.
        length: Rows of each frame.
        heads: H.
        width: D / H, a multiple of 8.
        scale: float32, what a product of query and key is multiplied by.
        out: Flat float32, written; rows of D.
        out_places: (LANES,) int64, as for qkv.
        weights: Flat float32, written from ``at`` on: (H, length, length, LANES) attention weights.
        at: See ``weights``.
        scratch: (7 * width + 2 * length) * length * LANES floats.
    """
    dim = heads * width
    size = length * width * LANES
    one = np.int64(1)  # see ``block.py``
    queries, keys, values, result = np.int64(0), size, 2 * size, 3 * size
    for head in range(heads):
        for part in range(3):
            _gather(
                qkv, qkv_places, part * dim + head * width, step * 3 * dim, length, width,
                scratch, part * size,
            )  # fmt: skip
        begin = at + head * length * length * LANES
        _dots(length, width, scratch, queries, keys, weights, begin)
        for i in range(begin, begin + length * length * LANES, length * LANES):
            end = i + length * LANES
            largest = load(weights, i)
            for j in range(i + LANES, end, LANES):
                largest = maximum(largest, load(weights, j))
            total = splat(np.float32(0))
            for j in range(i, end, LANES):
                weight = exp((load(weights, j) - largest) * splat(scale))
                total = total + weight
                store(weights, j, weight)
            inverse = splat(np.float32(1)) / total
            for j in range(i, end, LANES):
                store(weights, j, load(weights, j) * inverse)
        _mix(length, width, weights, begin, length, one, scratch, values, scratch, result)
        _scatter(out, out_places, head * width, step * dim, length, width, scratch, result)


@inner
def attend_lanes_backward(
    qkv, qkv_places, step, length, heads, width, scale, weights, at,
    d_out, out_places, d_qkv, d_places, scratch,
):  # fmt: skip
    """Write the gradient ``d_qkv`` of ``attend_lanes`` for ``d_out``."""
    dim = heads * width
    size = length * width * LANES
    one = np.int64(1)
    queries, keys, values, gradients = np.int64(0), size, 2 * size, 3 * size
    changes = 7 * size
    for head in range(heads):
        for part in range(3):
            _gather(
                qkv, qkv_places, part * dim + head * width, step * 3 * dim, length, width,
                scratch, part * size,
            )  # fmt: skip
        _gather(d_out, out_places, head * width, step * dim, length, width, scratch, gradients)
        begin = at + head * length * length * LANES
        _dots(length, width, scratch, gradients, values, scratch, changes)
        # d softmax: each weight times (its own change - the weighted mean of all changes).
        for i in range(0, length * length * LANES, length * LANES):
            mean = splat(np.float32(0))
            for j in range(i, i + length * LANES, LANES):
                mean = fma(load(weights, begin + j), load(scratch, changes + j), mean)
            for j in range(i, i + length * LANES, LANES):
                change = (load(scratch, changes + j) - mean) * splat(scale)
                store(scratch, changes + j, load(weights, begin + j) * change)
        for part in range(3):
            to = (4 + part) * size
            if part == 0:
                _mix(length, width, scratch, changes, length, one, scratch, keys, scratch, to)
            elif part == 1:
                _mix(length, width, scratch, changes, one, length, scratch, queries, scratch, to)
            else:
                _mix(length, width, weights, begin, one, length, scratch, gradients, scratch, to)
            _scatter(
                d_qkv, d_places, part * dim + head * width, step * 3 * dim, length, width,
                scratch, to,
            )  # fmt: skip


@inner
def _gather(rows, places, shift, stride, length, width, columns, start):
    """(length, width, LANES) columns from ``start`` on: row t of each frame starts t strides on."""
    for t in range(length):
        for d in range(0, width, COLUMNS):
            to = start + (t * width + d) * LANES
            load_columns(rows, places, shift + t * stride + d, columns, to)


@inner
def _scatter(rows, places, shift, stride, length, width, columns, start):
    """Copy columns back to rows: the reverse of ``_gather``."""
    for t in range(length):
        for d in range(0, width, COLUMNS):
            at = start + (t * width + d) * LANES
            store_columns(rows, places, shift + t * stride + d, columns, at)


@inner
def _dots(length, width, values, left, right, result, start):
    """``result[i, j] = sum over d of left[i, d] * right[j, d]``, in every lane."""
    zero = splat(np.float32(0))
    row = width * LANES
    for i in range(length):
        a = left + i * row
        to = start + i * length * LANES
        j = 0
        while j + 4 <= length:
            b = right + j * row
            sum0, sum1, sum2, sum3 = zero, zero, zero, zero
            for d in range(0, row, LANES):
                query = load(values, a + d)
                sum0 = fma(query, load(values, b + d), sum0)
                sum1 = fma(query, load(values, b + row + d), sum1)
                sum2 = fma(query, load(values, b + 2 * row + d), sum2)
                sum3 = fma(query, load(values, b + 3 * row + d), sum3)
            store(result, to + j * LANES, sum0)
            store(result, to + (j + 1) * LANES, sum1)
            store(result, to + (j + 2) * LANES, sum2)
            store(result, to + (j + 3) * LANES, sum3)
            j += 4
        while j < length:
            b = right + j * row
            sum0 = zero
            for d in range(0, row, LANES):
                sum0 = fma(load(values, a + d), load(values, b + d), sum0)
            store(result, to + j * LANES, sum0)
            j += 1


@inner
def _mix(length, width, weights, at, row, column, values, start, result, to):
    """``result[i, d] = sum over j of weights[i * row + j * column] * values[j, d]``, in lanes."""
    zero = splat(np.float32(0))
    stride = width * LANES
    for i in range(length):
        first = at + i * row * LANES
        for d in range(0, stride, 4 * LANES):
            sum0, sum1, sum2, sum3 = zero, zero, zero, zero
            for j in range(length):
                weight = load(weights, first + j * column * LANES)
                v = start + j * stride + d
                sum0 = fma(weight, load(values, v), sum0)
                sum1 = fma(weight, load(values, v + LANES), sum1)
                sum2 = fma(weight, load(values, v + 2 * LANES), sum2)
                sum3 = fma(weight, load(values, v + 3 * LANES), sum3)
            place = to + i * stride + d
            store(result, place, sum0)
            store(result, place + LANES, sum1)
            store(result, place + 2 * LANES, sum2)
            store(result, place + 3 * LANES, sum3)
