"""The PPO loss of a minibatch whose frames have any number of actors, including none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from entity_env.errors import BatchError
from ppo_trainer.algorithms.algorithm import Scale
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Rollout
from ragged_net import NetOutput
from ragged_net.compiled import heads as compiled_heads
from ragged_net.devices import send

__all__ = ["NAMES", "minibatch_scale", "normalized", "ppo_coefficients", "ppo_losses"]


def ppo_coefficients(entropy_coef: float, value_coef: float) -> dict[str, float]:
    """Return the coefficient of each number of ``ppo_losses``; 0 for those that are only logged.

    This is the list of these numbers: the kernel writes them in this order, and only the first
    three have gradients.
    """
    return {
        "loss/policy": 1.0,
        "policy/entropy": -entropy_coef,
        "loss/value": value_coef,
        "policy/kl": 0.0,
        "policy/clip_fraction": 0.0,
    }


NAMES = tuple(ppo_coefficients(0.0, 0.0))


def minibatch_scale(minibatch: Rollout) -> Scale:
    """Return the divisors of the sums over a minibatch, before it is split."""
    acting = np.count_nonzero(minibatch.actors_per_frame.numpy())
    return Scale(frames=len(minibatch), policy=max(1.0, float(acting)))


def normalized(minibatch: Rollout, least_deviation: float = 0.0) -> Tensor:
    """Return the advantages scaled to mean 0 and deviation 1 over frames with actors. Shape: (B,).

    They are divided by at least ``least_deviation``. A single frame with actors keeps its
    advantage, which would become 0 otherwise.
    """
    advantages = minibatch.advantages
    acted = _acted(minibatch.actors_per_frame)
    if len(acted) < 2:
        return advantages
    of_actors = _taken(advantages, acted)
    deviation, mean = torch.std_mean(of_actors, correction=0)
    return (advantages - mean) / (deviation.clamp_min(least_deviation) + 1e-8)


def ppo_losses(
    output: NetOutput,
    part: Rollout,
    scale: Scale,
    config: PPOConfig,
    value_std: Tensor | None = None,
) -> dict[str, Tensor]:
    """Return the losses of a minibatch, or the part of them that a micro-batch adds.

    Args:
        output: Output of the network for ``part`` now, evaluated at the choices of ``part``.
        part: Frames and choices. Advantages are normalised over the whole minibatch.
        scale: Scale of the whole minibatch.
        config: Settings of ratios, clipping and weights.
        value_std: Unit in which values are compared, (); None stands for 1.

    Returns:
        Scalars by the names of ``ppo_coefficients``, float32. Policy loss: the clipped surrogate,
        negated. Entropy: mean over actors. Value loss: half the squared error. KL, without
        gradient: an estimate of the divergence from the policy that collected the rollout, the mean
        of (ratio - 1) - log ratio (``k3`` of Schulman, "Approximating KL divergence", 2020). Clip
        fraction, without gradient: fraction of ratios outside of 1 +- clip_coef.

    Raises:
        BatchError: The output does not fit the frames.
    """
    value = output.value
    if value_std is not None:
        value = value / value_std
        part = replace(part, values=part.values / value_std, returns=part.returns / value_std)
    actions, every = output.actions, part.log_probs
    actors = _Actors(
        log_prob=_cat(actions[name].log_prob for name in every),
        entropy=_cat(actions[name].entropy for name in every),
        old=_cat(ragged.values for ragged in every.values()),
        frame_of=_cat(ragged.frame_ids() for ragged in every.values()),
    )
    measure = _in_kernel if compiled_heads.can_run(value) else _in_torch
    numbers = measure(actors, value, part, scale, config)
    return dict(zip(NAMES, numbers, strict=True))


@dataclass(frozen=True)
class _Actors:
    """Old and new log-probabilities, entropies and frames of all actors. Shape: (A,)."""

    log_prob: Tensor
    entropy: Tensor
    old: Tensor
    frame_of: Tensor


def _in_kernel(
    actors: _Actors, value: Tensor, part: Rollout, scale: Scale, config: PPOConfig
) -> Sequence[Tensor]:
    from ppo_trainer.algorithms.loss_kernel import Facts, compiled_losses  # needs Numba

    _check_shapes((value, part.values, part.returns, part.advantages), (len(part),))
    _check_shapes((actors.log_prob, actors.entropy, actors.old), actors.frame_of.shape)
    facts = Facts(
        log_prob=actors.old.numpy(),
        frame_of=actors.frame_of.numpy(),
        actors=part.actors_per_frame.numpy(),
        advantages=part.advantages.numpy(),
        values=part.values.numpy(),
        returns=part.returns.numpy(),
        frames=float(scale.frames),
        weight=float(scale.policy),
        clip=np.float32(config.clip_coef),
        clip_value=config.clip_value,
        per_frame=config.ratio == "per_frame",
    )
    return compiled_losses(actors.log_prob, actors.entropy, value, facts, len(NAMES)).unbind()


def _in_torch(
    actors: _Actors, value: Tensor, part: Rollout, scale: Scale, config: PPOConfig
) -> Sequence[Tensor]:
    log_ratio, frame_of = actors.log_prob - actors.old, actors.frame_of
    advantages = part.advantages
    # Computed on the device that the numbers are on.
    counts = torch.stack([ragged.lengths for ragged in part.log_probs.values()]).sum(0)
    actor_weight = 1.0 / counts[frame_of].to(log_ratio.dtype) / scale.policy
    if config.ratio == "per_frame":  # frames without actors have weight 0
        weight = torch.zeros_like(advantages).index_add(0, frame_of, actor_weight)
        log_ratio = torch.zeros_like(advantages).index_add(0, frame_of, log_ratio)
        advantage = advantages
    else:
        weight, advantage = actor_weight, advantages[frame_of]
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    outside = ((ratio - 1).abs() > config.clip_coef).to(weight.dtype)
    return (
        -(weight * surrogate).sum(),
        (actor_weight * actors.entropy).sum(),
        _value_loss(value, part, config) / scale.frames,
        (weight * ((ratio - 1) - log_ratio)).sum().detach(),
        (weight * outside).sum().detach(),
    )


def _check_shapes(tensors: Sequence[Tensor], expected: tuple[int, ...]) -> None:
    """Check shapes, because the kernel does not and would read beyond the arrays."""
    received = [tuple(tensor.shape) for tensor in tensors]
    if any(shape != expected for shape in received):
        raise BatchError(
            "the network's output does not fit the minibatch", expected=expected, received=received
        )


def _value_loss(value: Tensor, part: Rollout, config: PPOConfig) -> Tensor:
    error = (value - part.returns) ** 2
    if config.clip_value:
        change = (value - part.values).clamp(-config.clip_coef, config.clip_coef)
        error = torch.maximum(error, (part.values + change - part.returns) ** 2)
    return 0.5 * error.sum()


def _acted(actors: Tensor) -> Tensor:
    """Return the numbers of the frames with actors, on the CPU, from their counts (B,)."""
    return actors.nonzero().squeeze(1)


def _taken(values: Tensor, frames: Tensor) -> Tensor:
    """Return ``values`` (B,) of frames whose numbers are on the CPU, where their count is known."""
    if len(frames) == len(values):
        return values
    return values.index_select(0, send(frames, values.device))


def _cat(parts: Iterator[Tensor]) -> Tensor:
    """Return the values of the actors of all actions, one action after the other. Shape: (A,)."""
    first, *others = parts
    return torch.cat([first, *others]) if others else first
