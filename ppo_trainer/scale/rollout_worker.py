"""A process that runs a copy of the network in the rows that it plays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from entity_env import Metric, VecEnv
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.experience.collect import Collector, collect
from ppo_trainer.experience.rollout import Decisions, Trajectories
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.machine.device import use_threads
from ppo_trainer.machine.seeding import make_generators
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
        num_truncated: Number of these episodes that a limit cut off.
        idle: Seconds that the worker waited before it.
        rank: Number of the network among all networks.
    """

    trajectories: Trajectories
    version: int
    metrics: Mapping[str, Metric]
    num_truncated: int
    idle: float
    rank: int


class RolloutWorker:
    """A copy of the network, and the rows that it plays.

    Args:
        config: Settings of the run.
        make_rows: Function that makes the rows.
        seed: Seed of the draws of all networks.
        rank: Number of this network among all networks.
    """

    def __init__(
        self, config: TrainConfig, make_rows: Callable[[], VecEnv], seed: int, rank: int = 0
    ) -> None:
        device = torch.device("cpu")
        use_threads(config, device)
        self._config, self._rows = config, (rows := make_rows())
        self._net = RaggedNet(
            rows.obs_space(), rows.action_space(), config.net, config.value_config
        )
        self._generator = make_generators(seed, device, rank).actions
        self._buffer = RolloutBuffer(len(rows), config.rollout.steps)
        self._memory = RowMemory(self._net, len(rows))
        self._pending: Decisions | None = None
        self._version: int | None = None
        self._rank = rank
        self._obs = rows.reset()
        self._ended = time.monotonic()

    def rollout(self, weights: Mapping[str, Tensor], version: int) -> Played:
        """Play a rollout with the given weights, which have had ``version`` updates."""
        idle = time.monotonic() - self._ended
        self._net.load_state_dict(weights)
        if self._pending is not None and self._version is not None:
            # The buffer counts each rollout as one update.
            self._pending = self._pending.later(version - self._version - 1)
        self._version = version
        collector = Collector(self._net, self._generator, self._buffer, self._memory, self._pending)
        (found,) = collect([collector], self._rows, self._obs, self._config, Stopwatch())
        self._obs, self._pending = found.next_obs, found.pending
        decisions = found.trajectories.decisions
        # A copy, because the buffer is used again while Ray sends the decisions.
        whole = decisions.select(np.arange(len(decisions)))
        trajectories = replace(found.trajectories, decisions=whole)
        self._ended = time.monotonic()
        return Played(trajectories, version, found.metrics, found.num_truncated, idle, self._rank)
