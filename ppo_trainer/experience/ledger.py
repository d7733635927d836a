"""The assignment of rewards and ends of episodes to decisions of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Ledger"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Ledger:
    """The decisions of all rows in order of time, with the rewards and ends that followed.

    A reward belongs to the last decision of its row in that episode, also if the row does not act
    for a while. A reward before the first decision of an episode belongs to no decision; only the
    metrics of the episode contain it.

    Args:
        num_rows: The number of rows R.
    """

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows
        self._open = np.full(num_rows, -1)
        self._rows, self._rewards, self._ends = _columns(16 * num_rows)
        self._count = 0

    def __len__(self) -> int:
        """Return the number of decisions K."""
        return self._count

    @property
    def rows(self) -> Ints:
        """The row of each decision. Shape: (K,)."""
        return self._rows[: self._count]

    @property
    def rewards(self) -> npt.NDArray[np.float32]:
        """The sum of the rewards of each decision so far. Shape: (K,), float32."""
        return self._rewards[: self._count]

    @property
    def ends(self) -> Bools:
        """True if the row's episode ended after the decision. Shape: (K,)."""
        return self._ends[: self._count]

    def clear(self) -> None:
        """Remove all decisions, so that no row has an open one."""
        self._open.fill(-1)
        self._count = 0

    def decide(self, rows: Ints, paid: npt.NDArray[np.float32] | None = None) -> None:
        """Add a decision of each of these rows. It completes the row's open decision.

        Args:
            rows: Rows that act. Shape: (B,).
            paid: Rewards that the decisions have had already. Shape: (B,); None stands for 0.
        """
        start, end = self._count, self._count + len(rows)
        if end > len(self._rows):
            old = self.rows, self.rewards, self.ends
            self._rows, self._rewards, self._ends = _columns(2 * end)
            self.rows[:], self.rewards[:], self.ends[:] = old
        self._rows[start:end] = rows
        self._rewards[start:end] = 0.0 if paid is None else paid
        self._ends[start:end] = False
        self._open[rows] = np.arange(start, end)
        self._count = end

    def observe(self, reward: npt.NDArray[np.float32], done: Bools) -> Ints:
        """Add rewards and ends, and return the last decision of each row, or -1. Shape: (R,).

        Args:
            reward: Shape: (R,).
            done: True if the row's episode has ended. Shape: (R,).
        """
        decided = self._open.copy()
        rows = np.flatnonzero(decided >= 0)
        self._rewards[decided[rows]] += reward[rows]
        if done.any():
            ended = decided[done]
            self._ends[ended[ended >= 0]] = True
            self._open[done] = -1
        return decided

    def waiting(self, asked: Ints) -> Ints:
        """Return the open decisions of rows outside of ``asked``, in order of time. Shape: (W,)."""
        is_open = self._open >= 0
        is_open[asked] = False
        return np.sort(self._open[is_open])


def _columns(size: int) -> tuple[Ints, npt.NDArray[np.float32], Bools]:
    return np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size, np.bool_)
