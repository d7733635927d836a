"""Plays T steps in every row of a VecEnv and keeps what an update needs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env import Metric, VecEnv, VecObs
from entity_env.batch import check_final
from entity_env.metrics import merge_columns
from ppo_trainer.acting import act, value
from ppo_trainer.advantage import gae
from ppo_trainer.config import TrainConfig
from ppo_trainer.errors import NonFiniteError
from ppo_trainer.rollout import Rollout
from ppo_trainer.stopwatch import Stopwatch
from ppo_trainer.tensors import to_actions, to_batch, to_value_batch
from ragged_net import EntityBatch, NetOutput, RaggedNet
from ragged_net.growing import GrowingBatch, GrowingRagged, GrowingTensor

__all__ = ["Collected", "Room", "autocast", "check_output", "collect"]


@dataclass(frozen=True)
class Collected:
    """A rollout, the observation that follows it, and the episodes that ended in it."""

    rollout: Rollout
    next_obs: VecObs
    metrics: Mapping[str, Metric]


@torch.no_grad()
def collect(
    net: RaggedNet,
    env: VecEnv,
    obs: VecObs,
    config: TrainConfig,
    generator: torch.Generator,
    clock: Stopwatch,
    room: Room | None = None,
) -> Collected:
    """Play ``config.rollout.steps`` steps from ``obs`` on.

    Where a limit ended an episode, the discounted value of its final observation joins the reward.
    The rollout lies in ``room``, where one is given, until the next one is put there.

    Raises:
        NonFiniteError: The network has diverged.
    """
    device = generator.device
    record = Room(config.rollout.steps) if room is None else room
    record.clear()
    rewards = np.zeros((config.rollout.steps, len(env)), dtype=np.float32)
    dones, cut_off = np.zeros((2, *rewards.shape), dtype=np.bool_)
    final: list[VecObs] = []
    ended: list[Mapping[str, npt.NDArray[np.float64]]] = []
    for t in range(config.rollout.steps):
        with clock("batch"):
            batch = to_batch(obs, device)
        with clock("inference"), autocast(device, config):
            output = check_output(act(net, batch, generator))
            actions = to_actions(output)
        with clock("batch"):
            record.add(batch, output)
        with clock("env"):
            obs = env.act(actions)
        check_final(obs)
        rewards[t], dones[t], cut_off[t] = obs.reward, obs.done, obs.truncated
        if obs.final is not None:
            final.append(obs.final)
        if obs.metrics:
            ended.append(obs.metrics)
    # All at once: most steps cut off one or two episodes, and a pass of so few is all overhead.
    with clock("batch"):
        batch = to_value_batch([*final, obs], device)
    with clock("inference"), autocast(device, config):
        values = value(net, batch, rows=len(env))
    with clock("advantage"):
        rewards[cut_off] += config.ppo.gamma * values[: -len(env)].cpu().numpy()
        rollout = _rollout(record, rewards, dones, values[-len(env) :], config)
    return Collected(rollout, obs, merge_columns(ended, len(obs)))


def autocast(device: torch.device, config: TrainConfig) -> AbstractContextManager[object]:
    """The context that the network runs in."""
    if config.precision != "bfloat16":
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


class Room:
    """What a rollout keeps of each step, in memory that the next one uses again.

    Args:
        steps: T, the steps of a rollout.
    """

    def __init__(self, steps: int) -> None:
        self.batch = GrowingBatch(steps)
        self.chosen: defaultdict[str, GrowingRagged] = defaultdict(lambda: GrowingRagged(steps))
        self.log_probs: defaultdict[str, GrowingTensor] = defaultdict(lambda: GrowingTensor(steps))
        self.values: list[Tensor] = []

    def add(self, batch: EntityBatch, output: NetOutput) -> None:
        """Add a step's observations and decisions."""
        self.batch.add(batch)
        for name, action in output.actions.items():
            self.chosen[name].add(action.chosen)
            self.log_probs[name].add(action.log_prob)
        self.values.append(output.value)

    def clear(self) -> None:
        """Forget the last rollout."""
        self.batch.clear()
        for chosen in self.chosen.values():
            chosen.clear()
        for log_probs in self.log_probs.values():
            log_probs.clear()
        self.values.clear()


def _rollout(
    record: Room,
    rewards: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    dones: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    last_value: Tensor,
    config: TrainConfig,
) -> Rollout:
    values = torch.stack(record.values)
    estimate = gae(
        torch.from_numpy(rewards).to(values.device),
        values,
        torch.from_numpy(dones).to(values.device),
        last_value,
        config.ppo.gamma,
        config.ppo.gae_lambda,
    )
    chosen = {name: ragged.all() for name, ragged in record.chosen.items()}
    return Rollout(
        batch=record.batch.all(),
        chosen=chosen,
        log_probs={
            name: ragged.with_values(record.log_probs[name].all())
            for name, ragged in chosen.items()
        },
        values=values.flatten(),
        advantages=estimate.advantages.flatten(),
        returns=estimate.returns.flatten(),
    )
