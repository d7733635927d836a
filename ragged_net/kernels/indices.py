"""Loops over frames that torch would need several operations for, and memory for each.

Offsets come from tensors that others may write to at any time, even while a kernel runs. Each
kernel therefore copies them, checks its copy, and reads nothing else (``own_offsets``).
"""

from __future__ import annotations

import numpy as np

from entity_env.errors import BatchError
from entity_env.storage.inner import inner
from ragged_net.kernels.jit import kernel

__all__ = [
    "are_sound",
    "features_are_sound",
    "flat_order",
    "frame_ids",
    "gather_rows",
    "number_rows",
    "own_offsets",
    "pair_indices",
]


@inner
def own_offsets(offsets, rows):
    """Return a copy of offsets (B + 1,) int64 that rise from 0 to ``rows``, or raise."""
    copied = offsets.copy()
    last = copied.shape[0] - 1
    if last < 0 or copied[0] != 0 or copied[last] != rows:
        raise BatchError("the offsets of frames do not fit their rows")
    for b in range(last):
        if copied[b + 1] < copied[b]:
            raise BatchError("the offsets of frames fall")
    return copied


@kernel
def frame_ids(offsets, rows):
    """(N,) int64: the frame of each of ``rows`` rows, for offsets (B + 1,) int64."""
    offsets = own_offsets(offsets, rows)
    ids = np.empty(rows, np.int64)
    for b in range(offsets.shape[0] - 1):
        for i in range(offsets[b], offsets[b + 1]):
            ids[i] = b
    return ids


@kernel
def gather_rows(offsets, rows_before, frames):
    """Return the rows (M,) of ``frames`` (K,), and their new offsets (K + 1,).

    There are ``rows_before`` rows, and offsets (B + 1,) int64 say which frames they are of.
    """
    offsets, frames = own_offsets(offsets, rows_before), frames.copy()
    new = np.zeros(frames.shape[0] + 1, np.int64)
    for k in range(frames.shape[0]):
        frame = frames[k]
        if not 0 <= frame < offsets.shape[0] - 1:
            raise BatchError("a frame that the batch does not have")
        new[k + 1] = new[k] + offsets[frame + 1] - offsets[frame]
    rows = np.empty(new[-1], np.int64)
    for k in range(frames.shape[0]):
        shift = offsets[frames[k]] - new[k]
        for i in range(new[k], new[k + 1]):
            rows[i] = i + shift
    return rows, new


@kernel
def flat_order(offsets, rows, with_global):
    """Return the places of the entities of K types when their frames are joined.

    Args:
        offsets: (K, B + 1) int64, of each type; nobody else may write to them.
        rows: (K,) int64: number of entities of each type.
        with_global: True if each frame ends with one more entity.

    Returns:
        Offsets (B + 1,) of the joined frames; the places (N,) of the entities, type by type; the
        places (B,) of the last entities.
    """
    types, frames = offsets.shape[0], offsets.shape[1] - 1
    joined, last = np.zeros(frames + 1, np.int64), np.empty(frames, np.int64)
    starts = np.zeros(types + 1, np.int64)
    for k in range(types):
        own_offsets(offsets[k], rows[k])
        starts[k + 1] = starts[k] + rows[k]
    places = np.empty(starts[types], np.int64)
    place = 0
    for b in range(frames):
        for k in range(types):
            for i in range(starts[k] + offsets[k, b], starts[k] + offsets[k, b + 1]):
                places[i] = place
                place += 1
        last[b] = place
        if with_global:
            place += 1
        joined[b + 1] = place
    return joined, places, last


@kernel
def number_rows(wanted, rows, first):
    """Give each row that is ``wanted`` (A,) a number, in the order of first mention.

    Returns:
        For each of ``rows`` rows its number, counted from ``first`` on, or -1; the numbers (A,) of
        those wanted, counted from 0 on; how many numbers there are.
    """
    numbers, found = np.full(rows, -1, np.int64), np.empty(wanted.shape[0], np.int64)
    count = 0
    for i in range(wanted.shape[0]):
        row = wanted[i]
        if not 0 <= row < rows:
            raise BatchError("an entity that the batch does not have")
        if numbers[row] < 0:
            numbers[row] = first + count
            count += 1
        found[i] = numbers[row] - first
    return numbers, found, count


@kernel
def pair_indices(actor_offsets, actors, actee_offsets, actees):
    """All pairs of an actor and an actee of the same frame, actor-major.

    Args:
        actor_offsets: (B + 1,) int64.
        actors: Number of actors.
        actee_offsets: (B + 1,) int64.
        actees: Number of actees.

    Returns:
        The actor (P,) and the actee (P,) of each pair, and the offsets (B + 1,) of pairs, actors
        and actees, all int64 and nobody else's.
    """
    actor_offsets = own_offsets(actor_offsets, actors)
    actee_offsets = own_offsets(actee_offsets, actees)
    if actor_offsets.shape[0] != actee_offsets.shape[0]:
        raise BatchError("actors and actees of different frames")
    frames = actor_offsets.shape[0] - 1
    offsets = np.zeros(frames + 1, np.int64)
    for b in range(frames):
        count = actor_offsets[b + 1] - actor_offsets[b]
        offsets[b + 1] = offsets[b] + count * (actee_offsets[b + 1] - actee_offsets[b])
    actor, actee = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
    p = 0
    for b in range(frames):
        for a in range(actor_offsets[b], actor_offsets[b + 1]):
            for e in range(actee_offsets[b], actee_offsets[b + 1]):
                actor[p], actee[p] = a, e
                p += 1
    return actor, actee, offsets, actor_offsets, actee_offsets


@kernel
def are_sound(indices, offsets, rows, mask, choices):
    """Return True if actors are rows of their frames that may choose, and may choose what they did.

    Args:
        indices: (A,) int64: the actors.
        offsets: (B + 1,) int64 of their frames.
        rows: (B + 1,) int64: frame b has ``rows[b + 1] - rows[b]`` rows.
        mask: (A, C) bool.
        choices: (A,) int64, or (0,) where nothing has been chosen.
    """
    actors = indices.shape[0]
    offsets = own_offsets(offsets, actors)
    if (
        rows.shape[0] != offsets.shape[0]
        or mask.shape[0] != actors
        or choices.shape[0] not in (0, actors)
    ):
        return False
    for b in range(offsets.shape[0] - 1):
        for a in range(offsets[b], offsets[b + 1]):
            if not 0 <= indices[a] < rows[b + 1] - rows[b]:
                return False
            some = False
            for c in range(mask.shape[1]):
                some = some or mask[a, c]
            if not some:
                return False
            if choices.shape[0]:
                choice = choices[a]
                if not (0 <= choice < mask.shape[1] and mask[a, choice]):
                    return False
    return True


@kernel
def features_are_sound(values, sizes):
    """Return True if features are finite, and discrete ones whole numbers that they may be.

    Args:
        values: (N, F) float32.
        sizes: (F,) int64: n for a discrete feature, which is 0, 1, ..., n - 1; 0 for any other.
    """
    for i in range(values.shape[0]):
        for f in range(sizes.shape[0]):
            value = values[i, f]
            if not np.abs(value) < np.inf:
                return False
            if sizes[f] and not (0 <= value < sizes[f] and value == np.floor(value)):
                return False
    return True
