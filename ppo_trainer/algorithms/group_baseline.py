"""Advantages without the luck that rows with the same random numbers have in common."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppo_trainer.config import GROUP

__all__ = ["less_shared_luck"]

F64 = npt.NDArray[np.float64]


def less_shared_luck(advantages: F64, rows: npt.NDArray[np.int64], group: int = GROUP) -> F64:
    """Subtract from each advantage what the other rows of its group had in the same step.

    A_i - c B_i, where B_i is the mean advantage of the other rows of the group in the same step,
    and c the coefficient of the regression of A on B. A row's choice does not change B, so that the
    gradient keeps its mean, and loses the variance of everything that happens in all rows alike,
    such as arrivals. Where a group has nothing in common, c is about 0.

    Args:
        advantages: Advantages of K decisions in order of time. Shape: (K,).
        rows: Row of each decision. Shape: (K,), int64.
        group: Number of consecutive rows in a group.

    Returns:
        The differences. Shape: (K,), float64.

    Source:
        Mao et al., "Variance reduction for reinforcement learning in input-driven environments",
        2018, arXiv:1807.02264; a regression in place of several learned baselines.
    """
    if not len(rows):
        return advantages
    # Rows that step together have their n-th decisions of a rollout in the same step.
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows)
    number = np.empty(len(rows), np.int64)
    number[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = rows // group * (counts.max() + 1) + number
    _, step = np.unique(step, return_inverse=True)
    total, members = np.bincount(step, advantages), np.bincount(step)
    others = np.maximum(members[step] - 1, 1)
    luck = np.where(members[step] > 1, (total[step] - advantages) / others, 0.0)
    spread = luck - luck.mean()
    variance = float(spread @ spread)
    share = float(spread @ advantages) / variance if variance else 0.0
    return np.asarray(advantages - min(max(share, 0.0), 1.0) * luck)
