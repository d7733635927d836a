"""The PPO loss and its gradient in one pass: torch needs dozens of operations for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entity_env.storage.inner import inner
from ragged_net.compiled.kernels.jit import kernel

__all__ = ["Facts", "measure"]

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


class Facts(NamedTuple):
    """The inputs of the losses that do not come from the network.

    Args:
        log_prob: (A,) of each choice, of all actions, when it was made.
        frame_of: (A,)
        actors: (B,), how many each frame has.
        advantages: (B,)
        values: (B,), when the frames were played.
        returns: (B,)
        frames: What sums over frames are divided by.
        weight: What sums over the weights of actors are divided by.
        clip: How far ratios, and with ``clip_value`` values, may move.
        clip_value: See ``clip``.
        per_frame: Ratios are those of whole frames.
        by_actor: Each actor has the same weight; else those of a frame share one.
    """

    log_prob: Floats
    frame_of: Integers
    actors: Integers
    advantages: Floats
    values: Floats
    returns: Floats
    frames: float
    weight: float
    clip: np.float32
    clip_value: bool
    per_frame: bool
    by_actor: bool


@kernel
def measure(
    log_prob: Floats,
    entropy: Floats,
    value: Floats,
    facts: Facts,
    numbers: Floats,
    d_log_prob: Floats,
    d_entropy: Floats,
    d_value: Floats,
) -> None:
    """Write ``NAMES`` of ``losses.py`` (5,), and the gradients of the first three.

    Args:
        log_prob: (A,) now; its number is the policy loss.
        entropy: (A,); its number is their mean.
        value: (B,); its number is the value loss.
        facts: All else.
        numbers: (5,), written.
        d_log_prob: (A,), written, as the other gradients.
        d_entropy: (A,)
        d_value: (B,)
    """
    sums = np.zeros(5)
    for b in range(value.shape[0]):
        loss, slope = _value_loss(value[b], facts.values[b], facts.returns[b], facts)
        sums[2] += 0.5 * loss / facts.frames
        d_value[b] = slope / facts.frames
    products = np.zeros(value.shape[0], np.float32)  # of each frame's ratios, as logarithms
    for a in range(log_prob.shape[0]):
        b = facts.frame_of[a]
        weight = (1 if facts.by_actor else 1 / facts.actors[b]) / facts.weight
        sums[1] += weight * entropy[a]
        d_entropy[a] = weight
        log_ratio = log_prob[a] - facts.log_prob[a]
        if facts.per_frame:
            products[b] += log_ratio
        else:
            d_log_prob[a] = _add_ratio(log_ratio, facts.advantages[b], weight, facts.clip, sums)
    if facts.per_frame:
        for b in range(value.shape[0]):
            if facts.actors[b]:
                weight = (facts.actors[b] if facts.by_actor else 1) / facts.weight
                advantage = facts.advantages[b]
                products[b] = _add_ratio(products[b], advantage, weight, facts.clip, sums)
        for a in range(log_prob.shape[0]):
            d_log_prob[a] = products[facts.frame_of[a]]
    for i in range(sums.shape[0]):  # compiles in a third of the time of numbers[:] = sums
        numbers[i] = sums[i]


@inner
def _value_loss(
    value: np.float32, old: np.float32, target: np.float32, facts: Facts
) -> tuple[np.float32, np.float32]:
    """Return the squared error, and half its slope."""
    error, moved = value - target, value - old
    # Within the range the two errors differ by rounding only, which must not decide the slope.
    if facts.clip_value and not -facts.clip <= moved <= facts.clip:
        clipped = old + min(max(moved, -facts.clip), facts.clip) - target
        if clipped * clipped > error * error or np.isnan(clipped):
            return clipped * clipped, np.float32(0)  # it does not move with the value
    return error * error, error


@inner
def _add_ratio(
    log_ratio: np.float32,
    advantage: np.float32,
    weight: float,
    clip: np.float32,
    sums: npt.NDArray[np.float64],
) -> np.float32:
    """Add a ratio's share to ``sums``; the slope of the policy loss over its logarithm."""
    ratio = np.exp(log_ratio)
    free = ratio * advantage
    one = np.float32(1)  # an int would make float64 of the bounds, which then round otherwise
    bound = min(max(ratio, one - clip), one + clip) * advantage
    stopped = free > bound  # never for NaN, which must show
    sums[0] -= weight * (bound if stopped else free)
    sums[3] += weight * ((ratio - 1) - log_ratio)
    sums[4] += weight * (abs(ratio - 1) > clip)
    return np.float32(0 if stopped else -weight * free)
