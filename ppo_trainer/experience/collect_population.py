"""Plays rows that belong to several networks, and keeps for each what it decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from entity_env import VecObs
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import check_final
from entity_env.metrics import merge_columns
from ppo_trainer.config import TrainConfig
from ppo_trainer.errors import TrainerError
from ppo_trainer.experience.acting import act, value
from ppo_trainer.experience.collect import MOST_IDLE_STEPS, Collected, autocast, check_output
from ppo_trainer.experience.frames import answers_in_order, asked_frames
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.experience.row_memory import RowMemory
from ppo_trainer.experience.tensors import to_actions, to_batch, to_value_batch
from ppo_trainer.experience.trajectories import Decisions
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import RaggedNet

__all__ = ["Collecting", "OwnedRows", "collect_population"]


class OwnedRows(Protocol):
    """Rows of which each belongs to one network."""

    @property
    def owner(self) -> npt.NDArray[np.int64]:
        """The number of the network that decides in each row now. Shape: (R,)."""

    def act(self, actions: Mapping[str, ActionBuffer]) -> VecObs:
        """Play a step, as ``VecEnv.act`` does."""

    def __len__(self) -> int:
        """Return the number of rows R."""


@dataclass(frozen=True)
class Collecting:
    """One of several networks while it plays.

    Args:
        net: The network.
        generator: Draws its actions.
        buffer: The memory of its rollouts, for all R rows.
        memory: What the rows remember, all R of them.
        pending: Decisions of the last rollout whose outcome was open at its end.
    """

    net: RaggedNet
    generator: torch.Generator
    buffer: RolloutBuffer
    memory: RowMemory
    pending: Decisions | None = None


@torch.no_grad()
def collect_population(
    networks: Sequence[Collecting],
    env: OwnedRows,
    obs: VecObs,
    config: TrainConfig,
    clock: Stopwatch,
) -> list[Collected]:
    """Play from ``obs`` on until each network has its part of ``config.frames_per_update``.

    A row's rewards belong to the network that decided last in it: no other has a decision there
    that is open. The metrics of the episodes, and how many were cut off, are in the first result.

    Returns:
        One for each network.

    Raises:
        NonFiniteError: A network has diverged.
        TrainerError: The rows ask nobody any more, or never one of the networks.
    """
    wanted = -(-config.rollout.steps * len(env) // len(networks))
    ended: list[Mapping[str, npt.NDArray[np.float64]]] = []
    idle = 0
    for own in networks:
        own.buffer.begin(own.pending)
    while True:
        places = _places(obs, env, len(networks))
        complete = [
            own.buffer.num_complete(obs.rows[mine])
            for own, mine in zip(networks, places, strict=True)
        ]
        if min(complete) >= wanted:
            break
        idle = 0 if obs.num_frames else idle + 1
        if idle > MOST_IDLE_STEPS:
            raise TrainerError(
                f"no row was asked in {MOST_IDLE_STEPS:,} steps",
                expected="rows that are asked again (VecObs.rows)",
            )
        obs = _step(networks, places, env, obs, config, clock)
        if obs.metrics:
            ended.append(obs.metrics)
    metrics = merge_columns(ended, len(obs))
    results = []
    for own, mine in zip(networks, places, strict=True):
        with clock("batch"):
            shown = asked_frames(obs, mine)
            batch = to_value_batch([*own.buffer.finals, shown], own.generator.device)
        with clock("inference"), autocast(own.generator.device, config):
            state = own.memory.of(shown.rows)
            states = None if state is None else torch.cat([*own.buffer.final_states, state])
            values = value(own.net, batch, rows=len(env), memory=states).float().cpu().numpy()
        finals = len(values) - shown.num_frames
        with clock("batch"):
            trajectories, waiting = own.buffer.complete(
                values[:finals], values[finals:], shown.rows
            )
        results.append(Collected(trajectories, waiting, obs, metrics, finals))
        metrics = {}
    return [results[0], *(replace(result, truncated=0) for result in results[1:])]


def _places(obs: VecObs, env: OwnedRows, count: int) -> list[npt.NDArray[np.int64]]:
    """Return the places of each network's frames among all frames."""
    owner = env.owner[obs.rows]
    return [np.flatnonzero(owner == number) for number in range(count)]


def _step(
    networks: Sequence[Collecting],
    places: Sequence[npt.NDArray[np.int64]],
    env: OwnedRows,
    obs: VecObs,
    config: TrainConfig,
    clock: Stopwatch,
) -> VecObs:
    """Let each network decide in its rows, and play until the next observation."""
    answers: list[Mapping[str, ActionBuffer]] = []
    for own, mine in zip(networks, places, strict=True):
        if not len(mine):
            answers.append({})
            continue
        device = own.generator.device
        with clock("batch"):
            shown = asked_frames(obs, mine)
            batch = to_batch(shown, device)
        with clock("inference"), autocast(device, config):
            state = own.memory.of(shown.rows)
            output = check_output(act(own.net, batch, own.generator, state))
            answers.append(to_actions(output))
        with clock("batch"):
            own.buffer.decide(shown.rows, batch, output, state)
            own.memory.keep(shown.rows, output)
    actions = answers_in_order(answers, places) if obs.num_frames else {}
    with clock("env"):
        following = env.act(actions)
    check_final(following)
    for own in networks:
        own.buffer.observe(following, own.memory.of(np.flatnonzero(following.truncated)))
        own.memory.cut(following.done)
    return following
