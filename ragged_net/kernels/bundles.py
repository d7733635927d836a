"""The end of the last block: the rows that heads read, and the mean of each frame.

The second layer of an MLP is linear, so its result for a sum of rows is the sum of its results. The
rows of a frame that nobody reads one by one are therefore added up before it, and are one row from
there on, forward and backward. Such rows are a *bundle*; a row that somebody reads is one alone.
"""

from __future__ import annotations

import numpy as np

from ragged_net.kernels.inner import inner
from ragged_net.kernels.plan import first_row, frames_in, length_in, row_step
from ragged_net.kernels.vector import LANES, fma, load, splat, store, where_positive

__all__ = ["add_up", "bundle", "give_back", "hand_out", "spread"]


@inner
def bundle(plan, group, end, places, bundles):
    """Number the bundles of a tile, from the group up to ``end``, in the order of their first rows.

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
        shared[:] = -1
        for k in range(length_in(plan, g)):
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
def add_up(x, start, rows, columns, bundles, sums):
    """The sum of each bundle's rows: x (rows, columns) from ``start`` on -> sums."""
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
def spread(d_sums, bundles, x, start, rows, columns, d_x):
    """The gradient of ``add_up`` for rows x that came out of a ReLU, through both."""
    for row in range(rows):
        at, source = row * columns, bundles[row] * columns
        for d in range(0, columns, LANES):
            store(d_x, at + d, where_positive(load(x, start + at + d), load(d_sums, source + d)))


@inner
def hand_out(sums, plan, group, end, places, bundles, dim, y):
    """Add a tile's bundles to the means of their frames, and write those that are read.

    Args:
        sums: The bundles' rows (count, D).
        plan: See ``bundle``, as for ``group``, ``end``, ``places`` and ``bundles``.
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
            mean, others = plan.order[plan.groups[g] + i] * dim, False
            for k in range(length_in(plan, g)):
                row = first_row(plan, g, i, True) + k * row_step(plan, g, True) - start
                place = places[first_row(plan, g, i, False) + k] * dim
                if place < 0 and others:
                    continue  # the bundle has been added
                others = others or place < 0
                for d in range(0, dim, LANES):
                    own = load(sums, bundles[row] * dim + d)
                    store(y, mean + d, fma(own, share, load(y, mean + d)))
                    if place >= 0:
                        store(y, place + d, own)


@inner
def give_back(d_y, plan, group, end, places, bundles, dim, d_rows, d_sums):
    """The gradient of ``hand_out``: for each row of the tile, and for each bundle."""
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
