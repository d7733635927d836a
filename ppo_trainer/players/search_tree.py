"""The tree of a search: positions, counts of choices, and rules that pick a choice."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["ChoiceCounts", "SearchNode", "SearchTree", "ValueRange"]

F64 = npt.NDArray[np.float64]


@dataclass
class ValueRange:
    """The least and the greatest value in a tree.

    Values are scaled to 0 to 1 before they are compared, so that the unit of the rewards does not
    change the amount of exploration.
    """

    least: float = math.inf
    most: float = -math.inf

    def note(self, value: float) -> None:
        """Widen the range to ``value``."""
        self.least, self.most = min(self.least, value), max(self.most, value)

    def scale(self, values: F64) -> F64:
        """Return the values scaled from 0 to 1, and clipped."""
        if self.most <= self.least:
            return np.zeros_like(values)
        return np.clip((values - self.least) / (self.most - self.least), 0.0, 1.0)


@dataclass
class ChoiceCounts:
    """The choices of one player in one position.

    Args:
        indices: See ``ActorChoices.indices``. Shape: (C,).
        prior: Probabilities of the choices by the guide. Shape: (C,).
        value: Return that the guide expects from this position on.

    Attributes:
        visits: Number of visits of each choice. Shape: (C,).
        total: Sum of the returns of these visits. Shape: (C,).
    """

    indices: npt.NDArray[np.int64]
    prior: F64
    value: float

    def __post_init__(self) -> None:
        """Set the counts to 0."""
        self.visits, self.total = np.zeros(len(self.indices)), np.zeros(len(self.indices))

    def note(self, choice: int, value: float) -> None:
        """Count a visit of ``choice`` with return ``value``."""
        self.visits[choice] += 1
        self.total[choice] += value

    def puct(self, exploration: float, seen: ValueRange) -> int:
        """Return the choice to visit next with a guide; unvisited ones have the position's value.

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
        """Return the mean value of each choice, scaled to 0 to 1. Shape: (C,)."""
        mean = np.full(len(self.indices), self.value)
        np.divide(self.total, self.visits, out=mean, where=self.visits > 0)
        return seen.scale(mean)


SeatT = TypeVar("SeatT", bound=ChoiceCounts)


@dataclass
class SearchNode(Generic[SeatT]):
    """A position in which some seats must act, or the end of the game.

    Args:
        seats: Choices of each seat that must act.
        value: Expected return of each seat from this position on, where it is known.
        state: State from which the game is played on.
        following: Next position and rewards, for each combination of choices.
    """

    seats: dict[int, SeatT] = field(default_factory=dict)
    value: dict[int, float] = field(default_factory=dict)
    state: Any = None
    following: dict[tuple[int, ...], tuple[SearchNode[SeatT], dict[int, float]]] = field(
        default_factory=dict
    )


Pick: TypeAlias = Callable[[int, Mapping[int, SeatT], ValueRange], int]
"""A function from a seat, the counts of all seats that act, and its range of values to a choice."""


class SearchTree(Generic[SeatT]):
    """A search tree.

    Args:
        root: Position in which a choice is wanted.
    """

    def __init__(self, root: SearchNode[SeatT]) -> None:
        self.root = root
        self._seen: defaultdict[int, ValueRange] = defaultdict(ValueRange)

    def walk(self, pick: Pick[SeatT]) -> list[tuple[SearchNode[SeatT], dict[int, int]]]:
        """Return a path from the root: positions, and the choice of each seat that acts in them.

        The next position after the path is unknown, or the path ends at the end of the game.
        """
        path, node = [], self.root
        while node.seats:
            picked = {seat: pick(seat, node.seats, self._seen[seat]) for seat in node.seats}
            path.append((node, picked))
            after = node.following.get(tuple(picked.values()))
            if after is None:
                break
            node = after[0]
        return path

    def note(
        self, path: list[tuple[SearchNode[SeatT], dict[int, int]]], gamma: float = 1.0
    ) -> None:
        """Add the returns to the counts of all choices on a path."""
        node, picked = path[-1]
        later = node.following[tuple(picked.values())][0].value
        for node, picked in reversed(path):
            rewards = node.following[tuple(picked.values())][1]
            later = {
                seat: rewards.get(seat, 0.0) + gamma * later.get(seat, 0.0)
                for seat in {*rewards, *later}
            }
            for seat, own in node.seats.items():
                value = later.get(seat, 0.0)
                own.note(picked[seat], value)
                self._seen[seat].note(value)
