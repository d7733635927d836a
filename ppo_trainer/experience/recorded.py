"""Recorded episodes as rollouts for learning by imitation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env import ActionSpace, VecObs
from entity_env.recording import EpisodeBlock
from entity_env.recording.records import select_frames
from ppo_trainer.experience.acting import MOST_FRAMES, evaluated, value
from ppo_trainer.experience.rollout import Rollout, Sequences
from ragged_net import EntityBatch, RaggedNet, RaggedTensor
from ragged_net.heads import head_kind

__all__ = ["Examples", "episode_weight", "examples_of"]

_MOST_WEIGHT = 20.0
"""The maximum weight of an episode, as in Peng et al. 2019 (arXiv:1910.00177)."""


@dataclass(frozen=True)
class Examples:
    """Frames of whole episodes, one episode after the other.

    Args:
        rollout: Frames and choices. ``advantages`` are the weights of the frames, ``returns`` the
            discounted rewards up to the end of the recording of each episode.
        finals: Last frame of each episode that the game did not end; None if there is no such
            episode.
        final_discounts: Discount, for each frame of ``rollout``, of the value of the final frame of
            its episode; 0 if the game ended the episode. Shape: (B,), float32.
        final_of: Number of the final frame in ``finals``, for each frame. Shape: (B,), int64.
    """

    rollout: Rollout
    finals: EntityBatch | None
    final_discounts: Tensor
    final_of: Tensor

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.rollout)

    @torch.no_grad()
    def valued(self, net: RaggedNet) -> Rollout:
        """Return the rollout with returns that contain the values of ``net`` for final frames."""
        if self.finals is None:
            return self.rollout
        count = self.finals.num_frames
        memory = net.initial_state(count) if net.memory is not None else None
        values = value(net, self.finals, rows=count, memory=memory)
        rest = self.final_discounts * values.float().index_select(0, self.final_of)
        return replace(self.rollout, returns=self.rollout.returns + rest)


def episode_weight(reward: float, mean: float, deviation: float, temperature: float) -> float:
    """Return ``exp(z / temperature)``, at most 20, where z is the standardised reward.

    It is 1 if the temperature is 0, or if all episodes have the same reward.

    Source:
        Reward-weighted regression: Peters and Schaal, "Reinforcement learning by reward-weighted
        regression for operational space control", 2007.
    """
    if not temperature or not deviation:
        return 1.0
    with np.errstate(over="ignore"):
        return float(min(np.exp((reward - mean) / deviation / temperature), _MOST_WEIGHT))


def examples_of(
    block: EpisodeBlock, weigh: Callable[[float], float], gamma: float, net: RaggedNet
) -> Examples:
    """Return a block of recorded episodes as input of a network.

    Args:
        block: The episodes.
        weigh: Function from an episode's reward to the weight of its frames.
        gamma: Discount factor for each decision.
        net: Network that the examples are for, on its device.
    """
    device = next(net.parameters()).device
    steps, lengths, ends = block.steps, block.lengths, np.cumsum(block.lengths)
    # The outcome of a last decision without an end and an observation after it is not known: its
    # own value is its return.
    is_unknown = ~steps.done[ends - 1] & (block.last_of < 0)
    final_of = np.where(block.last_of < 0, 0, block.last_of)
    final_of[is_unknown] = block.last.num_frames + np.arange(is_unknown.sum())
    returns, discounts, weights = [], [], []
    for number, (end, count) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True)):
        reward = steps.reward[end - count : end].astype(np.float64)
        weights.append(np.full(count, weigh(float(reward.sum()))))
        reward[-1] *= not is_unknown[number]
        returns.append(_discounted(reward, gamma))
        powers = np.arange(count, 0, -1) - is_unknown[number]
        discounts.append(gamma**powers * (is_unknown[number] or block.last_of[number] >= 0))
    finals = [block.last, select_frames(steps.obs, ends[is_unknown] - 1)]
    chosen = {
        name: _chosen(buffer, net.action_space[name]).to(device)
        for name, buffer in steps.actions.items()
    }
    states = net.initial_state(len(lengths)) if net.memory is not None else None
    rollout = Rollout(
        batch=EntityBatch.from_obs(steps.obs, device),
        chosen=chosen,
        log_probs={name: ragged.with_values(_zeros(ragged)) for name, ragged in chosen.items()},
        values=torch.zeros(len(steps), device=device),
        advantages=_tensor(weights, device),
        returns=_tensor(returns, device),
        sequences=None
        if states is None
        else Sequences(
            RaggedTensor.from_lengths(torch.arange(len(steps)), torch.from_numpy(lengths)), states
        ),
    )
    with torch.no_grad():  # checks all numbers once; later passes do not check again
        for part in rollout.parts(MOST_FRAMES):
            evaluated(net, part, trusted=False)
    shown = [obs for obs in finals if obs.num_frames]
    return Examples(
        rollout,
        _without_actions(shown, device) if shown else None,
        _tensor(discounts, device),
        torch.from_numpy(np.repeat(final_of, lengths)).to(device),
    )


def _without_actions(observations: Sequence[VecObs], device: torch.device) -> EntityBatch:
    parts = [EntityBatch.from_obs(obs).without_actions() for obs in observations]
    return EntityBatch.cat(parts).to(device)


def _discounted(rewards: npt.NDArray[np.float64], gamma: float) -> npt.NDArray[np.float64]:
    """Return the discounted sum of rewards from each step on. Shape: (L,)."""
    returns, total = np.zeros(len(rewards)), 0.0
    for step in range(len(rewards) - 1, -1, -1):
        returns[step] = total = rewards[step] + gamma * total
    return returns


def _chosen(buffer: Any, space: ActionSpace) -> RaggedTensor:
    """Return recorded choices as input of the network."""
    array = buffer.as_array()
    values = array if head_kind(space).shape(space) else np.ascontiguousarray(array[:, 0])
    return RaggedTensor.from_lengths(torch.from_numpy(values), torch.from_numpy(buffer.size1()))


def _zeros(chosen: RaggedTensor) -> Tensor:
    return torch.zeros(chosen.num_rows, device=chosen.values.device)


def _tensor(parts: Sequence[npt.NDArray[Any]], device: torch.device) -> Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(np.float32)).to(device)
