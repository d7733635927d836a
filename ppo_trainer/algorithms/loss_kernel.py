"""The PPO loss and its gradient in one pass, which takes dozens of operations in torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env.storage.inner import inner
from ragged_net.kernels.first_order import once_differentiable
from ragged_net.kernels.jit import kernel

__all__ = ["Facts", "compiled_losses", "measure"]

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


class Facts(NamedTuple):
    """The inputs of the losses that do not come from the network.

    Args:
        log_prob: Log-probability of each choice of all actions when it was made. Shape: (A,).
        frame_of: Frame of each actor. Shape: (A,).
        actors: Number of actors of each frame. Shape: (B,).
        advantages: Shape: (B,).
        values: Value of each frame when it was played. Shape: (B,).
        returns: Shape: (B,).
        frames: Divisor of sums over frames.
        weight: Divisor of sums over frames with actors.
        clip: Clipping range of ratios, and with ``clip_value`` of values.
        clip_value: True to clip values, too.
        per_frame: True if ratios are products over the actors of a frame.
    """

    log_prob: Floats
    frame_of: Integers
    actors: Integers
    advantages: Floats
    values: Floats
    returns: Floats
    frames: float
    weight: float
    clip: np.float32
    clip_value: bool
    per_frame: bool


def compiled_losses(
    log_prob: Tensor, entropy: Tensor, value: Tensor, facts: Facts, count: int
) -> Tensor:
    """Return the numbers of ``losses.ppo_coefficients``. Shape: (count,), float32, on the CPU.

    Only the first three have gradients.

    Args:
        log_prob: Log-probability of the choice of each actor. Shape: (A,).
        entropy: Entropy of each actor's distribution. Shape: (A,).
        value: Value of each frame. Shape: (B,).
        facts: The minibatch and the settings.
        count: The number of numbers.
    """
    numbers: Tensor = _Losses.apply(log_prob, entropy, value, facts, count)  # type: ignore[no-untyped-call]
    return numbers


class _Losses(torch.autograd.Function):
    """The operation behind ``compiled_losses``."""

    @staticmethod
    def forward(
        ctx: Any, log_prob: Tensor, entropy: Tensor, value: Tensor, facts: Facts, count: int
    ) -> Tensor:
        tensors = [tensor.contiguous() for tensor in (log_prob, entropy, value)]
        gradients = [torch.empty_like(tensor) for tensor in tensors]
        numbers = value.new_empty(count)
        measure(
            *(tensor.numpy(force=True) for tensor in tensors), facts,
            numbers.numpy(), *(gradient.numpy() for gradient in gradients),
        )  # fmt: skip
        ctx.save_for_backward(*gradients)
        return numbers

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_numbers: Tensor) -> tuple[Tensor | None, ...]:
        factors = d_numbers.tolist()[: len(ctx.saved_tensors)]
        by_input = [d * saved for d, saved in zip(factors, ctx.saved_tensors, strict=True)]
        return *by_input, None, None


@kernel
def measure(
    log_prob: Floats,
    entropy: Floats,
    value: Floats,
    facts: Facts,
    numbers: Floats,
    d_log_prob: Floats,
    d_entropy: Floats,
    d_value: Floats,
) -> None:
    """Write the numbers of ``losses.ppo_coefficients``, and the gradients of the first three.

    Args:
        log_prob: Log-probabilities now, which the policy loss depends on. Shape: (A,).
        entropy: Entropies, which the entropy term depends on. Shape: (A,).
        value: Values now, which the value loss depends on. Shape: (B,).
        facts: The minibatch and the settings.
        numbers: Output. Shape: (count,).
        d_log_prob: Output, the gradient with respect to ``log_prob``. Shape: (A,).
        d_entropy: Output. Shape: (A,).
        d_value: Output. Shape: (B,).
    """
    sums = np.zeros(numbers.shape[0])
    for b in range(value.shape[0]):
        loss, slope = _value_loss(value[b], facts.values[b], facts.returns[b], facts)
        sums[2] += 0.5 * loss / facts.frames
        d_value[b] = slope / facts.frames
    products = np.zeros(value.shape[0], np.float32)  # log of the product of each frame's ratios
    for a in range(log_prob.shape[0]):
        b = facts.frame_of[a]
        weight = 1 / facts.actors[b] / facts.weight
        sums[1] += weight * entropy[a]
        d_entropy[a] = weight
        log_ratio = log_prob[a] - facts.log_prob[a]
        if facts.per_frame:
            products[b] += log_ratio
        else:
            d_log_prob[a] = _add_ratio(log_ratio, facts.advantages[b], weight, facts.clip, sums)
    if facts.per_frame:
        for b in range(value.shape[0]):
            if facts.actors[b]:
                advantage = facts.advantages[b]
                products[b] = _add_ratio(products[b], advantage, 1 / facts.weight, facts.clip, sums)
        for a in range(log_prob.shape[0]):
            d_log_prob[a] = products[facts.frame_of[a]]
    for i in range(sums.shape[0]):  # compiles in a third of the time of numbers[:] = sums
        numbers[i] = sums[i]


@inner
def _value_loss(
    value: np.float32, old: np.float32, target: np.float32, facts: Facts
) -> tuple[np.float32, np.float32]:
    """Return the squared error and half of its derivative."""
    error, moved = value - target, value - old
    # Within the range the two errors differ only by rounding, which must not change the gradient.
    if facts.clip_value and not -facts.clip <= moved <= facts.clip:
        clipped = old + min(max(moved, -facts.clip), facts.clip) - target
        if clipped * clipped > error * error or np.isnan(clipped):
            return clipped * clipped, np.float32(0)  # independent of the value
    return error * error, error


@inner
def _add_ratio(
    log_ratio: np.float32,
    advantage: np.float32,
    weight: float,
    clip: np.float32,
    sums: npt.NDArray[np.float64],
) -> np.float32:
    """Add a ratio's terms to ``sums``; return the policy loss's derivative by its logarithm."""
    ratio = np.exp(log_ratio)
    free = ratio * advantage
    one = np.float32(1)  # an int would make the bounds float64, which round differently
    bound = min(max(ratio, one - clip), one + clip) * advantage
    stopped = free > bound  # False for NaN, so that NaN reaches the loss
    sums[0] -= weight * (bound if stopped else free)
    sums[3] += weight * ((ratio - 1) - log_ratio)
    sums[4] += weight * (abs(ratio - 1) > clip)
    return np.float32(0 if stopped else -weight * free)
