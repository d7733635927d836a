"""A process that runs a copy of the network in the rows that it plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from entity_env import Metric, VecEnv
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.collect import Collector, collect
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.experience.row_memory import RowMemory
from ppo_trainer.experience.trajectories import Decisions, Trajectories
from ppo_trainer.machine.device import use_threads
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import RaggedNet

__all__ = ["Played", "RolloutWorker"]


@dataclass(frozen=True)
class Played:
    """A rollout of a rollout worker.

    Args:
        trajectories: Decisions and their outcomes.
        version: Number of updates of the network that made them.
        metrics: Metrics of the episodes that ended.
        truncated: Number of these episodes that a limit cut off.
    """

    trajectories: Trajectories
    version: int
    metrics: Mapping[str, Metric]
    truncated: int


class RolloutWorker:
    """A copy of the network, and the rows that it plays.

    Args:
        config: Settings of the run.
        make_rows: Function that makes the rows.
        seed: Seed of the network's draws.
    """

    def __init__(self, config: TrainConfig, make_rows: Callable[[], VecEnv], seed: int) -> None:
        device = torch.device("cpu")
        use_threads(config, device)
        self._config, self._rows = config, (rows := make_rows())
        self._net = RaggedNet(rows.obs_space(), rows.action_space(), config.net, config.value_net)
        self._generator = torch.Generator().manual_seed(derived_seed(seed, "actions"))
        self._buffer = RolloutBuffer(len(rows), config.rollout.steps)
        self._memory = RowMemory(self._net, len(rows))
        self._pending: Decisions | None = None
        self._version: int | None = None
        self._obs = rows.reset()

    def rollout(self, weights: Mapping[str, Tensor], version: int) -> Played:
        """Play a rollout with the given weights, which have had ``version`` updates."""
        self._net.load_state_dict(weights)
        if self._pending is not None and self._version is not None:
            # The buffer counts each rollout as one update.
            self._pending = self._pending.later(version - self._version - 1)
        self._version = version
        own = Collector(self._net, self._generator, self._buffer, self._memory, self._pending)
        (found,) = collect([own], self._rows, self._obs, self._config, Stopwatch())
        self._obs, self._pending = found.next_obs, found.pending
        decisions = found.trajectories.decisions
        # A copy, because the buffer is used again while Ray sends the decisions.
        whole = decisions.select(torch.arange(len(decisions)).numpy())
        trajectories = replace(found.trajectories, decisions=whole)
        return Played(trajectories, version, found.metrics, found.truncated)
