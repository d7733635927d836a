"""The PPO loss of a minibatch whose frames have any number of actors, none included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ppo_trainer.config import PPOConfig
from ppo_trainer.rollout import Rollout
from ragged_net import NetOutput
from ragged_net.transfer import send

__all__ = ["Losses", "Scale", "minibatch_scale", "normalized", "ppo_losses"]


@dataclass(frozen=True)
class Scale:
    """What the sums over a minibatch are divided by; the same for all of its micro-batches.

    Args:
        frames: B, the weight of the value loss.
        policy: The total weight of frames with actors, or of actors. At least 1.
    """

    frames: float
    policy: float


@dataclass(frozen=True)
class Losses:
    """Scalars; each is this part's share, so that the shares of micro-batches add up.

    Args:
        policy: The clipped surrogate, negated.
        entropy: The mean entropy of an actor's choice.
        value: Half the squared error.
        kl: Estimate of the KL divergence from the policy that collected (``k3`` of Schulman,
            "Approximating KL divergence", 2020): mean of (ratio - 1) - log ratio.
        clip_fraction: The share of ratios outside of 1 +- clip_coef.
    """

    policy: Tensor
    entropy: Tensor
    value: Tensor
    kl: Tensor
    clip_fraction: Tensor


def minibatch_scale(minibatch: Rollout, config: PPOConfig) -> Scale:
    """The weights of a whole minibatch, before it is split."""
    actors = _actors_per_frame(minibatch)
    weight = actors.sum() if config.actor_weight == "actor" else (actors > 0).sum()
    return Scale(frames=len(minibatch), policy=max(1.0, float(weight)))


def normalized(minibatch: Rollout, least_deviation: float = 0.0) -> Tensor:
    """Advantages scaled to mean 0, deviation 1 over the frames in which somebody acted. (B,).

    Deviations below ``least_deviation`` are not scaled up to 1.
    """
    advantages = minibatch.advantages
    acted = _acted(_actors_per_frame(minibatch))
    if not len(acted):
        return advantages
    of_actors = _taken(advantages, acted)
    mean, deviation = of_actors.mean(), of_actors.std(correction=0)
    return (advantages - mean) / (deviation.clamp_min(least_deviation) + 1e-8)


def ppo_losses(
    output: NetOutput, part: Rollout, advantages: Tensor, scale: Scale, config: PPOConfig
) -> Losses:
    """The losses of a minibatch, or of one of its micro-batches.

    Args:
        output: What the network says about ``part`` now, given its choices.
        part: The frames and what was done in them.
        advantages: Normalised over the whole minibatch. Shape: (B,).
        scale: Of the whole minibatch.
        config: Decides ratio, clipping and weights.
    """
    actions = output.actions
    log_ratio = _cat(actions[name].log_prob - old.values for name, old in part.log_probs.items())
    entropy = _cat(actions[name].entropy for name in part.log_probs)
    frame_of = _cat(old.frame_ids() for old in part.log_probs.values())
    actors = _actors_per_frame(part)
    actor_weight = (
        torch.ones_like(log_ratio)
        if config.actor_weight == "actor"
        else 1.0 / send(actors, frame_of.device)[frame_of].to(log_ratio.dtype)
    ) / scale.policy
    if config.ratio == "per_frame":
        acted = _acted(actors)
        weight = torch.zeros_like(advantages).index_add(0, frame_of, actor_weight)
        log_ratio = torch.zeros_like(advantages).index_add(0, frame_of, log_ratio)
        weight, log_ratio = _taken(weight, acted), _taken(log_ratio, acted)
        advantage = _taken(advantages, acted)
    else:
        weight, advantage = actor_weight, advantages[frame_of]
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    outside = ((ratio - 1).abs() > config.clip_coef).to(weight.dtype)
    return Losses(
        policy=-(weight * surrogate).sum(),
        entropy=(actor_weight * entropy).sum(),
        value=_value_loss(output.value, part, config) / scale.frames,
        kl=(weight * ((ratio - 1) - log_ratio)).sum().detach(),
        clip_fraction=(weight * outside).sum().detach(),
    )


def _value_loss(value: Tensor, part: Rollout, config: PPOConfig) -> Tensor:
    error = (value - part.returns) ** 2
    if config.clip_value:
        change = (value - part.values).clamp(-config.clip_coef, config.clip_coef)
        error = torch.maximum(error, (part.values + change - part.returns) ** 2)
    return 0.5 * error.sum()


def _actors_per_frame(rollout: Rollout) -> Tensor:
    """Actors of all actions in each frame. Shape: (B,), int64, on the CPU."""
    counts = torch.zeros(len(rollout), dtype=torch.int64)
    for ragged in rollout.log_probs.values():
        counts = counts + ragged.host_offsets.diff()
    return counts


def _acted(actors: Tensor) -> Tensor:
    """The frames in which somebody acted, of the (B,) numbers of actors. On the CPU."""
    return actors.nonzero().squeeze(1)


def _taken(values: Tensor, frames: Tensor) -> Tensor:
    """``values`` (B,) of some frames, given on the CPU, where their number is known."""
    if len(frames) == len(values):
        return values
    return values.index_select(0, send(frames, values.device))


def _cat(parts: Iterator[Tensor]) -> Tensor:
    """Values of the actors of all actions, one action after the other. Shape: (A,)."""
    return torch.cat(list(parts))
