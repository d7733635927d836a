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
        rows: The row of each decision. Shape: (K,).
        reward: The rewards until the row's next decision or the end of its episode. Shape: (K,),
            float32.
        done: True if the episode ended after the decision. Shape: (K,).
        truncated: True if a limit ended it. Shape: (K,).
        early: For each row the rewards before its first decision and its first end in these steps,
            which belong to an earlier decision. Shape: (R,), float32.
        early_done: True for rows whose episode ended before their first decision in these steps.
            Shape: (R,).
        early_truncated: True if a limit ended it. Shape: (R,).
        unseen: True for rows without a decision or an end in these steps. Shape: (R,).
        open: For each row its last decision if later rewards may be added to it, else -1. Shape:
            (R,).
        ends: The steps and rows of all ends, in order of time. Shape: (E, 2).
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
            asked: The rows that act in each of T steps and in the step after them. Shape of each:
                (B,).
            reward: The rewards of each step. Shape: (T, R).
            done: Shape: (T, R).
            truncated: Shape: (T, R).
        """
        *asked, following = asked
        rows = np.concatenate(asked)
        steps = np.repeat(np.arange(len(asked)), [len(who) for who in asked])
        place = np.full(reward.shape, -1)
        place[steps, rows] = np.arange(len(rows))
        last = np.maximum.accumulate(place)  # the row's last decision, up to each step
        # For each step, the last decision whose episode is over, or -1 without any.
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
        """Return the outcomes with those that later steps add to the open decisions."""
        rows = np.flatnonzero(self.open >= 0)
        places = self.open[rows]
        self.reward[places] += later.early[rows]
        self.done[places] |= later.early_done[rows]
        self.truncated[places] |= later.early_truncated[rows]
        self.open[rows[~later.unseen[rows]]] = -1
        return self
