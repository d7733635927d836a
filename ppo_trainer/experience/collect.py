"""Collection of decisions from the rows of a VecEnv, until they suffice for an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from entity_env import Metric, VecEnv, VecObs
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import check_final
from entity_env.errors import EntityEnvError
from entity_env.metrics import merge_columns
from entity_env.wrappers.staggered_start import STAGGERED
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.acting import (
    RowMemory,
    act,
    answers_in_order,
    autocast,
    check_output,
    take_frames,
    value,
)
from ppo_trainer.experience.acting_graph import ActingGraphs
from ppo_trainer.experience.rollout import Decisions, Trajectories
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import EntityBatch, NetOutput, RaggedNet, RaggedTensor
from ragged_net.observed import choices_for

__all__ = ["Collected", "Collector", "autocast", "check_output", "collect"]


CPU = torch.device("cpu")
MOST_IDLE_STEPS = 100_000
"""The maximum number of consecutive steps in which no row must act."""

Ints = npt.NDArray[np.int64]


class Searcher(Protocol):
    """A search that improves the decisions of a network."""

    def improve(
        self, obs: VecObs, output: NetOutput, generator: torch.Generator
    ) -> tuple[NetOutput, Mapping[str, RaggedTensor]]:
        """Return the output with better choices and values, and ``Decisions.targets``."""


@dataclass(frozen=True)
class Collector:
    """A network that collects experience.

    Args:
        net: The network.
        generator: Random number generator of its actions, on the device of the network.
        buffer: Rollout buffer of the network, for all R rows.
        memory: Memory of the network for all R rows.
        pending: Decisions of the last rollout whose outcome was open at its end.
        graphs: Passes of the network as CUDA graphs, where possible.
        search: Search for better decisions; None takes those of the network.
    """

    net: RaggedNet
    generator: torch.Generator
    buffer: RolloutBuffer
    memory: RowMemory
    pending: Decisions | None = None
    graphs: ActingGraphs | None = None
    search: Searcher | None = None


@dataclass(frozen=True)
class Collected:
    """The complete decisions of a network in a rollout, and the observation that follows.

    Args:
        trajectories: Decisions whose outcome is known. They use the memory of the collector's
            buffer until the next rollout begins.
        pending: Decisions whose outcome is still open, with which the next rollout begins.
        next_obs: Observation with which the next rollout begins.
        metrics: Metrics of the episodes that ended. Those of a population are in its first result.
        num_truncated: Number of these episodes that a limit cut off, in the first result, too.
        numbers: Further numbers for the log, by name.
    """

    trajectories: Trajectories
    pending: Decisions | None
    next_obs: VecObs
    metrics: Mapping[str, Metric]
    num_truncated: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)


@torch.no_grad()
def collect(
    collectors: Sequence[Collector],
    env: VecEnv,
    obs: VecObs,
    config: TrainConfig,
    clock: Stopwatch,
    agreed: Callable[[bool], bool] = bool,
) -> list[Collected]:
    """Play on from ``obs`` until ``config.frames_per_update`` decisions have an outcome.

    If all rows act in all steps, these are ``config.rollout.steps`` steps. Several networks collect
    equal parts. A row's rewards belong to the network that decided last in the row; no other
    network has an open decision there.

    Args:
        collectors: One network, or those of a population.
        env: The rows; for a population ``PopulationRows``, which know the owner of each row.
        obs: Last observation of the rows.
        config: Settings of the run.
        clock: Stopwatch of the phases.
        agreed: Function called at each step with True if the rollout is complete here. Returns True
            if the rollout ends, on which several processes may have to agree.

    Returns:
        One result for each network.

    Raises:
        NonFiniteError: A network has diverged.
        EntityEnvError: No row acts any more, or never a row of one of the networks.
    """
    wanted = -(-config.rollout.steps * len(env) // len(collectors))
    ended: list[Mapping[str, npt.NDArray[np.float64]]] = []
    idle = 0
    for collector in collectors:
        collector.buffer.begin(collector.pending)
    collectors = [
        collector
        if collector.graphs is None or collector.graphs.begin(collector.generator.device)
        else _without(collector)
        for collector in collectors
    ]
    while True:
        places = _places(obs, env, len(collectors))
        pairs = list(zip(collectors, places, strict=True))
        if agreed(
            all(_is_full(collector.buffer, obs.rows[mine], wanted) for collector, mine in pairs)
        ):
            break
        idle = 0 if obs.num_frames else idle + 1
        if idle > MOST_IDLE_STEPS:
            raise EntityEnvError(
                f"no row had to act in {MOST_IDLE_STEPS:,} steps",
                expected="rows that must act (VecObs.rows)",
            )
        answers = [_decide(collector, _part(obs, mine), config, clock) for collector, mine in pairs]
        actions = answers_in_order(answers, places)
        with clock("env"):
            obs = env.act(actions)
        check_final(obs)
        for collector in collectors:
            collector.buffer.observe(obs, collector.memory.of(np.flatnonzero(obs.truncated)))
            collector.memory.cut(obs.done)
        if obs.metrics:
            ended.append(_of_whole_episodes(obs.metrics))
    results = [_outcome(collector, obs, mine, config, clock) for collector, mine in pairs]
    metrics = merge_columns(ended, len(obs))
    return [
        replace(results[0], metrics=metrics),
        *(replace(result, num_truncated=0) for result in results[1:]),
    ]


def _without(collector: Collector) -> Collector:
    return replace(collector, graphs=None)


def _of_whole_episodes(
    metrics: Mapping[str, npt.NDArray[np.float64]],
) -> Mapping[str, npt.NDArray[np.float64]]:
    """Return the metrics without the episodes that were cut off to stagger the rows."""
    if STAGGERED not in metrics:
        return metrics
    whole = np.isnan(metrics[STAGGERED])
    return {k: np.where(whole, column, np.nan) for k, column in metrics.items() if k != STAGGERED}


def _places(obs: VecObs, env: VecEnv, count: int) -> list[Ints]:
    """Return the places of each network's frames among all frames."""
    if count == 1:
        return [np.arange(obs.num_frames)]
    owner = env.owner[obs.rows]  # type: ignore[attr-defined]
    return [np.flatnonzero(owner == number) for number in range(count)]


def _part(obs: VecObs, places: Ints) -> VecObs:
    return obs if len(places) == obs.num_frames else take_frames(obs, places)


def _is_full(buffer: RolloutBuffer, asked: Ints, wanted: int) -> bool:
    return len(buffer) >= wanted and buffer.num_complete(asked) >= wanted


def _decide(
    collector: Collector, obs: VecObs, config: TrainConfig, clock: Stopwatch
) -> Mapping[str, ActionBuffer]:
    """Return the choices of a network in the frames of ``obs``, and store the decisions."""
    if not obs.num_frames:
        return {}
    device = collector.generator.device
    looked_at = device.type != "cpu"
    with clock("batch"):
        batch = EntityBatch.from_obs(obs)
        if looked_at:  # checked on the CPU; a check on the GPU would wait for it
            collector.net.check(batch)
    if collector.graphs is not None:
        with clock("inference"):
            acted = collector.graphs.act(batch, collector.generator)
        if acted is not None:
            with clock("batch"):
                collector.buffer.decide(obs.rows, acted.batch, acted.output)
            return choices_for(obs, acted.chosen)
    with clock("batch"):
        batch = batch.to(device)
    with clock("inference"), autocast(device, config):
        state = collector.memory.of(obs.rows)
        output = check_output(act(collector.net, batch, collector.generator, state, looked_at))
    targets = None
    if collector.search is not None:
        with clock("search"):
            output, targets = collector.search.improve(obs, output, collector.generator)
    with clock("batch"):
        actions = output.actions_for(obs)
        collector.buffer.decide(obs.rows, batch, output, state, targets)
        collector.memory.keep(obs.rows, output.memory)
    return actions


def _outcome(
    collector: Collector, obs: VecObs, places: Ints, config: TrainConfig, clock: Stopwatch
) -> Collected:
    """Return the decisions of a network whose outcome is known at ``obs``, and the open ones."""
    device, shown = collector.generator.device, _part(obs, places)
    # One pass for all values, because most steps cut off only one or two episodes.
    with clock("batch"):
        seen = [
            EntityBatch.from_obs(one).without_actions() for one in [*collector.buffer.finals, shown]
        ]
        batch = EntityBatch.cat(seen).to(device)
    with clock("inference"), autocast(device, config):
        state = collector.memory.of(shown.rows)
        states = None if state is None else torch.cat([*collector.buffer.final_states, state])
        values = value(collector.net, batch, rows=len(obs), memory=states).float().cpu().numpy()
    finals = len(values) - shown.num_frames
    with clock("batch"):
        complete, waiting = collector.buffer.complete(values[:finals], values[finals:], shown.rows)
    return Collected(complete, waiting, obs, {}, finals)
