"""The probabilities with which a pool draws its opponents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["after_win", "probabilities"]

Floats = npt.NDArray[np.float64]


def probabilities(choose: str, qualities: Sequence[float]) -> Floats:
    """Return the probability of each opponent, the oldest one first. Shape: (N,).

    Args:
        choose: ``uniform``: equal probabilities. ``recent``: each version half the probability of
            the next one. ``quality``: softmax of the quality scores.
        qualities: Quality scores. Shape: (N,).
    """
    scores = np.asarray(qualities, np.float64)
    if choose == "uniform":
        logits = np.zeros(len(scores))
    elif choose == "recent":
        logits = np.log(2.0) * np.arange(len(scores))
    else:
        logits = scores
    weights = np.exp(logits - logits.max(initial=-np.inf))
    own: Floats = weights / weights.sum()
    return own


def after_win(quality: float, step: float, ratio: float) -> float:
    """Return the quality score of an opponent after it was beaten: ``q - step / (N p)``.

    A loss leaves the score unchanged. The division by the probability compensates for opponents
    that are rarely drawn. Berner et al. 2019, arXiv:1912.06680, appendix N, with step 0.01.

    Args:
        quality: Quality score q before the game.
        step: Amount that a win subtracts.
        ratio: N p, the number of opponents times the probability with which this one was drawn.
    """
    return quality - step / ratio
