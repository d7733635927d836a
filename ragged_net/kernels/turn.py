"""Turning pairs of numbers by angles: what ``model/geometry.py`` has in torch."""

from __future__ import annotations

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.jit import kernel
from ragged_net.kernels.vector import LANES, fma, load, splat, store, swap

__all__ = ["turn_all", "turn_rows"]


@kernel
def turn_all(x, parts, dim, ways, sense, y):
    """``turn_rows`` of all rows of a flat x, written to the flat y; the others are as there."""
    zero = np.int64(0)  # see ``block.py``
    turn_rows(x, zero, x.shape[0] // (parts * dim), parts, dim, ways, sense, y, zero)


@inner
def turn_rows(x, start, rows, parts, dim, ways, sense, y, to):
    """Turn rows of ``parts * dim`` numbers, each part by the same angles.

    Args:
        x: Flat float32.
        start: Index of its first row.
        rows: Their number.
        parts: Number of parts of ``dim`` numbers in a row.
        dim: D, a multiple of ``LANES``.
        ways: (rows * 2 * D) float32: cosines, then signed sines (see ``turn`` in geometry.py).
        sense: 1, or -1 to turn back.
        y: Flat float32, written; may be x.
        to: Index of its first row.
    """
    sign = splat(np.float32(sense))
    for i in range(rows):
        for d in range(0, dim, LANES):
            cos = load(ways, i * 2 * dim + d)
            sin = load(ways, i * 2 * dim + dim + d) * sign
            for part in range(parts):
                at = (i * parts + part) * dim + d
                value = load(x, start + at)
                store(y, to + at, fma(value, cos, swap(value) * sin))
