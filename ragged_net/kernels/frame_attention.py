"""Attention within one frame of any length.

Of a long frame ``KEYS`` keys and values of a head are brought together, and shown to all queries
before the next ones, so that they stay in the cache. The largest score of a query and the sum of
its exponentials grow from one lot of keys to the next (online softmax, Milakov and Gimelshein 2018;
in attention, Dao et al. 2022).

A block of one or two vectors of queries is worked on at once. Scores lie transposed, (keys, block),
so that the softmax runs down the keys without ever adding up a vector.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ragged_net.kernels.head import (
    TWO,
    add_head,
    block_of,
    bring,
    means,
    panel_of,
    products,
    put,
    turn,
)
from ragged_net.kernels.jit import kernel
from ragged_net.kernels.transpose import COLUMNS
from ragged_net.kernels.vector import LANES, exp, load, maximum, splat, store

__all__ = ["attend_frame", "attend_frame_backward", "frame_scratch"]

KEYS = 256
"""Keys that are shown to all queries at once. Those of shorter frames are used where they lie."""
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
        scratch: ``frame_scratch`` floats.
    """
    dim, block, panel = heads * width, block_of(length), panel_of(width)
    zero, one = np.int64(0), np.int64(1)  # see ``block.py``
    # Where things begin in the scratch.
    lot = _lot(length, width)
    shrink, room = 2 * lot, 2 * lot + block
    largest = room + LANES * COLUMNS
    total = largest + length + block
    queries = total + length + block
    scores = queries + (length + block) * width
    places = np.empty(LANES, np.int64)
    for i in range(out_start, out_start + length * dim):
        out[i] = 0
    for head in range(heads):
        own, to = start + head * width, out_start + head * width
        turn(qkv, own, 3 * dim, length, width, scale, scratch, queries, block, places, room)
        for seen in range(0, length, KEYS):
            count = min(KEYS, length - seen)
            at_keys = own + seen * 3 * dim + dim
            source, keys, key_row = qkv, at_keys, 3 * dim
            values, value_row, value_panel = at_keys + dim, 3 * dim, panel
            if length > KEYS:
                bring(qkv, keys, 3 * dim, count, width, width, scratch, zero)
                bring(qkv, values, 3 * dim, count, width, panel, scratch, lot)
                source, keys, key_row = scratch, zero, width
                values, value_row, value_panel = lot, panel, panel * count
            for first in range(0, length, block):
                rows = min(block, length - first)
                query = queries + first * width
                products(count, width, source, keys, key_row, scratch, query, scores, block)
                _hide(hidden, row, first, rows, seen, count, scratch, scores, block)
                _weigh(
                    scratch, scores, count, block, largest + first, total + first, shrink,
                    seen > 0, seen + count == length,
                )  # fmt: skip
                if seen > 0:
                    for lane in range(rows):
                        _scale(out, to + (first + lane) * dim, width, scratch[shrink + lane])
                add_head(
                    rows, count, width, scratch, scores, one, block,
                    source, values, value_row, value_panel, out, to + first * dim, dim,
                )  # fmt: skip
        for i in range(length):
            place = at + i * 2 * heads + head
            softmax[place], softmax[place + heads] = scratch[largest + i], scratch[total + i]


@kernel
def attend_frame_backward(
    qkv, start, length, heads, width, scale, hidden, row, out, out_start, softmax, at,
    d_out, d_out_start, d_qkv, d_start, scratch,
):  # fmt: skip
    """The gradient ``d_qkv``, written from ``d_start`` on, of ``attend_frame`` for ``d_out``."""
    dim, block, panel = heads * width, block_of(length), panel_of(width)
    zero, one, unit = np.int64(0), np.int64(1), np.float32(1)  # see ``block.py``
    lot = _lot(length, width)
    room = 5 * lot
    largest = room + LANES * COLUMNS
    inverse = largest + length + block
    mean = inverse + length + block
    queries = mean + length + block
    changes = queries + (length + block) * width
    weights = changes + (length + block) * width
    d_scores = weights + min(length, KEYS) * block
    places = np.empty(LANES, np.int64)
    for i in range(d_start, d_start + length * 3 * dim):
        d_qkv[i] = 0
    for head in range(heads):
        own, to = start + head * width, d_start + head * width
        out_at, d_at = out_start + head * width, d_out_start + head * width
        turn(qkv, own, 3 * dim, length, width, scale, scratch, queries, block, places, room)
        turn(d_out, d_at, dim, length, width, unit, scratch, changes, block, places, room)
        means(out, out_at, dim, length, width, scratch, changes, mean, block, places, room)
        for i in range(length):
            place = at + i * 2 * heads + head
            scratch[largest + i], scratch[inverse + i] = softmax[place], softmax[place + heads]
        for seen in range(0, length, KEYS):
            count = min(KEYS, length - seen)
            at_keys, to_keys = own + seen * 3 * dim + dim, to + seen * 3 * dim + dim
            source, keys, values, stride = qkv, at_keys, at_keys + dim, 3 * dim
            mixed, mixed_row, mixed_panel = at_keys, 3 * dim, panel  # the keys that dQ is mixed of
            target, d_keys, d_values = d_qkv, to_keys, to_keys + dim
            if length > KEYS:
                bring(qkv, keys, 3 * dim, count, width, width, scratch, zero)
                bring(qkv, values, 3 * dim, count, width, width, scratch, lot)
                bring(qkv, keys, 3 * dim, count, width, panel, scratch, 2 * lot)
                source, keys, values, stride = scratch, zero, lot, width
                mixed, mixed_row, mixed_panel = 2 * lot, panel, panel * count
                target, d_keys, d_values = scratch, 3 * lot, 4 * lot
                for i in range(3 * lot, 5 * lot):
                    scratch[i] = 0
            for first in range(0, length, block):
                rows = min(block, length - first)
                query, change = queries + first * width, changes + first * width
                products(count, width, source, keys, stride, scratch, query, weights, block)
                _hide(hidden, row, first, rows, seen, count, scratch, weights, block)
                products(count, width, source, values, stride, scratch, change, d_scores, block)
                _weigh_backward(
                    scratch, weights, d_scores, count, block,
                    largest + first, inverse + first, mean + first, scale,
                )  # fmt: skip
                add_head(
                    count, rows, width, scratch, weights, block, one,
                    d_out, d_at + first * dim, dim, panel, target, d_values, stride,
                )  # fmt: skip
                add_head(
                    count, rows, width, scratch, d_scores, block, one,
                    qkv, own + first * 3 * dim, 3 * dim, panel, target, d_keys, stride,
                )  # fmt: skip
                add_head(
                    rows, count, width, scratch, d_scores, one, block,
                    source, mixed, mixed_row, mixed_panel, d_qkv, to + first * 3 * dim, 3 * dim,
                )  # fmt: skip
            if length > KEYS:
                put(scratch, d_keys, count, width, d_qkv, to_keys, 3 * dim)
                put(scratch, d_values, count, width, d_qkv, to_keys + dim, 3 * dim)


@kernel
def _weigh(scratch, scores, count, block, largest, total, shrink, known, last):
    """Turn (count, block) scores into their exponentials over the largest of each query so far.

    With the ``last`` keys of a frame they become the weights of the values, and ``total`` (block,)
    the inverse of the sum. Where others are ``known`` already, ``shrink`` (block,) becomes what
    their exponentials have to be multiplied by.
    """
    for lanes in range(0, block, LANES):
        begin, end = scores + lanes, scores + lanes + count * block
        most = load(scratch, begin)
        for j in range(begin + block, end, block):
            most = maximum(most, load(scratch, j))
        together, less = splat(np.float32(0)), splat(np.float32(1))
        if known:
            before = load(scratch, largest + lanes)
            most = maximum(before, most)
            less = exp(before - most)
            together = load(scratch, total + lanes) * less
        for j in range(begin, end, block):
            weight = exp(load(scratch, j) - most)
            together = together + weight
            store(scratch, j, weight)
        if last:
            together = splat(np.float32(1)) / together
            less = less * together
            for j in range(begin, end, block):
                store(scratch, j, load(scratch, j) * together)
        store(scratch, largest + lanes, most)
        store(scratch, total + lanes, together)
        store(scratch, shrink + lanes, less)


@kernel
def _weigh_backward(scratch, weights, d_scores, count, block, largest, inverse, mean, scale):
    """Turn (count, block) scores into weights, and their changes into those of the scores.

    These are each weight times its own change less the weighted mean of all changes.
    """
    for lanes in range(0, block, LANES):
        most, share = load(scratch, largest + lanes), load(scratch, inverse + lanes)
        usual = load(scratch, mean + lanes)
        for j in range(lanes, lanes + count * block, block):
            weight = exp(load(scratch, weights + j) - most) * share
            store(scratch, weights + j, weight)
            d_score = (load(scratch, d_scores + j) - usual) * splat(scale)
            store(scratch, d_scores + j, weight * d_score)


@kernel
def frame_scratch(length, width):
    """The floats that a frame of that many rows needs, forward and backward."""
    rows, keys = length + TWO, min(length, KEYS)
    return 5 * _lot(length, width) + LANES * COLUMNS + rows * (3 + 2 * width) + 2 * keys * TWO


@njit(inline="always")
def _lot(length, width):
    """The floats of the keys, or the values, that are brought together."""
    return KEYS * width if length > KEYS else 0


@njit(inline="always")
def _hide(hidden, row, first, rows, seen, count, scratch, scores, block):
    """Hidden keys among ``seen ..`` get no score from queries among ``first ..`` that are not."""
    if hidden.shape[0] > 0:
        for j in range(count):
            if hidden[row + seen + j]:
                for lane in range(rows):
                    if not hidden[row + first + lane]:
                        scratch[scores + j * block + lane] = _UNSEEN


@njit(inline="always")
def _scale(rows, at, width, number):
    for d in range(at, at + width):
        rows[d] *= number
