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

from entity_env.storage.inner import inner
from ragged_net.kernels.head import add_head, block_of, bring, means, panel_of, products, put, turn
from ragged_net.kernels.room import KEYS, room_of
from ragged_net.kernels.vector import LANES, exp, load, maximum, splat, store

__all__ = ["attend_frame", "attend_frame_backward"]

_UNSEEN = np.float32(-1e30)
"""The score of a key that a query may not see; the exponential makes it an exact 0."""


@inner
def attend_frame(
    qkv, start, length, heads, width, scale, hidden, row, out, out_start, softmax, at, scratch
):
    """Attention of one frame.

    Args:
        qkv: Flat float32; rows of 3 * D, D = heads * width.
        start: Index of the first row in qkv.
        length: Rows of the frame.
        heads: H.
        width: D / H, a multiple of 8.
        scale: float32, what a product of query and key is multiplied by.
        hidden: (N,) bool, or empty where nothing is hidden.
        row: The first row of the frame in ``hidden``.
        out: Flat float32, written; rows of D.
        out_start: Index of the first row in ``out``.
        softmax: Flat float32, written: (length, 2, H), the largest score of each row and head, and
            1 / the sum of the exponentials.
        at: Index of the first number written to ``softmax``.
        scratch: ``room_of(length, width).end`` floats.
    """
    dim, room, places = heads * width, room_of(length, width), np.empty(LANES, np.int64)
    for i in range(out_start, out_start + length * dim):
        out[i] = 0
    for head in range(heads):
        _attend_head(
            qkv, start + head * width, dim, length, width, scale, hidden, row,
            out, out_start + head * width, scratch, room, places,
        )  # fmt: skip
        for i in range(length):
            place, inverse_at = at + i * 2 * heads + head, room.inverse + i
            softmax[place], softmax[place + heads] = scratch[room.largest + i], scratch[inverse_at]


@inner
def attend_frame_backward(
    qkv, start, length, heads, width, scale, hidden, row, out, out_start, softmax, at,
    d_out, d_out_start, d_qkv, d_start, scratch,
):  # fmt: skip
    """Write the gradient ``d_qkv``, from ``d_start`` on, of ``attend_frame`` for ``d_out``."""
    dim, room, places = heads * width, room_of(length, width), np.empty(LANES, np.int64)
    for i in range(d_start, d_start + length * 3 * dim):
        d_qkv[i] = 0
    for head in range(heads):
        for i in range(length):
            place, inverse_at = at + i * 2 * heads + head, room.inverse + i
            scratch[room.largest + i], scratch[inverse_at] = softmax[place], softmax[place + heads]
        _attend_head_backward(
            qkv, start + head * width, dim, length, width, scale, hidden, row,
            out, out_start + head * width, d_out, d_out_start + head * width,
            d_qkv, d_start + head * width, scratch, room, places,
        )  # fmt: skip


@inner
def _attend_head(
    qkv, qkv_at, dim, length, width, scale, hidden, row, out, to, scratch, room, places
):  # fmt: skip
    """One head, added to ``out``; the numbers for ``softmax`` are left in the scratch.

    ``qkv_at``, and ``to`` in ``out``, are where its part of the first row starts.
    """
    block, panel, one = block_of(length), panel_of(width), np.int64(1)  # see ``block.py``
    turn(
        qkv,
        qkv_at,
        3 * dim,
        length,
        width,
        scale,
        scratch,
        room.queries,
        block,
        places,
        room.square,
    )
    for seen in range(0, length, KEYS):
        count = min(KEYS, length - seen)
        at_keys = qkv_at + seen * 3 * dim + dim
        source, keys, key_row = qkv, at_keys, 3 * dim
        values, value_row, value_panel = at_keys + dim, 3 * dim, panel
        if length > KEYS:
            source, keys, key_row = scratch, room.lots, width
            values, value_row, value_panel = room.lots + room.lot, panel, panel * count
            bring(qkv, at_keys, 3 * dim, count, width, width, scratch, keys)
            bring(qkv, at_keys + dim, 3 * dim, count, width, panel, scratch, values)
        for first in range(0, length, block):
            rows, query = min(block, length - first), room.queries + first * width
            products(count, width, source, keys, key_row, scratch, query, room.scores, block)
            _hide(hidden, row, first, rows, seen, count, scratch, room.scores, block)
            _weigh(
                scratch, room.scores, count, block, room.largest + first, room.inverse + first,
                room.shrink, seen > 0, seen + count == length,
            )  # fmt: skip
            if seen > 0:
                for lane in range(rows):
                    _scale(out, to + (first + lane) * dim, width, scratch[room.shrink + lane])
            add_head(
                rows, count, width, scratch, room.scores, one, block,
                source, values, value_row, value_panel, out, to + first * dim, dim,
            )  # fmt: skip


@inner
def _attend_head_backward(
    qkv, qkv_at, dim, length, width, scale, hidden, row, out, out_at, d_out, d_at, d_qkv, to,
    scratch, room, places,
):  # fmt: skip
    """Add the gradient of ``_attend_head`` from ``to`` on, with ``softmax`` in the scratch."""
    block, panel = block_of(length), panel_of(width)
    one, unit = np.int64(1), np.float32(1)  # see ``block.py``
    square, changes, mean = room.square, room.changes, room.mean
    turn(qkv, qkv_at, 3 * dim, length, width, scale, scratch, room.queries, block, places, square)
    turn(d_out, d_at, dim, length, width, unit, scratch, changes, block, places, square)
    means(out, out_at, dim, length, width, scratch, changes, mean, block, places, square)
    for seen in range(0, length, KEYS):
        count = min(KEYS, length - seen)
        at_keys, to_keys = qkv_at + seen * 3 * dim + dim, to + seen * 3 * dim + dim
        source, keys, values, stride = qkv, at_keys, at_keys + dim, 3 * dim
        mixed, mixed_row, mixed_panel = at_keys, 3 * dim, panel  # the keys that dQ is mixed of
        target, d_keys, d_values = d_qkv, to_keys, to_keys + dim
        if length > KEYS:
            source, keys, values, stride = scratch, room.lots, room.lots + room.lot, width
            mixed, mixed_row, mixed_panel = values + room.lot, panel, panel * count
            target, d_keys, d_values = scratch, mixed + room.lot, mixed + 2 * room.lot
            bring(qkv, at_keys, 3 * dim, count, width, width, scratch, keys)
            bring(qkv, at_keys + dim, 3 * dim, count, width, width, scratch, values)
            bring(qkv, at_keys, 3 * dim, count, width, panel, scratch, mixed)
            for i in range(d_keys, d_keys + 2 * room.lot):
                scratch[i] = 0
        for first in range(0, length, block):
            rows = min(block, length - first)
            query, change = room.queries + first * width, changes + first * width
            products(count, width, source, keys, stride, scratch, query, room.scores, block)
            _hide(hidden, row, first, rows, seen, count, scratch, room.scores, block)
            products(count, width, source, values, stride, scratch, change, room.d_scores, block)
            _weigh_backward(
                scratch, room.scores, room.d_scores, count, block,
                room.largest + first, room.inverse + first, mean + first, scale,
            )  # fmt: skip
            add_head(
                count, rows, width, scratch, room.scores, block, one,
                d_out, d_at + first * dim, dim, panel, target, d_values, stride,
            )  # fmt: skip
            add_head(
                count, rows, width, scratch, room.d_scores, block, one,
                qkv, qkv_at + first * 3 * dim, 3 * dim, panel, target, d_keys, stride,
            )  # fmt: skip
            add_head(
                rows, count, width, scratch, room.d_scores, one, block,
                source, mixed, mixed_row, mixed_panel, d_qkv, to + first * 3 * dim, 3 * dim,
            )  # fmt: skip
        if length > KEYS:
            put(scratch, d_keys, count, width, d_qkv, to_keys, 3 * dim)
            put(scratch, d_values, count, width, d_qkv, to_keys + dim, 3 * dim)


@inner
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


@inner
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
