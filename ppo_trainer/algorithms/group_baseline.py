"""Several solutions of one instance as each other's baseline, instead of a learned value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.trajectories import Trajectories

__all__ = ["GroupReturns"]

F64 = npt.NDArray[np.float64]


class GroupReturns:
    """The returns of the episodes of rows that play the same instances, from rollout to rollout.

    Rows ``i * copies`` to ``(i + 1) * copies - 1`` are a group: their k-th episodes are the same
    instance. The return of an episode is the discounted sum of its rewards from its beginning, so
    far as it has been played; where it still goes on, the value of the next frame stands for the
    rest. Rows need not keep step: returns are kept until the whole group has ended the episode.

    Args:
        num_rows: R, a multiple of ``copies``.
        copies: How many rows a group has.

    Source:
        Kool, van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019; with
        a shared mean: Kwon et al. 2020 (POMO), arXiv:2010.16011; divided by the deviation: Shao et
        al. 2024 (GRPO), arXiv:2402.03300.
    """

    def __init__(self, num_rows: int, copies: int) -> None:
        self.copies = copies
        self.episode = np.zeros(num_rows, np.int64)
        """The number of episodes that each row has ended."""
        self.paid = np.zeros(num_rows)
        """The discounted rewards of each row's open episode, up to the last rollout."""
        self.decided = np.zeros(num_rows, np.int64)
        """The number of that episode's decisions with rewards here."""
        self.ended: dict[tuple[int, int], dict[int, float]] = {}
        """By group and episode, the returns of the rows that have ended it."""

    @classmethod
    def of(cls, config: PPOConfig, num_rows: int, copies: int) -> GroupReturns | None:
        """Return an empty one, or None if the value function is the baseline."""
        return None if config.baseline == "value" else cls(num_rows, copies)

    def advantages(
        self, trajectories: Trajectories, by_value: F64, gamma: float, *, normalized: bool
    ) -> F64:
        """Return by how much each decision's episode beats those of its group.

        All decisions of an episode get the same. Where no other row has begun the episode, there is
        nothing to compare with, and the advantages by the value function stay.

        Args:
            trajectories: K decisions. They are noted: each rollout is to be given once.
            by_value: The advantages that the value function leads to. Shape: (K,).
            gamma: The discount for each decision.
            normalized: Whether differences from the mean of the whole group are divided by its
                deviation; else they are differences from the mean of the others.

        Returns:
            The advantages. Shape: (K,), float64.
        """
        rows = trajectories.decisions.rows
        rewards = trajectories.decisions.rewards.astype(np.float64)
        rewards += gamma * trajectories.final_values
        episode_of = np.zeros(len(rows), np.int64)
        for k, (row, reward) in enumerate(zip(rows.tolist(), rewards.tolist(), strict=True)):
            episode_of[k] = self.episode[row]
            self.paid[row] += gamma ** self.decided[row] * reward
            self.decided[row] += 1
            if trajectories.ends[k]:
                where = row // self.copies, int(self.episode[row])
                self.ended.setdefault(where, {})[row] = float(self.paid[row])
                self.paid[row] = self.decided[row] = 0
                self.episode[row] += 1
        open_returns = self.paid + gamma**self.decided * trajectories.next_values
        found = self._compared(open_returns, normalized=normalized)
        advantages = np.array(by_value, np.float64)
        for k, where in enumerate(zip(rows.tolist(), episode_of.tolist(), strict=True)):
            advantages[k] = found.get(where, advantages[k])
        self._forget()
        return advantages

    def _compared(self, open_returns: F64, *, normalized: bool) -> dict[tuple[int, int], float]:
        """Return the advantage of each row and episode that is not alone in its group."""
        returns = {where: dict(own) for where, own in self.ended.items()}
        for row in np.flatnonzero(self.decided).tolist():
            where = row // self.copies, int(self.episode[row])
            returns.setdefault(where, {})[row] = float(open_returns[row])
        found = {}
        for (_, episode), own in returns.items():
            count, mean = len(own), sum(own.values()) / len(own)
            if count < 2:
                continue
            if normalized:
                deviation = float(np.std(list(own.values())))
                scale = 1 / (deviation + 1e-8)
            else:
                scale = count / (count - 1)  # the mean of the others instead of that of all
            for row, value in own.items():
                found[row, episode] = scale * (value - mean)
        return found

    def _forget(self) -> None:
        """Episodes that a whole group has ended: nobody is compared with them any more."""
        groups = self.episode.reshape(-1, self.copies).min(1)
        self.ended = {
            (group, episode): own
            for (group, episode), own in self.ended.items()
            if episode >= groups[group]
        }

    def get_state(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "episode": self.episode.tolist(),
            "paid": self.paid.tolist(),
            "decided": self.decided.tolist(),
            "ended": [
                [group, episode, list(own), list(own.values())]
                for (group, episode), own in self.ended.items()
            ],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with it.

        Raises:
            ValueError: It is that of other rows.
        """
        episode = np.array(state["episode"], np.int64)
        if episode.shape != self.episode.shape:
            raise ValueError(f"the baseline is that of {len(episode)} rows")
        self.episode = episode
        self.paid = np.array(state["paid"], np.float64)
        self.decided = np.array(state["decided"], np.int64)
        self.ended = {
            (int(group), int(number)): dict(zip(map(int, rows), map(float, values), strict=True))
            for group, number, rows, values in state["ended"]
        }
