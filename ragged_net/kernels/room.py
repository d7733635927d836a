"""The layout of the scratch for the attention of one frame, forward and backward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.head import TWO
from ragged_net.kernels.transpose import COLUMNS
from ragged_net.kernels.vector import LANES

__all__ = ["KEYS", "Room", "room_of"]

KEYS = 256
"""Keys that are shown to all queries at once. Those of shorter frames are used where they lie."""


class Room(NamedTuple):
    """The first index of each part.

    Args:
        lots: The keys and values of a long frame that are brought together, up to five times.
        lot: The floats of one of them; 0 for a frame whose keys are used where they lie.
        square: Scratch memory of ``turn``.
        shrink: (block,) see ``_weigh``.
        largest: (length,) of each query: the largest score so far.
        inverse: (length,) 1 / the sum of the exponentials, or the sum until all keys are seen.
        mean: (length,) the weighted mean of all changes.
        queries: (blocks, width, block) of one head.
        changes: The same of ``d_out``.
        scores: (keys, block), weights later.
        d_scores: The same of their gradients.
        end: Of it all.
    """

    lots: int
    lot: int
    square: int
    shrink: int
    largest: int
    inverse: int
    mean: int
    queries: int
    changes: int
    scores: int
    d_scores: int
    end: int


@inner
def room_of(length, width):
    """For a frame of so many rows and heads of that width."""
    rows, keys = length + TWO, min(length, KEYS) * TWO
    lot = KEYS * width if length > KEYS else 0
    square = 5 * lot
    shrink = square + LANES * COLUMNS
    largest = shrink + TWO
    inverse, mean, queries = largest + rows, largest + 2 * rows, largest + 3 * rows
    changes, scores = queries + rows * width, queries + 2 * rows * width
    d_scores, end = scores + keys, scores + 2 * keys
    return Room(
        np.int64(0), lot, square, shrink, largest, inverse, mean, queries, changes, scores,
        d_scores, end,
    )  # fmt: skip
