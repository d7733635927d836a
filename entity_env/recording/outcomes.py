"""Outcomes of recorded decisions of rows that wait: rewards until the next decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Outcomes"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of the K decisions in T steps of R rows.

    Args:
        steps: The step of each decision. Shape: (K,).
        rows: Its row. Shape: (K,).
        reward: What it was paid until the row's next decision, or its end. Shape: (K,), float32.
        done: The row's episode ended after it. Shape: (K,).
        truncated: A limit ended it. Shape: (K,).
        early: For each row what it was paid, before its first decision and its first end in these
            steps: it belongs to a decision before them. Shape: (R,), float32.
        early_done: Its episode ended before its first decision in these steps. Shape: (R,).
        early_truncated: A limit ended it. Shape: (R,).
        unseen: Neither happened: what follows belongs to a decision before them, too. Shape: (R,).
        open: For each row its last decision where that waits for more, else -1. Shape: (R,).
        ends: The steps and rows of all ends. Shape: (E, 2), in order of time.
    """

    steps: Ints
    rows: Ints
    reward: Floats
    done: Bools
    truncated: Bools
    early: Floats
    early_done: Bools
    early_truncated: Bools
    unseen: Bools
    open: Ints
    ends: Ints

    @classmethod
    def of(cls, asked: Sequence[Ints], reward: Floats, done: Bools, truncated: Bools) -> Outcomes:
        """Sort out whose is what.

        Args:
            asked: For each of T steps the rows that decide. Shape of each: (B,).
            reward: What each step led to. Shape: (T, R).
            done: Shape: (T, R).
            truncated: Shape: (T, R).
        """
        count, rows = sum(map(len, asked)), reward.shape[1]
        paid = np.zeros(count, np.float32)
        over, cut_off = np.zeros((2, count), np.bool_)
        early = np.zeros(rows, np.float32)
        early_done, early_truncated = np.zeros((2, rows), np.bool_)
        last, unseen = np.full(rows, -1), np.ones(rows, np.bool_)
        first = 0
        for t, who in enumerate(asked):
            last[who] = np.arange(first, first + len(who))
            unseen[who] = False
            first += len(who)
            decided = np.flatnonzero(last >= 0)
            paid[last[decided]] += reward[t, decided]
            early[unseen] += reward[t, unseen]
            ended = np.flatnonzero(done[t])
            if not len(ended):
                continue
            mine = ended[last[ended] >= 0]
            over[last[mine]] = True
            cut_off[last[mine]] = truncated[t, mine]
            theirs = ended[unseen[ended]]
            early_done[theirs] = True
            early_truncated[theirs] = truncated[t, theirs]
            last[ended] = -1
            unseen[ended] = False
        return cls(
            steps=np.repeat(np.arange(len(asked)), [len(who) for who in asked]),
            rows=np.concatenate([np.zeros(0, np.int64), *asked]),
            reward=paid,
            done=over,
            truncated=cut_off,
            early=early,
            early_done=early_done,
            early_truncated=early_truncated,
            unseen=unseen,
            open=last,
            ends=np.argwhere(done),
        )

    def complete(self, later: Outcomes) -> Outcomes:
        """Return the same, with what the steps behind these add to the decisions that are open."""
        rows = np.flatnonzero(self.open >= 0)
        places = self.open[rows]
        self.reward[places] += later.early[rows]
        self.done[places] |= later.early_done[rows]
        self.truncated[places] |= later.early_truncated[rows]
        self.open[rows[~later.unseen[rows]]] = -1
        return self
