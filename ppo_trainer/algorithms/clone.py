"""A penalty on the divergence from the network that a run begins with, such as a clone of players.

Reinforcement learning that begins with a clone soon loses abilities that it is not yet rewarded
for. A penalty that fades preserves them (Schmitt et al. 2018, arXiv:1803.03835; Baker et al. 2022,
arXiv:2206.11795).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ppo_trainer.algorithms.algorithm import Scale
from ppo_trainer.algorithms.schedule import scheduled
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.acting import MOST_FRAMES
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.experience.stored_choices import evaluated
from ragged_net import NetOutput, RaggedNet

__all__ = ["clone_divergence", "clone_weight", "with_clone"]


def clone_weight(config: PPOConfig, progress: float) -> float:
    """Return the weight of the penalty at ``progress``, the fraction of the run that is over."""
    if not config.clone_kl_fade:
        return config.clone_kl
    return scheduled(config.clone_kl, "linear", progress / config.clone_kl_fade)


@torch.no_grad()
def with_clone(rollout: Rollout, clone: RaggedNet) -> Rollout:
    """Return the rollout with the log-probabilities that ``clone`` gives to its choices."""
    parts = [evaluated(clone, part).actions for part in rollout.parts(MOST_FRAMES)]
    log_probs = {
        name: own.with_values(torch.cat([part[name].log_prob for part in parts]))
        for name, own in rollout.log_probs.items()
    }
    return replace(rollout, clone_log_probs=log_probs)


def clone_divergence(output: NetOutput, part: Rollout, scale: Scale, config: PPOConfig) -> Tensor:
    """Return half the mean squared difference of log-probabilities from those of the clone, ().

    Over choices that the policy itself drew, its gradient is that of the KL divergence of the
    policy from the clone (``k2`` of Schulman, "Approximating KL divergence", 2020). Actors have the
    same weights as in the policy loss.
    """
    assert part.clone_log_probs is not None
    counts = torch.stack([own.lengths for own in part.log_probs.values()]).sum(0)
    total = output.value.new_zeros(())
    for name, cloned in part.clone_log_probs.items():
        squares = 0.5 * (output.actions[name].log_prob - cloned.values).square()
        if config.actor_weight == "frame":
            squares = squares / counts[cloned.frame_ids()]
        total = total + squares.sum()
    return total / scale.policy
