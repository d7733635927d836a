"""Masked distributions over the entities of a frame, one for each of its actors."""

from __future__ import annotations

import numpy as np

from entity_env.errors import BatchError
from entity_env.storage.inner import inner
from ragged_net.kernels.head import TWO, add_head, block_of, panel_of, products, turn
from ragged_net.kernels.indices import own_offsets
from ragged_net.kernels.jit import kernel
from ragged_net.kernels.transpose import COLUMNS
from ragged_net.kernels.vector import LANES, exp, load, maximum, splat, store, total

__all__ = ["select_backward", "select_forward"]

NEVER = np.float32(-np.inf)


@kernel
def select_forward(query, key, actors, actees, width, mask, log_probs):
    """Write the log-softmax of each actor's query times the keys of its frame.

    Args:
        query: (A * D) float32.
        key: (E * D) float32.
        actors: (B + 1,) int64 offsets: whose queries are of frame b.
        actees: (B + 1,) int64 offsets: whose keys are.
        width: D, a multiple of 8; products are divided by its root.
        mask: (P,) bool over pairs of an actor and an actee, frame by frame and actor by actor; or
            empty where all are allowed.
        log_probs: (P,) float32, written; -inf where forbidden.
    """
    actors = own_offsets(actors, query.shape[0] // width)
    actees = own_offsets(actees, key.shape[0] // width)
    _check_pairs(actors, actees, log_probs)
    if mask.shape[0] not in (0, log_probs.shape[0]):
        raise BatchError("a mask that does not fit the pairs")
    scale = np.float32(1 / np.sqrt(width))
    most_actors, most_actees = _most(actors), _most(actees)
    room = np.int64(0)
    row = LANES * COLUMNS
    scores = row + most_actees + LANES
    turned = scores + most_actors * TWO
    scratch = np.empty(turned + (most_actees + TWO) * width, np.float32)
    places = np.empty(LANES, np.int64)
    at = 0
    for frame in range(actors.shape[0] - 1):
        first, count = actors[frame], actors[frame + 1] - actors[frame]
        begin, length = actees[frame], actees[frame + 1] - actees[frame]
        if count == 0 or length == 0:
            continue
        block = block_of(length)
        turn(key, begin * width, width, length, width, scale, scratch, turned, block, places, room)
        for j in range(0, length, block):
            columns = turned + j * width
            products(count, width, query, first * width, width, scratch, columns, scores, block)
            for i in range(count):
                for lane in range(min(block, length - j)):
                    log_probs[at + i * length + j + lane] = scratch[scores + i * block + lane]
        for _ in range(count):
            _log_softmax(log_probs, at, length, mask, scratch, row)
            at += length


@kernel
def select_backward(d_log_probs, log_probs, query, key, actors, actees, width, d_query, d_key):
    """Write the gradients of ``select_forward`` for those of its result (P,).

    What is forbidden has none, whatever is wanted of it.
    """
    actors = own_offsets(actors, query.shape[0] // width)
    actees = own_offsets(actees, key.shape[0] // width)
    _check_pairs(actors, actees, log_probs)
    scale, one = np.float32(1 / np.sqrt(width)), np.int64(1)
    pairs, panel = log_probs.shape[0], panel_of(width)
    d_scores = np.empty(pairs, np.float32)
    d_query[:] = 0
    d_key[:] = 0
    whole = pairs // LANES * LANES
    for i in range(0, whole, LANES):
        store(d_scores, i, exp(load(log_probs, i)))
    for i in range(whole, pairs):
        d_scores[i] = np.exp(log_probs[i])
    at = np.int64(0)
    for frame in range(actors.shape[0] - 1):
        first, count = actors[frame], actors[frame + 1] - actors[frame]
        begin, length = actees[frame], actees[frame + 1] - actees[frame]
        for start in range(at, at + count * length, max(1, length)):
            spread = np.float32(0)
            for i in range(start, start + length):
                if log_probs[i] != NEVER:
                    spread += d_log_probs[i]
            for i in range(start, start + length):
                if log_probs[i] != NEVER:
                    d_scores[i] = (d_log_probs[i] - d_scores[i] * spread) * scale
                else:
                    d_scores[i] = 0
        add_head(
            count, length, width, d_scores, at, length, one,
            key, begin * width, width, panel, d_query, first * width, width,
        )  # fmt: skip
        add_head(
            length, count, width, d_scores, at, one, length,
            query, first * width, width, panel, d_key, begin * width, width,
        )  # fmt: skip
        at += count * length


@inner
def _check_pairs(actors, actees, log_probs):
    """Refuse numbers that are not one for each pair."""
    pairs = 0
    if actors.shape[0] != actees.shape[0]:
        raise BatchError("actors and actees of different frames")
    for frame in range(actors.shape[0] - 1):
        pairs += (actors[frame + 1] - actors[frame]) * (actees[frame + 1] - actees[frame])
    if pairs != log_probs.shape[0]:
        raise BatchError("numbers that are not one for each pair")


@inner
def _log_softmax(values, at, length, mask, scratch, row):
    """In place, over ``length`` values from ``at`` on; ``row`` is room for them in the scratch."""
    for j in range(length):
        allowed = mask.shape[0] == 0 or mask[at + j]
        scratch[row + j] = values[at + j] if allowed else NEVER
    for j in range(length, -(-length // LANES) * LANES):
        scratch[row + j] = NEVER
    most = load(scratch, row)
    for j in range(row + LANES, row + length, LANES):
        most = maximum(most, load(scratch, j))
    store(scratch, 0, most)
    top = scratch[0]
    for lane in range(1, LANES):
        if scratch[lane] > top:  # never if lane 0 is NaN, and NaN elsewhere shows in the sum
            top = scratch[lane]
    sums = splat(np.float32(0))
    for j in range(row, row + length, LANES):
        sums = sums + exp(load(scratch, j) - splat(top))
    log_total = np.log(total(sums))  # not added to the top: large scores would swallow it
    for j in range(length):
        values[at + j] = scratch[row + j] - top - log_total


@inner
def _most(offsets):
    """Return the number of rows of the longest frame."""
    most = 0
    for frame in range(offsets.shape[0] - 1):
        most = max(most, offsets[frame + 1] - offsets[frame])
    return most
