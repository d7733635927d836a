"""Triton kernels of attention within frames: forward, and backward for queries and for keys.

A program takes a tile of consecutive rows of one head, whichever frames they belong to, and goes
through the rows from where the first one's frame begins to where the last one's ends. Rows of other
frames among them are masked out. Softmax is computed online (Milakov and Gimelshein 2018), backward
from the logarithms of its sums (Dao et al. 2022, "FlashAttention"), all in powers of 2.

Names: ``rows`` are those of the tile, ``others`` those that the tile is compared with. Capitals are
pointers and constants. ``Qkv`` and its gradient are (N, 3, H, D); ``Mixed``, the result, is
(N, H, D); ``Log`` (H, N) float32 holds the logarithms, ``Inner`` (H, N) the products of each row of
the result with its gradient.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["backward_keys", "backward_queries", "forward"]

NEVER = tl.constexpr(-1e30)
"""Below any score, and no infinity: the difference of two is 0, not NaN."""


@triton.jit
def _tile(Starts, Ends, first, count, TILE: tl.constexpr):
    """Return the rows of a tile, which are there, their frames, and all rows of these frames."""
    row = first + tl.arange(0, TILE)
    there = row < count
    start = tl.load(Starts + row, mask=there, other=0)
    end = tl.load(Ends + row, mask=there, other=0)
    low = tl.load(Starts + first)
    high = tl.load(Ends + tl.minimum(first + TILE, count) - 1)
    return row, there, start, end, low, high


@triton.jit
def _places(row, stride, WIDE: tl.constexpr):
    """Return where the numbers of one head lie (TILE, WIDE)."""
    return row[:, None].to(tl.int64) * stride + tl.arange(0, WIDE)[None, :]


@triton.jit
def _within(there, D: tl.constexpr, WIDE: tl.constexpr):
    """Return which of them are there: heads are padded to a width that Triton multiplies."""
    return there[:, None] & (tl.arange(0, WIDE) < D)[None, :]


@triton.jit
def _scores(rows, others, start, end, other, scale, PRECISION: tl.constexpr):
    """Return the products (TILE, OTHERS), and which pairs are of one frame."""
    products = tl.dot(rows, tl.trans(others), input_precision=PRECISION) * scale
    same = (other[None, :] >= start[:, None]) & (other[None, :] < end[:, None])
    return products, same


@triton.jit(do_not_specialize=["count"])
def forward(
    Qkv, Starts, Ends, Hidden, Mixed, Log, count, scale,
    H: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, TILE: tl.constexpr,
    OTHERS: tl.constexpr, HIDDEN: tl.constexpr, PRECISION: tl.constexpr, LEARNS: tl.constexpr,
):  # fmt: skip
    """Store the result and, if it ``LEARNS``, the logarithms."""
    head = tl.program_id(0) % H
    row, there, start, end, low, high = _tile(
        Starts, Ends, (tl.program_id(0) // H) * TILE, count, TILE
    )
    base = Qkv + head * D
    query = tl.load(base + _places(row, 3 * H * D, WIDE), mask=_within(there, D, WIDE), other=0.0)
    top = tl.full([TILE], NEVER, tl.float32)
    total = tl.zeros([TILE], tl.float32)
    mixed = tl.zeros([TILE, WIDE], tl.float32)
    if HIDDEN:
        row_hidden = tl.load(Hidden + row, mask=there, other=0) != 0
    for at in range(low, high, OTHERS):
        other = at + tl.arange(0, OTHERS)
        known = other < high
        place, inside = _places(other, 3 * H * D, WIDE), _within(known, D, WIDE)
        key = tl.load(base + H * D + place, mask=inside, other=0.0)
        value = tl.load(base + 2 * H * D + place, mask=inside, other=0.0)
        score, sees = _scores(query, key, start, end, other, scale, PRECISION)
        if HIDDEN:
            other_hidden = tl.load(Hidden + other, mask=known, other=0) != 0
            sees = sees & (row_hidden[:, None] | (other_hidden == 0)[None, :])
        score = tl.where(sees, score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        shrinks = tl.exp2(top - higher)
        total = total * shrinks + tl.sum(weight, 1)
        mixed = mixed * shrinks[:, None]
        mixed += tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        top = higher
    total = tl.where(there, total, 1.0)
    tl.store(
        Mixed + head * D + _places(row, H * D, WIDE),
        (mixed / total[:, None]).to(Mixed.dtype.element_ty),
        mask=_within(there, D, WIDE),
    )
    if LEARNS:
        tl.store(Log + head.to(tl.int64) * count + row, top + tl.log2(total), mask=there)


@triton.jit(do_not_specialize=["count"])
def backward_queries(
    Qkv, Starts, Ends, Hidden, Mixed, Log, DMixed, DQkv, Inner, count, scale,
    H: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, TILE: tl.constexpr,
    OTHERS: tl.constexpr, HIDDEN: tl.constexpr, PRECISION: tl.constexpr, FACTOR: tl.constexpr,
):  # fmt: skip
    """Store the gradients of queries, and the inner products, which ``backward_keys`` reads."""
    head = tl.program_id(0) % H
    row, there, start, end, low, high = _tile(
        Starts, Ends, (tl.program_id(0) // H) * TILE, count, TILE
    )
    base = Qkv + head * D
    of_row, inside_own = _places(row, 3 * H * D, WIDE), _within(there, D, WIDE)
    result = head * D + _places(row, H * D, WIDE)
    query = tl.load(base + of_row, mask=inside_own, other=0.0)
    mixed = tl.load(Mixed + result, mask=inside_own, other=0.0)
    d_mixed = tl.load(DMixed + result, mask=inside_own, other=0.0)
    numbers = head.to(tl.int64) * count
    log = tl.load(Log + numbers + row, mask=there, other=0.0)
    inner = tl.sum(mixed.to(tl.float32) * d_mixed.to(tl.float32), 1)
    tl.store(Inner + numbers + row, inner, mask=there)
    if HIDDEN:
        row_hidden = tl.load(Hidden + row, mask=there, other=0) != 0
    d_query = tl.zeros([TILE, WIDE], tl.float32)
    for at in range(low, high, OTHERS):
        other = at + tl.arange(0, OTHERS)
        known = other < high
        place, inside = _places(other, 3 * H * D, WIDE), _within(known, D, WIDE)
        key = tl.load(base + H * D + place, mask=inside, other=0.0)
        value = tl.load(base + 2 * H * D + place, mask=inside, other=0.0)
        score, sees = _scores(query, key, start, end, other, scale, PRECISION)
        if HIDDEN:
            other_hidden = tl.load(Hidden + other, mask=known, other=0) != 0
            sees = sees & (row_hidden[:, None] | (other_hidden == 0)[None, :])
        weight = tl.where(sees, tl.exp2(score - log[:, None]), 0.0)
        d_weight = tl.dot(d_mixed, tl.trans(value), input_precision=PRECISION)
        d_score = weight * (d_weight - inner[:, None])
        d_query += tl.dot(d_score.to(key.dtype), key, input_precision=PRECISION)
    tl.store(
        DQkv + head * D + of_row, (d_query * FACTOR).to(DQkv.dtype.element_ty), mask=inside_own
    )


@triton.jit(do_not_specialize=["count"])
def backward_keys(
    Qkv, Starts, Ends, Hidden, Log, DMixed, DQkv, Inner, count, scale,
    H: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, TILE: tl.constexpr,
    OTHERS: tl.constexpr, HIDDEN: tl.constexpr, PRECISION: tl.constexpr, FACTOR: tl.constexpr,
):  # fmt: skip
    """Take the rows of the tile as keys, the others as queries that see them."""
    head = tl.program_id(0) % H
    row, there, start, end, low, high = _tile(
        Starts, Ends, (tl.program_id(0) // H) * TILE, count, TILE
    )
    base = Qkv + head * D
    of_row, inside_own = _places(row, 3 * H * D, WIDE), _within(there, D, WIDE)
    key = tl.load(base + H * D + of_row, mask=inside_own, other=0.0)
    value = tl.load(base + 2 * H * D + of_row, mask=inside_own, other=0.0)
    numbers = head.to(tl.int64) * count
    if HIDDEN:
        row_hidden = tl.load(Hidden + row, mask=there, other=0) != 0
    d_key = tl.zeros([TILE, WIDE], tl.float32)
    d_value = tl.zeros([TILE, WIDE], tl.float32)
    for at in range(low, high, OTHERS):
        other = at + tl.arange(0, OTHERS)
        known = other < high
        inside = _within(known, D, WIDE)
        query = tl.load(base + _places(other, 3 * H * D, WIDE), mask=inside, other=0.0)
        d_mixed = tl.load(DMixed + head * D + _places(other, H * D, WIDE), mask=inside, other=0.0)
        log = tl.load(Log + numbers + other, mask=known, other=0.0)
        inner = tl.load(Inner + numbers + other, mask=known, other=0.0)
        score, sees = _scores(key, query, start, end, other, scale, PRECISION)
        if HIDDEN:
            other_hidden = tl.load(Hidden + other, mask=known, other=0) != 0
            sees = sees & (other_hidden[None, :] | (row_hidden == 0)[:, None])
        weight = tl.where(sees, tl.exp2(score - log[None, :]), 0.0)
        d_value += tl.dot(weight.to(d_mixed.dtype), d_mixed, input_precision=PRECISION)
        d_weight = tl.dot(value, tl.trans(d_mixed), input_precision=PRECISION)
        d_score = weight * (d_weight - inner[None, :])
        d_key += tl.dot(d_score.to(query.dtype), query, input_precision=PRECISION)
    kind = DQkv.dtype.element_ty
    place = DQkv + head * D + of_row
    tl.store(place + H * D, (d_key * FACTOR).to(kind), mask=inside_own)
    tl.store(place + 2 * H * D, d_value.to(kind), mask=inside_own)
