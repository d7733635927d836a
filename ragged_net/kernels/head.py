"""A head of a frame: its rows brought together, turned, and multiplied."""

from __future__ import annotations

import numpy as np
from numba import njit

from entity_env.storage.inner import inner
from ragged_net.kernels.machine import TILE_COLUMNS
from ragged_net.kernels.tile import SET, add_product, set_product
from ragged_net.kernels.transpose import COLUMNS, load_columns
from ragged_net.kernels.vector import LANES, fma, load, splat, store

__all__ = ["TWO", "add_head", "block_of", "bring", "means", "panel_of", "products", "put", "turn"]

TWO = 2 * LANES
"""The wider block of rows."""


@njit(inline="always")
def block_of(length):
    """Rows that are turned together: one vector of them, or two where there are more."""
    return LANES if length <= LANES else TWO


@njit(inline="always")
def panel_of(width):
    """Columns of values that are worked on together."""
    if width % TILE_COLUMNS == 0:
        return TILE_COLUMNS
    return 16 if width % 16 == 0 else 8


@inner
def bring(rows, at, stride, count, width, panel, scratch, to):
    """Copy (count, width) numbers at ``at`` into panels of so many columns each."""
    for p in range(0, width, panel):
        for i in range(count):
            for d in range(panel):
                scratch[to + (p * count + i * panel) + d] = rows[at + i * stride + p + d]


@inner
def put(scratch, at, count, width, rows, to, stride):
    """Copy panels back to rows: the reverse of ``bring``."""
    for i in range(count):
        for d in range(width):
            rows[to + i * stride + d] = scratch[at + i * width + d]


@inner
def turn(rows, at, stride, length, width, scale, scratch, turned, block, places, room):
    """Write ``scale`` times the rows to ``turned`` (blocks, width, block); the last is filled."""
    for first in range(0, -(-length // block) * block, LANES):
        for lane in range(LANES):
            places[lane] = at + min(first + lane, length - 1) * stride
        to = turned + first // block * block * width + first % block
        for d in range(0, width, COLUMNS):
            load_columns(rows, places, d, scratch, room)
            for i in range(COLUMNS):
                number = load(scratch, room + i * LANES) * splat(scale)
                store(scratch, to + (d + i) * block, number)


@inner
def means(out, at, stride, length, width, scratch, changes, mean, block, places, room):
    """``mean`` (length,): the products of rows of ``out`` with the turned ``changes``."""
    for first in range(0, length, LANES):
        for lane in range(LANES):
            places[lane] = at + min(first + lane, length - 1) * stride
        change = changes + first // block * block * width + first % block
        together = splat(np.float32(0))
        for d in range(0, width, COLUMNS):
            load_columns(out, places, d, scratch, room)
            for i in range(COLUMNS):
                number = load(scratch, change + (d + i) * block)
                together = fma(load(scratch, room + i * LANES), number, together)
        store(scratch, mean + first, together)


@inner
def products(count, width, rows, at, stride, scratch, columns, result, block):
    """(count, block) products of rows with the (width, block) ``columns``, both in the scratch."""
    if block == LANES:
        set_product(
            LANES, count, width, rows, at, stride, 1, scratch, columns, block,
            scratch, result, block, SET, scratch, result, block,
        )  # fmt: skip
    else:
        set_product(
            TWO, count, width, rows, at, stride, 1, scratch, columns, block,
            scratch, result, block, SET, scratch, result, block,
        )  # fmt: skip


@inner
def add_head(
    rows, depth, width, a, a_start, a_row, a_column, b, b_start, b_row, b_panel, c, c_start, c_row
):
    """``C (rows, width) += A @ B``, whose panels of ``panel_of`` columns lie ``b_panel`` apart."""
    panel = panel_of(width)
    for p in range(width // panel):
        at, to = b_start + p * b_panel, c_start + p * panel
        if panel == 8:
            add_product(8, rows, depth, a, a_start, a_row, a_column, b, at, b_row, c, to, c_row)
        elif panel == 16:
            add_product(16, rows, depth, a, a_start, a_row, a_column, b, at, b_row, c, to, c_row)
        else:
            add_product(
                TILE_COLUMNS, rows, depth, a, a_start, a_row, a_column, b, at, b_row, c, to, c_row
            )
