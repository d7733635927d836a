"""Plays the rows of a VecEnv and keeps what they decide, until there is enough for an update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from entity_env import Metric, VecEnv, VecObs
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import check_final
from entity_env.metrics import merge_columns
from ppo_trainer.config import TrainConfig
from ppo_trainer.errors import NonFiniteError, TrainerError
from ppo_trainer.experience.acting import act, value
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.experience.row_memory import RowMemory
from ppo_trainer.experience.tensors import to_actions, to_batch, to_value_batch
from ppo_trainer.experience.trajectories import Decisions, Trajectories
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import NetOutput, RaggedNet

__all__ = ["Collected", "autocast", "check_output", "collect"]


MOST_IDLE_STEPS = 100_000
"""So many steps in a row may ask nobody; a game that never asks again is an error after that."""


@dataclass(frozen=True)
class Collected:
    """The complete decisions of a rollout, and the observation that follows.

    Args:
        trajectories: The decisions whose outcome is known.
        pending: Those whose outcome is still open; the next rollout begins with them.
        next_obs: The observation from which it goes on.
        metrics: Of the episodes that ended meanwhile.
        truncated: How many of them a limit has cut off.
    """

    trajectories: Trajectories
    pending: Decisions | None
    next_obs: VecObs
    metrics: Mapping[str, Metric]
    truncated: int = 0


@torch.no_grad()
def collect(
    net: RaggedNet,
    env: VecEnv,
    obs: VecObs,
    config: TrainConfig,
    generator: torch.Generator,
    clock: Stopwatch,
    buffer: RolloutBuffer | None = None,
    pending: Decisions | None = None,
    memory: RowMemory | None = None,
) -> Collected:
    """Play from ``obs`` on until ``config.frames_per_update`` decisions have an outcome.

    Where all rows are always asked, these are ``config.rollout.steps`` steps. The trajectories lie
    in ``buffer``, where one is given, until the next ones are put there. ``pending`` are decisions
    of the last rollout whose outcome was open at its end. ``memory`` is what the rows remember, and
    goes on with them.

    Raises:
        NonFiniteError: The network has diverged.
        TrainerError: The rows ask nobody any more.
    """
    device, wanted = generator.device, config.rollout.steps * len(env)
    buffer = RolloutBuffer(len(env), config.rollout.steps) if buffer is None else buffer
    buffer.begin(pending)
    memory = RowMemory(net, len(env)) if memory is None else memory
    ended: list[Mapping[str, npt.NDArray[np.float64]]] = []
    idle = 0
    while len(buffer) < wanted or buffer.num_complete(obs.rows) < wanted:
        idle = 0 if obs.num_frames else idle + 1
        if idle > MOST_IDLE_STEPS:
            raise TrainerError(
                f"no row was asked in {MOST_IDLE_STEPS:,} steps",
                expected="rows that are asked again (VecObs.rows)",
            )
        obs = _step(net, env, obs, config, generator, clock, buffer, memory)
        if obs.metrics:
            ended.append(obs.metrics)
    # All at once: most steps cut off one or two episodes, and a pass of so few is all overhead.
    with clock("batch"):
        batch = to_value_batch([*buffer.finals, obs], device)
    with clock("inference"), autocast(device, config):
        state = memory.of(obs.rows)
        states = None if state is None else torch.cat([*buffer.final_states, state])
        values = value(net, batch, rows=len(env), memory=states).float().cpu().numpy()
    finals = len(values) - obs.num_frames
    with clock("batch"):
        complete, waiting = buffer.complete(values[:finals], values[finals:], obs.rows)
    return Collected(complete, waiting, obs, merge_columns(ended, len(obs)), finals)


def _step(
    net: RaggedNet,
    env: VecEnv,
    obs: VecObs,
    config: TrainConfig,
    generator: torch.Generator,
    clock: Stopwatch,
    buffer: RolloutBuffer,
    memory: RowMemory,
) -> VecObs:
    """Decide in the rows that are asked, and play until the next observation."""
    actions: dict[str, ActionBuffer] = {}
    if obs.num_frames:
        with clock("batch"):
            batch = to_batch(obs, generator.device)
        with clock("inference"), autocast(generator.device, config):
            state = memory.of(obs.rows)
            output = check_output(act(net, batch, generator, state))
            actions = to_actions(output)
        with clock("batch"):
            buffer.decide(obs.rows, batch, output, state)
            memory.keep(obs.rows, output)
    with clock("env"):
        following = env.act(actions)
    check_final(following)
    buffer.observe(following, memory.of(np.flatnonzero(following.truncated)))
    memory.cut(following.done)
    return following


def autocast(device: torch.device, precision: TrainConfig | str) -> AbstractContextManager[object]:
    """Return the context that the network runs in, for settings or their ``precision``."""
    if (precision if isinstance(precision, str) else precision.precision) != "bfloat16":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def check_output(output: NetOutput) -> NetOutput:
    """Return the output, or raise NonFiniteError: what is drawn from NaN means nothing."""
    parts = [("value", output.value)]
    parts += [(name, action.log_prob) for name, action in output.actions.items()]
    # A sum is finite only if all of its terms are. They are read at once: a GPU is waited for.
    sums = torch.stack([tensor.sum() for _, tensor in parts]).tolist()
    wrong = [
        name for (name, _), number in zip(parts, sums, strict=True) if not math.isfinite(number)
    ]
    if wrong:
        raise NonFiniteError(
            "the network's output is not finite",
            expected="finite values and log-probabilities",
            received=", ".join(wrong),
        )
    return output
