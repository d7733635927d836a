"""Outcomes of recorded decisions: rewards and ends until the row's next decision."""

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
        open: For each row its last decision where that may be paid more later, else -1. Shape:
            (R,).
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
        """Assign rewards and ends to the decisions before them.

        Args:
            asked: For each of T steps the rows that decide, and those that decide next. Shape of
                each: (B,).
            reward: What each step led to. Shape: (T, R).
            done: Shape: (T, R).
            truncated: Shape: (T, R).
        """
        *asked, following = asked
        rows = np.concatenate(asked)
        steps = np.repeat(np.arange(len(asked)), [len(who) for who in asked])
        place = np.full(reward.shape, -1)
        place[steps, rows] = np.arange(len(rows))
        last = np.maximum.accumulate(place)  # the row's last decision, up to each step
        # The last decision whose episode is over, and whether anything happened: before each step.
        nothing = np.full((1, reward.shape[1]), -1)
        closed = np.maximum.accumulate(np.concatenate([nothing, np.where(done, last, -1)]))
        ended = np.logical_or.accumulate(np.concatenate([nothing > 0, done]))
        mine, unseen = last > closed[:-1], (last < 0) & ~ended[:-1]
        paid = np.zeros(len(rows), np.float32)
        np.add.at(paid, last[mine], reward[mine])
        over, cut_off = np.zeros((2, len(rows)), np.bool_)
        over[last[mine & done]] = True
        cut_off[last[mine & done]] = truncated[mine & done]
        left_open = np.where(last[-1] > closed[-1], last[-1], -1)
        left_open[following] = -1
        return cls(
            steps=steps,
            rows=rows,
            reward=paid,
            done=over,
            truncated=cut_off,
            early=np.cumsum(np.where(unseen, reward, 0), axis=0, dtype=np.float32)[-1],
            early_done=(unseen & done).any(axis=0),
            early_truncated=(unseen & done & truncated).any(axis=0),
            unseen=unseen[-1] & ~done[-1],
            open=left_open,
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
