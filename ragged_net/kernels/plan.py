"""In which order a batch's frames are worked on, and which of them together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.indices import own_offsets
from ragged_net.kernels.jit import kernel
from ragged_net.kernels.vector import LANES

__all__ = [
    "Plan",
    "first_row",
    "frames_in",
    "largest_tile",
    "length_in",
    "make_plan",
    "row_step",
    "tile_end",
]

LONGEST_IN_LANES = 32
"""Longer frames fill vectors on their own."""
TILE = 64
"""Rows that go through a block together, at least; more do not fit the cache."""


class Plan(NamedTuple):
    """Frames sorted by length, in groups; frames without rows are left out.

    In the sorted order the rows of a group lie side by side: the first one of each frame, then the
    second ones. With one frame after the other, the rows that share a vector could be a multiple of
    4 KB apart, and would compete for the same few places of the cache.

    Args:
        order: (F,) int64: the frame that comes at each place.
        origins: (F,) int64: its first row in the batch.
        starts: (F + 1,) int64: how many rows of the sorted order the frames before it have.
        groups: (G + 1,) int64: the places at which the groups begin. All frames of a group have one
            length.
        in_lanes: (G,) bool: up to ``LANES`` frames share vectors; else the group is a single frame.
        kept: (G + 1,) int64: where the numbers that attention keeps of each group begin, counted in
            numbers for each head.
        longest: Of all frames; and of those in lanes.
        longest_in_lanes: See ``longest``.
    """

    order: np.ndarray
    origins: np.ndarray
    starts: np.ndarray
    groups: np.ndarray
    in_lanes: np.ndarray
    kept: np.ndarray
    longest: int
    longest_in_lanes: int


@kernel
def make_plan(offsets, rows, may_share):
    """Return the plan for frames of ``rows`` rows with offsets (B + 1,) int64.

    ``may_share`` allows frames to share vectors, which know nothing of hidden rows.
    """
    offsets = own_offsets(offsets, rows)
    frames = offsets.shape[0] - 1
    longest, filled = 0, 0
    for b in range(frames):
        length = offsets[b + 1] - offsets[b]
        longest = max(longest, length)
        filled += length > 0
    order, origins = np.empty(filled, np.int64), np.empty(filled, np.int64)
    starts, groups = np.zeros(filled + 1, np.int64), np.zeros(filled + 1, np.int64)
    in_lanes, kept = np.empty(filled, np.bool_), np.zeros(filled + 1, np.int64)
    places = _first_places(offsets, longest)
    for b in range(frames):
        length = offsets[b + 1] - offsets[b]
        if length > 0:
            order[places[length]] = b
            origins[places[length]] = offsets[b]
            places[length] += 1
    place, group, longest_in_lanes = 0, 0, 0
    while place < filled:
        length = offsets[order[place] + 1] - origins[place]
        count = min(LANES, places[length] - place)
        # With few frames most lanes would idle: one frame at a time is then faster.
        share = length <= LONGEST_IN_LANES and 2 * count >= min(length, LANES) and may_share
        if share:
            longest_in_lanes = length
        else:
            count = 1
        for i in range(place, place + count):
            starts[i + 1] = starts[i] + length
        in_lanes[group] = share
        kept[group + 1] = kept[group] + (LANES * length * length if share else 2 * length)
        place, group = place + count, group + 1
        groups[group] = place
    return Plan(
        order, origins, starts, groups[: group + 1], in_lanes[:group], kept[: group + 1],
        longest, longest_in_lanes,
    )  # fmt: skip


@inner
def tile_end(plan, group):
    """Return the group after the last one of the tile that begins with ``group``."""
    end = group + 1
    first = plan.starts[plan.groups[group]]
    while end < plan.in_lanes.shape[0] and plan.starts[plan.groups[end]] - first < TILE:
        end += 1
    return end


@inner
def largest_tile(plan):
    """Return the most rows of a tile, and the most numbers kept for each head of one."""
    rows, kept, group = 0, 0, 0
    while group < plan.in_lanes.shape[0]:
        end = tile_end(plan, group)
        rows = max(rows, plan.starts[plan.groups[end]] - plan.starts[plan.groups[group]])
        kept = max(kept, plan.kept[end] - plan.kept[group])
        group = end
    return rows, kept


@inner
def frames_in(plan, g):
    """Return the number of frames in a group."""
    return plan.groups[g + 1] - plan.groups[g]


@inner
def length_in(plan, g):
    """Return the number of rows of each frame of a group."""
    place = plan.groups[g]
    return plan.starts[place + 1] - plan.starts[place]


@inner
def first_row(plan, g, number, sorted_):
    """Return the first row of frame ``number`` of a group, in the sorted order or the batch."""
    place = plan.groups[g]
    return plan.starts[place] + number if sorted_ else plan.origins[place + number]


@inner
def row_step(plan, g, sorted_):
    """Return the distance from a row of a frame in a group to the frame's next row."""
    return frames_in(plan, g) if sorted_ else 1


@inner
def _first_places(offsets, longest):
    """(longest + 1,) int64: the place of the first frame of each length, shortest first."""
    places = np.zeros(longest + 2, np.int64)
    for b in range(offsets.shape[0] - 1):
        length = offsets[b + 1] - offsets[b]
        if length > 0:
            places[length + 1] += 1
    for length in range(1, longest + 2):
        places[length] += places[length - 1]
    return places
