"""Counts of the choices in one position of a search tree, and the rules that pick one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["ChoiceCounts", "ValueRange"]

F64 = npt.NDArray[np.float64]


@dataclass
class ValueRange:
    """The least and the greatest value that a tree has seen.

    Values are compared on a scale from 0 to 1, so that the unit of the rewards does not decide how
    much is explored.
    """

    least: float = math.inf
    most: float = -math.inf

    def note(self, value: float) -> None:
        """Widen the range to ``value``."""
        self.least, self.most = min(self.least, value), max(self.most, value)

    def scale(self, values: F64) -> F64:
        """Return the values from 0 to 1; those beyond the range as its ends."""
        if self.most <= self.least:
            return np.zeros_like(values)
        return np.clip((values - self.least) / (self.most - self.least), 0.0, 1.0)


@dataclass
class ChoiceCounts:
    """The choices of one player in one position.

    Args:
        indices: The choices, as ``ActorChoices.indices``. Shape: (C,).
        prior: Their probabilities by the guide. Shape: (C,).
        value: The return that the guide expects from here on.

    Attributes:
        visits: The number of visits of each choice. Shape: (C,).
        total: The sum of the returns of these visits. Shape: (C,).
    """

    indices: npt.NDArray[np.int64]
    prior: F64
    value: float

    def __post_init__(self) -> None:
        """Begin without visits."""
        self.visits, self.total = np.zeros(len(self.indices)), np.zeros(len(self.indices))

    def note(self, choice: int, value: float) -> None:
        """Count a visit of a choice, which returned ``value``."""
        self.visits[choice] += 1
        self.total[choice] += value

    def puct(self, exploration: float, seen: ValueRange) -> int:
        """Return the choice to visit next with a guide; an unvisited one has the position's value.

        Source:
            Silver et al., "Mastering the game of Go without human knowledge", 2017; values from 0
            to 1 as in Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with
            a learned model", 2020.
        """
        bonus = self.prior * math.sqrt(self.visits.sum() + 1) / (1 + self.visits)
        return int(np.argmax(self._mean(seen) + exploration * bonus))

    def ucb1(self, exploration: float, seen: ValueRange) -> int:
        """Return the choice to visit next without a guide; each is visited once first.

        Source:
            Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006.
        """
        if (self.visits == 0).any():
            return int(np.argmin(self.visits))
        bonus = np.sqrt(np.log(self.visits.sum()) / self.visits)
        return int(np.argmax(self._mean(seen) + exploration * bonus))

    def _mean(self, seen: ValueRange) -> F64:
        """Return the mean value of each choice, from 0 to 1. Shape: (C,)."""
        mean = np.full(len(self.indices), self.value)
        np.divide(self.total, self.visits, out=mean, where=self.visits > 0)
        return seen.scale(mean)
