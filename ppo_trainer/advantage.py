"""Advantages and returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ragged_net import kernels

__all__ = ["Advantages", "explained_variance", "gae"]


@dataclass(frozen=True)
class Advantages:
    """``advantages`` and ``returns`` (the value targets). Shape of each: (T, R), float32."""

    advantages: Tensor
    returns: Tensor


def gae(
    rewards: Tensor,
    values: Tensor,
    dones: Tensor,
    last_value: Tensor,
    gamma: float,
    gae_lambda: float,
) -> Advantages:
    """Generalised advantage estimation (Schulman et al. 2015, arXiv:1506.02438, eq. 16).

    delta_t = r_t + gamma * V(s_t+1) * (1 - done_t) - V(s_t)
    A_t = delta_t + gamma * lambda * (1 - done_t) * A_t+1

    A step that a limit ended must already contain gamma * V(final observation) in its reward: then
    ``done`` cuts off the next episode, and the value of the cut-off one is not lost.

    Args:
        rewards: Shape: (T, R).
        values: V(s_t). Shape: (T, R).
        dones: Whether step t ended its episode. Shape: (T, R), bool.
        last_value: V(s_T), the value of what follows the last step. Shape: (R,).
        gamma: Discount.
        gae_lambda: 0 is one-step, 1 is Monte Carlo.
    """
    advantages = torch.empty_like(rewards)
    if rewards.device.type == "cpu" and rewards.dtype == torch.float32 and kernels.available():
        from ppo_trainer.advantage_kernel import fill_advantages  # needs Numba

        arrays = [tensor.contiguous().numpy() for tensor in (rewards, values, dones, last_value)]
        fill_advantages(*arrays, gamma, gae_lambda, advantages.numpy())
        return Advantages(advantages, advantages + values)
    following = torch.zeros_like(last_value)
    next_value = last_value
    for t in reversed(range(rewards.shape[0])):
        goes_on = (~dones[t]).to(rewards.dtype)
        delta = rewards[t] + gamma * next_value * goes_on - values[t]
        following = delta + gamma * gae_lambda * goes_on * following
        advantages[t] = following
        next_value = values[t]
    return Advantages(advantages, advantages + values)


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns); NaN where the returns do not vary."""
    variance = returns.var(correction=0)
    if variance == 0:
        return float("nan")
    return float(1 - (returns - values).var(correction=0) / variance)
