"""A baseline from several solutions of one instance, in the place of a learned value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Trajectories

__all__ = ["GroupReturns"]

F64 = npt.NDArray[np.float64]


class GroupReturns:
    """The returns of the episodes of rows that play the same instances, across rollouts.

    Rows ``i * copies`` to ``(i + 1) * copies - 1`` are a group: their k-th episodes play the same
    instance. The return of an episode is the discounted sum of its rewards from its beginning. For
    an episode that has not ended, the value of the next frame stands for the rest. The rows of a
    group need not end their episodes together: returns are kept until the last row has ended the
    episode.

    Args:
        num_rows: Number of rows R, a multiple of ``copies``.
        copies: Number of rows in a group.

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
        """The discounted sum of rewards of each row's open episode, up to the last rollout."""
        self.decided = np.zeros(num_rows, np.int64)
        """The number of decisions with rewards in each row's open episode."""
        self.ended: dict[tuple[int, int], dict[int, float]] = {}
        """Returns of the rows that have ended an episode, by group and episode."""

    @classmethod
    def of(cls, config: PPOConfig, num_rows: int, copies: int) -> GroupReturns | None:
        """Return an empty object, or None if the value function is the baseline."""
        return None if config.baseline == "value" else cls(num_rows, copies)

    def advantages(
        self, trajectories: Trajectories, by_value: F64, gamma: float, *, normalized: bool
    ) -> F64:
        """Return the differences between the return of each decision's episode and its group's.

        All decisions of an episode get the same advantage. Where no other row has begun the
        episode, the advantages by the value function are returned.

        Args:
            trajectories: K decisions. Their rewards are stored, so each rollout must be given once.
            by_value: Advantages by the value function. Shape: (K,).
            gamma: Discount factor for each decision.
            normalized: True for differences from the mean of the whole group, divided by its
                standard deviation; False for differences from the mean of the other rows.

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
        """Return the advantage of each row and episode that other rows of its group have begun."""
        returns = {where: dict(episodes) for where, episodes in self.ended.items()}
        for row in np.flatnonzero(self.decided).tolist():
            where = row // self.copies, int(self.episode[row])
            returns.setdefault(where, {})[row] = float(open_returns[row])
        found = {}
        for (_, episode), members in returns.items():
            count, mean = len(members), sum(members.values()) / len(members)
            if count < 2:
                continue
            if normalized:
                deviation = float(np.std(list(members.values())))
                scale = 1 / (deviation + 1e-8)
            else:
                scale = count / (count - 1)  # from the mean of all to the mean of the others
            for row, value in members.items():
                found[row, episode] = scale * (value - mean)
        return found

    def _forget(self) -> None:
        """Remove the returns of episodes that a whole group has ended."""
        groups = self.episode.reshape(-1, self.copies).min(1)
        self.ended = {
            (group, episode): member_returns
            for (group, episode), member_returns in self.ended.items()
            if episode >= groups[group]
        }

    def get_state(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {
            "episode": self.episode.tolist(),
            "paid": self.paid.tolist(),
            "decided": self.decided.tolist(),
            "ended": [
                [group, episode, list(member_returns), list(member_returns.values())]
                for (group, episode), member_returns in self.ended.items()
            ],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of ``get_state``.

        Raises:
            ValueError: The state has another number of rows.
        """
        episode = np.array(state["episode"], np.int64)
        if episode.shape != self.episode.shape:
            raise ValueError(f"the state of the group baseline has {len(episode)} rows")
        self.episode = episode
        self.paid = np.array(state["paid"], np.float64)
        self.decided = np.array(state["decided"], np.int64)
        self.ended = {
            (int(group), int(number)): dict(zip(map(int, rows), map(float, values), strict=True))
            for group, number, rows, values in state["ended"]
        }
