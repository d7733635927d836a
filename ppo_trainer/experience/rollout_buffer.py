"""The rollout buffer, which grows step by step; the next rollout reuses its memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env import VecObs
from ppo_trainer.experience.rollout import Decisions, Trajectories
from ragged_net import EntityBatch, NetOutput, RaggedTensor
from ragged_net.batch import GrowingBatch
from ragged_net.growing import GrowingRagged, GrowingTensor

__all__ = ["Ledger", "RolloutBuffer"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class RolloutBuffer:
    """The decisions of the rows in a rollout, with their outcomes.

    Args:
        num_rows: Number of rows R.
        steps: Expected number of steps of a rollout.
    """

    def __init__(self, num_rows: int, steps: int) -> None:
        self.finals: list[VecObs] = []
        self._ledger = Ledger(num_rows)
        self._cut_off: list[npt.NDArray[np.int64]] = []
        self._batch = GrowingBatch(steps)
        self._chosen: defaultdict[str, GrowingRagged] = defaultdict(lambda: GrowingRagged(steps))
        self._log_probs: defaultdict[str, GrowingTensor] = defaultdict(lambda: GrowingTensor(steps))
        self._targets: defaultdict[str, GrowingRagged] = defaultdict(lambda: GrowingRagged(steps))
        self._values: list[Tensor] = []
        self.final_states: list[Tensor] = []
        self._memory = GrowingTensor(steps)  # stays empty for a network without memory
        self._remembers = False
        self._staleness = np.zeros(0, np.int64)  # of the decisions of earlier rollouts

    @property
    def num_rows(self) -> int:
        """The number of rows R."""
        return self._ledger.num_rows

    def __len__(self) -> int:
        """Return the number of decisions, including those whose outcome is open."""
        return len(self._ledger)

    def begin(self, pending: Decisions | None = None) -> None:
        """Begin a rollout with the decisions of the last one whose outcome was open."""
        self.finals, self._cut_off = [], []
        self._ledger.clear()
        self._batch.clear()
        for choices in self._chosen.values():
            choices.clear()
        for log_probs in self._log_probs.values():
            log_probs.clear()
        for targets in self._targets.values():
            targets.clear()
        self._values.clear()
        self.final_states = []
        self._memory.clear()
        self._remembers = False
        self._staleness = np.zeros(0, np.int64)
        if pending is not None:
            self._ledger.decide(pending.rows, pending.rewards)
            self._batch.add(pending.batch)
            for name, chosen in pending.chosen.items():
                self._chosen[name].add(chosen)
                self._log_probs[name].add(pending.log_probs[name].values)
            self._values.append(pending.values)
            self._learn(pending.targets)
            self._remember(pending.memory)
            self._staleness = pending.staleness + 1

    def decide(
        self,
        rows: npt.NDArray[np.int64],
        batch: EntityBatch,
        output: NetOutput,
        memory: Tensor | None = None,
        targets: Mapping[str, RaggedTensor] | None = None,
    ) -> None:
        """Add the frames, decisions and memory states (B, W) of these rows (B,).

        ``targets`` are those of ``Decisions``, in all steps of a rollout or in none.
        """
        self._ledger.decide(rows)
        self._batch.add(batch)
        for name, action in output.actions.items():
            self._chosen[name].add(action.chosen)
            self._log_probs[name].add(action.log_prob)
        self._values.append(output.value)
        self._learn(targets)
        self._remember(memory)

    def _learn(self, targets: Mapping[str, RaggedTensor] | None) -> None:
        for name, ragged in (targets or {}).items():
            self._targets[name].add(ragged)

    def _remember(self, memory: Tensor | None) -> None:
        if memory is not None:
            self._memory.add(memory)
            self._remembers = True

    def observe(self, obs: VecObs, memory: Tensor | None = None) -> None:
        """Add the rewards and ends of ``obs``, and the memory states of truncated rows."""
        decided = self._ledger.observe(obs.reward, obs.done)
        if obs.final is not None:
            self.finals.append(obs.final)
            self._cut_off.append(decided[obs.truncated])
            if memory is not None:
                self.final_states.append(memory)

    def num_complete(self, asked: npt.NDArray[np.int64]) -> int:
        """Return the number of decisions that have an outcome once the rows ``asked`` (B,) act."""
        return len(self._ledger) - len(self._ledger.waiting(asked))

    def complete(
        self,
        final_values: npt.NDArray[np.float32],
        next_values: npt.NDArray[np.float32],
        asked: npt.NDArray[np.int64],
    ) -> tuple[Trajectories, Decisions | None]:
        """Return the decisions that have an outcome, and the open ones.

        Args:
            final_values: Values of all frames of ``finals``. Shape: (F,).
            next_values: Values of the frames of the rows that must act now. Shape: (B,).
            asked: Rows that must act now. Shape: (B,).
        """
        ledger = self._ledger
        decisions = Decisions(
            batch=self._batch.all(),
            chosen=(chosen := {name: ragged.all() for name, ragged in self._chosen.items()}),
            log_probs={
                name: ragged.with_values(self._log_probs[name].all())
                for name, ragged in chosen.items()
            },
            values=torch.cat(self._values),
            rows=ledger.rows,
            rewards=ledger.rewards,
            memory=self._memory.all() if self._remembers else None,
            staleness=np.pad(self._staleness, (0, len(ledger) - len(self._staleness))),
            targets={name: column.all() for name, column in self._targets.items()} or None,
        )
        of_finals = np.zeros(len(ledger), np.float32)
        if self._cut_off:
            decided = np.concatenate(self._cut_off)
            of_finals[decided[decided >= 0]] = final_values[decided >= 0]
        following = np.zeros(ledger.num_rows, np.float32)
        following[asked] = next_values
        waiting = ledger.waiting(asked)
        if not len(waiting):
            return Trajectories(decisions, ledger.ends, of_finals, following), None
        pending = decisions.select(waiting)
        following[pending.rows] = pending.values.cpu().numpy()
        kept = np.delete(np.arange(len(ledger)), waiting)
        complete = decisions.select(kept)
        ends, finals = ledger.ends[kept], of_finals[kept]
        return Trajectories(complete, ends, finals, following), pending


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
