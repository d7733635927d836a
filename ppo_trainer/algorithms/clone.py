"""A penalty on the divergence from the network that a run begins with, such as a clone of players.

Reinforcement learning that begins with a clone soon loses abilities that it is not yet rewarded
for. A penalty that fades preserves them (Schmitt et al. 2018, arXiv:1803.03835; Baker et al. 2022,
arXiv:2206.11795).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ppo_trainer.algorithms.algorithm import Scale, scheduled
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.acting import RowMemory, evaluations
from ppo_trainer.experience.rollout import Rollout, Sequences, Trajectories
from ragged_net import NetOutput, RaggedNet
from ragged_net.devices import send
from ragged_net.ragged import FrameNumbers

__all__ = ["Clone", "clone_divergence", "clone_weight", "with_clone"]


@dataclass(frozen=True)
class Clone:
    """The network that a run begins with.

    Args:
        net: The network, which does not change.
        memory: Its memory of the frames so far in each row.
    """

    net: RaggedNet
    memory: RowMemory


def clone_weight(config: PPOConfig, progress: float) -> float:
    """Return the weight of the penalty at ``progress``, the fraction of the run that is over."""
    if not config.clone_kl_fade:
        return config.clone_kl
    return scheduled(config.clone_kl, "linear", progress / config.clone_kl_fade)


@torch.no_grad()
def with_clone(rollout: Rollout, trajectories: Trajectories, clone: Clone) -> Rollout:
    """Return the rollout with the log-probabilities that the clone gives to its choices.

    Args:
        rollout: The frames and choices of ``trajectories``.
        trajectories: The decisions that follow those of the last call.
        clone: The clone, whose memory follows all rows to their last decisions.
    """
    memory, seen = clone.memory, replace(rollout, sequences=None)
    if memory.states is not None:
        seen = replace(seen, sequences=Sequences.from_rows(trajectories, memory.states))
    log_probs = {
        name: torch.empty_like(ragged.values) for name, ragged in rollout.log_probs.items()
    }
    states: list[Tensor] = []
    for frames, output in evaluations(clone.net, seen, torch.arange(len(rollout))):
        there = FrameNumbers.of(frames, rollout.values.device)
        for name, ragged in rollout.log_probs.items():
            log_probs[name][ragged.select_with_rows(there)[1]] = output.actions[name].log_prob
        if output.memory is not None:
            states.append(output.memory)
    if seen.sequences is not None:
        _follow(memory, trajectories, seen.sequences, torch.cat(states))
    cloned = {
        name: ragged.with_values(log_probs[name]) for name, ragged in rollout.log_probs.items()
    }
    return replace(rollout, clone_log_probs=cloned)


def _follow(
    memory: RowMemory, trajectories: Trajectories, sequences: Sequences, states: Tensor
) -> None:
    """Store the states (S, W) after the last sequence of each row, or 0 if its episode ended."""
    frames = sequences.frames
    last = frames.values[frames.host_offsets[1:] - 1].numpy()
    newest = np.flatnonzero(np.diff(trajectories.decisions.rows[last], append=-1))
    rows = trajectories.decisions.rows[last[newest]]
    memory.keep(rows, states.index_select(0, send(torch.from_numpy(newest), states.device)))
    ended = np.zeros(len(trajectories.next_values), np.bool_)
    ended[rows] = trajectories.ends[last[newest]]
    memory.cut(ended)


def clone_divergence(output: NetOutput, part: Rollout, scale: Scale) -> Tensor:
    """Return half the mean squared difference of log-probabilities from those of the clone, ().

    Over choices that the policy itself drew, its gradient is that of the KL divergence of the
    policy from the clone (``k2`` of Schulman, "Approximating KL divergence", 2020). Actors have the
    same weights as in the policy loss.
    """
    assert part.clone_log_probs is not None
    counts = torch.stack([ragged.lengths for ragged in part.log_probs.values()]).sum(0)
    total = output.value.new_zeros(())
    for name, cloned in part.clone_log_probs.items():
        squares = 0.5 * (output.actions[name].log_prob - cloned.values).square()
        total = total + (squares / counts[cloned.frame_ids()]).sum()
    return total / scale.policy
