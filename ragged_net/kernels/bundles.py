"""The end of the last block: the rows that heads read, and the mean of each frame.

The second layer of an MLP is linear, so its result for a sum of rows is the sum of its results. The
rows of a frame that nobody reads one by one are therefore added up before it, and are one row from
there on, forward and backward. Such rows are a *bundle*; a row that somebody reads is one alone. A
long frame has several bundles: one float32 sum of 10,000 equal rows would be off by 0.02%.
"""

from __future__ import annotations

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.linear import add_weight_gradient, linear
from ragged_net.kernels.plan import first_row, frames_in, length_in, row_step
from ragged_net.kernels.tile import ADD, SET
from ragged_net.kernels.vector import LANES, fma, load, splat, store, where_positive

__all__ = ["finish", "finish_backward", "room_for_bundles"]

_MOST = 64
"""The most rows of a frame that a bundle may span."""


@inner
def room_for_bundles(rows, size):
    """Room for the bundles of so many rows, and for their sums; a bundle has a row at least."""
    return np.empty(rows, np.int64), np.empty(rows * size, np.float32)


@inner
def finish(
    hidden, start, inputs, rows, dim, size, panels, plan, group, end, places, room, normal, y
):
    """Write the results of a tile: ``inputs + hidden @ panels`` by bundles (see ``_hand_out``).

    Args:
        hidden: The hidden layer (rows, M), from ``start`` on.
        start: Index of the first number of the hidden layer.
        inputs: (rows, D) what is added to the product.
        rows: Of the tile.
        dim: D.
        size: M.
        panels: The packed weight.
        plan: See ``plan.py``.
        group: The first group of the tile.
        end: The group after its last one.
        places: (N,) int64: where a row is read in y, or -1.
        room: From ``room_for_bundles``.
        normal: Room for (rows, D).
        y: Written.
    """
    (bundles, sums), zero = room, np.int64(0)  # see ``block.py``
    count = _bundle(plan, group, end, places, bundles)
    _add_up(hidden, start, rows, size, bundles, sums)
    _add_up(inputs, zero, rows, dim, bundles, normal)
    linear(sums, zero, count, size, panels, normal, zero, dim, ADD, normal, zero, dim)
    _hand_out(normal, plan, group, end, places, bundles, dim, y)


@inner
def finish_backward(
    d_y, hidden, start, rows, dim, size, panels, plan, group, end, places, room, normal, d_own,
    d_hidden, gradient, scratch,
):  # fmt: skip
    """Compute the gradient of ``finish`` and of the ReLU before it.

    ``d_own`` (rows, D) and ``d_hidden`` (rows, M) are written, the weight's ``gradient`` is added
    to, for which ``scratch`` is a ``gradient_scratch``.
    """
    (bundles, sums), zero = room, np.int64(0)  # see ``block.py``
    count = _bundle(plan, group, end, places, bundles)
    _give_back(d_y, plan, group, end, places, bundles, dim, d_own, normal)
    linear(normal, zero, count, dim, panels, sums, zero, size, SET, sums, zero, size)
    _spread(sums, bundles, hidden, start, rows, size, d_hidden)
    _add_up(hidden, start, rows, size, bundles, sums)
    add_weight_gradient(normal, zero, count, dim, sums, zero, size, gradient, scratch)


@inner
def _bundle(plan, group, end, places, bundles):
    """Assign numbers to the bundles of a tile, in the order of their first rows.

    Args:
        plan: See ``plan.py``.
        group: The first group.
        end: The group after the last one.
        places: (N,) int64: where a row is read, or -1.
        bundles: Written: the bundle of each row of the tile.

    Returns:
        The number of bundles.
    """
    start, count = first_row(plan, group, 0, True), 0
    shared = np.empty(LANES, np.int64)
    for g in range(group, end):
        for k in range(length_in(plan, g)):
            if k % _MOST == 0:
                shared[:] = -1
            for i in range(frames_in(plan, g)):
                row = first_row(plan, g, i, True) + k * row_step(plan, g, True) - start
                alone = places[first_row(plan, g, i, False) + k] >= 0
                if alone or shared[i] < 0:
                    bundles[row] = count
                    if not alone:
                        shared[i] = count
                    count += 1
                else:
                    bundles[row] = shared[i]
    return count


@inner
def _add_up(x, start, rows, columns, bundles, sums):
    """Write the sum of each bundle's rows of x (rows, columns), from ``start`` on, to sums."""
    count = 0
    for row in range(rows):
        at, to = start + row * columns, bundles[row] * columns
        if bundles[row] == count:
            count += 1
            for d in range(0, columns, LANES):
                store(sums, to + d, load(x, at + d))
        else:
            for d in range(0, columns, LANES):
                store(sums, to + d, load(sums, to + d) + load(x, at + d))


@inner
def _spread(d_sums, bundles, x, start, rows, columns, d_x):
    """Write the gradient of ``_add_up`` for rows x that came out of a ReLU, through both."""
    for row in range(rows):
        at, source = row * columns, bundles[row] * columns
        for d in range(0, columns, LANES):
            store(d_x, at + d, where_positive(load(x, start + at + d), load(d_sums, source + d)))


@inner
def _hand_out(sums, plan, group, end, places, bundles, dim, y):
    """Add a tile's bundles to the means of their frames, and write those that are read.

    Args:
        sums: The bundles' rows (count, D); parts of the means are added up in them.
        plan: See ``_bundle``, as for ``group``, ``end``, ``places`` and ``bundles``.
        group: The first group.
        end: The group after the last one.
        places: Those of the rows in y.
        bundles: Of the tile's rows.
        dim: D.
        y: First the means (B, D), which are added to, then the rows that are read.
    """
    start = first_row(plan, group, 0, True)
    for g in range(group, end):
        share = splat(np.float32(1 / length_in(plan, g)))
        for i in range(frames_in(plan, g)):
            mean = plan.order[plan.groups[g] + i] * dim
            part = added = np.int64(-1)
            for k in range(length_in(plan, g)):
                row = first_row(plan, g, i, True) + k * row_step(plan, g, True) - start
                place, source = places[first_row(plan, g, i, False) + k] * dim, bundles[row] * dim
                if place < 0:
                    if source == added:
                        continue
                    added = source
                else:
                    for d in range(0, dim, LANES):
                        store(y, place + d, load(sums, source + d))
                if k % _MOST:
                    for d in range(0, dim, LANES):
                        store(sums, part + d, load(sums, part + d) + load(sums, source + d))
                else:
                    _add_share(sums, part, share, dim, y, mean)
                    part = source
            _add_share(sums, part, share, dim, y, mean)


@inner
def _add_share(sums, part, share, dim, y, mean):
    """Add a frame's ``share`` of the row at ``part``, if there is one, to its mean."""
    if part >= 0:
        for d in range(0, dim, LANES):
            store(y, mean + d, fma(load(sums, part + d), share, load(y, mean + d)))


@inner
def _give_back(d_y, plan, group, end, places, bundles, dim, d_rows, d_sums):
    """Write the gradient of ``_hand_out`` for each row of the tile and for each bundle."""
    start = first_row(plan, group, 0, True)
    for g in range(group, end):
        share = splat(np.float32(1 / length_in(plan, g)))
        for i in range(frames_in(plan, g)):
            mean = plan.order[plan.groups[g] + i] * dim
            for k in range(length_in(plan, g)):
                row = first_row(plan, g, i, True) + k * row_step(plan, g, True) - start
                place = places[first_row(plan, g, i, False) + k] * dim
                for d in range(0, dim, LANES):
                    change = load(d_y, mean + d) * share
                    if place >= 0:
                        change = change + load(d_y, place + d)
                    store(d_rows, row * dim + d, change)
                    store(d_sums, bundles[row] * dim + d, change)
