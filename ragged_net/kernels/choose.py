"""Masked categorical distributions: what many actors choose, in one pass over their logits."""

from __future__ import annotations

import numpy as np

from entity_env.errors import ActionError
from ragged_net.kernels.jit import kernel

__all__ = ["choose", "choose_backward"]

NEVER = np.float32(-np.inf)
TINY = np.finfo(np.float32).tiny
"""Noise of exactly 0 would choose what has no probability."""


@kernel
def choose(logits, mask, noise, greedy, chosen, log_prob, entropy, probs):
    """Compute the softmax over each actor's allowed choices, and choose from it.

    The choice with the largest ratio of probability to exponential noise is a draw from the
    distribution: of exponential clocks, each rings first as often as its rate is of all rates.

    Args:
        logits: (A, C) float32.
        mask: (A, C) bool.
        noise: (A, C) float32, standard exponential, to draw with; (0, C) draws nothing.
        greedy: Take the most probable choice, where nothing is drawn; otherwise choices are given.
        chosen: (A,) int64, given or written.
        log_prob: (A,) float32, written: of the choice, -inf where it is forbidden.
        entropy: (A,) float32, written.
        probs: (A, C) float32, written; 0 where forbidden.
    """
    actors, choices = logits.shape
    for a in range(actors):
        top = NEVER
        for c in range(choices):
            if mask[a, c] and logits[a, c] > top:
                top = logits[a, c]
        total = np.float32(0)
        for c in range(choices):
            probs[a, c] = np.exp(logits[a, c] - top) if mask[a, c] else np.float32(0)
            total += probs[a, c]
        log_total = np.log(total)  # not added to the top: large logits would swallow it
        spread, first, best, largest = np.float32(0), True, 0, NEVER
        for c in range(choices):
            if not mask[a, c]:
                continue
            probs[a, c] /= total
            spread -= probs[a, c] * (logits[a, c] - top - log_total)
            rate = probs[a, c]
            if noise.shape[0]:
                rate /= max(noise[a, c], TINY)
            if first or rate > largest:
                first, best, largest = False, c, rate
        if noise.shape[0] or greedy:
            chosen[a] = best
        else:
            best = chosen[a]
            if not 0 <= best < choices:
                raise ActionError("a choice that does not exist")
        entropy[a] = spread
        log_prob[a] = logits[a, best] - top - log_total if mask[a, best] else NEVER


@kernel
def choose_backward(mask, chosen, probs, d_log_prob, d_entropy, d_probs, d_logits):
    """Write the gradient (A, C) of the logits.

    With log-probabilities l, probabilities p and entropy H: dl_c / dx_k = [c = k] - p_k,
    dH / dx_k = -p_k (l_k + H), dp_c / dx_k = p_c ([c = k] - p_k).
    """
    actors, choices = probs.shape
    for a in range(actors):
        spread, mean = np.float32(0), np.float32(0)
        for c in range(choices):
            p = probs[a, c]
            mean += p * d_probs[a, c]
            if p > 0:
                spread -= p * np.log(p)
        for c in range(choices):
            p = probs[a, c]
            change = p * (d_probs[a, c] - mean - d_log_prob[a])
            if p > 0:
                change -= d_entropy[a] * p * (np.log(p) + spread)
            d_logits[a, c] = change
        choice = chosen[a]
        if not 0 <= choice < choices:
            raise ActionError("a choice that has been changed before the backward pass")
        if mask[a, choice]:
            d_logits[a, choice] += d_log_prob[a]
