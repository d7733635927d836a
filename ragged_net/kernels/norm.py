"""LayerNorm over the rows of flat float32 arrays.

Sums over a row, divisions and roots take long to arrive. So ``LANES`` rows go through each step
together: nothing waits for the row before, and one division serves all of them.
"""

from __future__ import annotations

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.linear import CHUNK
from ragged_net.kernels.vector import LANES, fma, load, root, splat, store, total

__all__ = ["normalize", "normalize_backward"]

EPSILON = 1e-5
"""The number that LayerNorm adds to the variance, as torch does."""
MEAN, INVERSE, GRADIENT, PRODUCT = 0, LANES, 2 * LANES, 3 * LANES
"""Places of the numbers for each of ``LANES`` rows: the mean, and 1 / the deviation, of the row;
the means of g and of g x' (see ``normalize_backward``)."""


@inner
def normalize(x, start, rows, dim, gain, bias, y):
    """LayerNorm of ``rows`` rows of x from ``start`` on, written to the beginning of y."""
    facts = np.zeros(2 * LANES, np.float32)
    for first in range(0, rows, LANES):
        count = min(LANES, rows - first)
        _moments(x, start + first * dim, count, dim, facts)
        for i in range(count):
            at, to = start + (first + i) * dim, (first + i) * dim
            mean, inverse = splat(facts[MEAN + i]), splat(facts[INVERSE + i])
            for d in range(0, dim, LANES):
                normal = (load(x, at + d) - mean) * inverse
                store(y, to + d, fma(normal, load(gain, d), load(bias, d)))


@inner
def normalize_backward(d_y, x, start, rows, dim, gain, d_x, d_gain, d_bias):
    """Add to ``d_x``, ``d_gain`` and ``d_bias`` what comes through a LayerNorm of x.

    x is read from ``start`` on, ``d_y`` and ``d_x`` from their beginning.

    With x' the normalised row and g = d_y * gain: d_x = (g - mean(g) - x' mean(g x')) / deviation
    (Ba, Kiros and Hinton 2016, arXiv:1607.06450).
    """
    zero, share = splat(np.float32(0)), splat(np.float32(1 / dim))
    facts = np.zeros(4 * LANES, np.float32)
    sums = np.zeros(2 * dim, np.float32)  # of d_gain, then of d_bias
    for first in range(0, rows, LANES):
        count = min(LANES, rows - first)
        _moments(x, start + first * dim, count, dim, facts)
        for i in range(count):
            at, to = start + (first + i) * dim, (first + i) * dim
            mean, inverse = splat(facts[MEAN + i]), splat(facts[INVERSE + i])
            sum_g, sum_gx = zero, zero
            for d in range(0, dim, LANES):
                change, normal = load(d_y, to + d), (load(x, at + d) - mean) * inverse
                store(sums, d, fma(change, normal, load(sums, d)))
                store(sums, dim + d, load(sums, dim + d) + change)
                g = change * load(gain, d)
                sum_g, sum_gx = sum_g + g, fma(g, normal, sum_gx)
            facts[GRADIENT + i], facts[PRODUCT + i] = total(sum_g), total(sum_gx)
        store(facts, GRADIENT, load(facts, GRADIENT) * share)
        store(facts, PRODUCT, load(facts, PRODUCT) * share)
        for i in range(count):
            at, to = start + (first + i) * dim, (first + i) * dim
            mean, inverse = splat(facts[MEAN + i]), splat(facts[INVERSE + i])
            mean_g, mean_gx = splat(facts[GRADIENT + i]), splat(facts[PRODUCT + i])
            for d in range(0, dim, LANES):
                normal = (load(x, at + d) - mean) * inverse
                g = load(d_y, to + d) * load(gain, d)
                change = fma(g - mean_g - normal * mean_gx, inverse, load(d_x, to + d))
                store(d_x, to + d, change)
        if first % CHUNK == CHUNK - LANES or first + count == rows:
            for d in range(0, dim, LANES):
                store(d_gain, d, load(d_gain, d) + load(sums, d))
                store(d_bias, d, load(d_bias, d) + load(sums, dim + d))
                store(sums, d, zero)
                store(sums, dim + d, zero)


@inner
def _moments(x, start, count, dim, facts):
    """Write the ``MEAN`` and ``INVERSE`` of up to ``LANES`` rows."""
    share = splat(np.float32(1 / dim))
    for i in range(count):
        sums = splat(np.float32(0))
        for d in range(start + i * dim, start + (i + 1) * dim, LANES):
            sums = sums + load(x, d)
        facts[MEAN + i] = total(sums)
    store(facts, MEAN, load(facts, MEAN) * share)
    for i in range(count):
        mean, squares = splat(facts[MEAN + i]), splat(np.float32(0))
        for d in range(start + i * dim, start + (i + 1) * dim, LANES):
            centred = load(x, d) - mean
            squares = fma(centred, centred, squares)
        facts[INVERSE + i] = total(squares)
    deviation = root(load(facts, INVERSE) * share + splat(np.float32(EPSILON)))
    store(facts, INVERSE, splat(np.float32(1)) / deviation)
