"""Comparisons of trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from entity_env.errors import counted

__all__ = ["Difference", "difference"]


@dataclass(frozen=True)
class Difference:
    """The mean difference between the scores of two trials with the same seeds.

    Args:
        mean: Mean difference; 0 without a common seed, minus infinity if a training failed.
        error: Standard error of the mean; infinite if fewer than two differences are known.
        seeds: Number of common seeds.
    """

    mean: float
    error: float
    seeds: int

    @property
    def is_better(self) -> bool:
        """True if the mean difference is positive and exceeds its standard error."""
        return self.mean > self.error

    def __str__(self) -> str:
        """Return the mean, its standard error and the number of seeds as text."""
        return f"{self.mean:+.3g} +- {self.error:.2g} ({counted(self.seeds, 'seed')})"


def difference(scores: Sequence[float], others: Sequence[float]) -> Difference:
    """Return the mean difference ``scores - others`` over the seeds that both have.

    Args:
        scores: Scores, in the order of the seeds.
        others: Scores of the other trial, likewise.
    """
    own = [one - other for one, other in zip(scores, others, strict=False)]
    if not all(map(math.isfinite, own)):
        return Difference(-math.inf, math.inf, len(own))
    error = stdev(own) / math.sqrt(len(own)) if len(own) > 1 else math.inf
    return Difference(fmean(own or [0.0]), error, len(own))
