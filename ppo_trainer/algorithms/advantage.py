"""Advantages and returns of decisions, computed along the decisions of each row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ppo_trainer.algorithms.group_baseline import less_shared_luck
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Rollout, Sequences, Trajectories

__all__ = ["estimate", "explained_variance", "vtrace"]

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]


def estimate(
    trajectories: Trajectories, config: PPOConfig, weights: tuple[Floats, Floats] | None = None
) -> Rollout:
    """Return the decisions of an update with their advantages and returns.

    Where a limit cut an episode off, the discounted value of its final observation is added to the
    reward. A group baseline changes the advantages, not the targets of the value function.
    ``weights`` are those of ``vtrace``.
    """
    decisions = trajectories.decisions
    device = decisions.values.device
    values = decisions.values.float().cpu().numpy()
    errors, advantages = vtrace(
        decisions.rewards + config.gamma * trajectories.final_values,
        values,
        trajectories.ends,
        decisions.rows,
        trajectories.next_values,
        config.gamma,
        config.gae_lambda,
        weights,
    )
    returns = errors.astype(np.float32) + values
    if config.baseline == "group":
        advantages = less_shared_luck(advantages, decisions.rows)
    return Rollout(
        batch=decisions.batch,
        chosen=decisions.chosen,
        log_probs=decisions.log_probs,
        values=decisions.values,
        advantages=torch.from_numpy(advantages.astype(np.float32)).to(device),
        returns=torch.from_numpy(returns).to(device),
        sequences=Sequences.of(trajectories),
        targets=decisions.targets,
    )


def vtrace(
    rewards: Floats,
    values: Floats,
    ends: npt.NDArray[np.bool_],
    rows: npt.NDArray[np.int64],
    next_values: Floats,
    gamma: float,
    gae_lambda: float,
    weights: tuple[Floats, Floats] | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Estimate returns and advantages, also of decisions of earlier networks.

    delta_k = r_k + gamma * V(s_k+1) * (1 - end_k) - V(s_k)
    v_k - V(s_k) = rho_k * delta_k + c_k * gamma * lambda * (1 - end_k) * (v_k+1 - V(s_k+1))
    A_k = rho_k * (delta_k + gamma * lambda * (1 - end_k) * (v_k+1 - V(s_k+1)))

    where k + 1 is the next decision of the same row: time is counted in decisions of a row. Where a
    limit ended an episode, the reward must already contain gamma * V(final observation), because
    ``ends`` cuts off what follows.

    V-trace (Espeholt et al. 2018, arXiv:1802.01561, equation 1, remarks 1 and 2, and section 4.2),
    here for any lambda. With weights of 1 both results are those of generalised advantage
    estimation (Schulman et al. 2015, arXiv:1506.02438, equation 16).

    Args:
        rewards: Rewards of K decisions in order of time. Shape: (K,).
        values: V(s_k) of the present network. Shape: (K,).
        ends: True if the episode ended after decision k. Shape: (K,), bool.
        rows: Row of each decision, 0 to R - 1. Shape: (K,), int64.
        next_values: Value of the frame after the last decision of each row. Shape: (R,).
        gamma: Discount factor for each decision.
        gae_lambda: Lambda; 0 gives one-step advantages, 1 Monte Carlo ones.
        weights: rho and c, the clipped ratios of the probability of each decision with the present
            network to its probability with the network that made it. Shape of both: (K,). None
            stands for 1.

    Returns:
        v_k - V(s_k), the difference of returns and values, and the advantages. Shape: (K,),
        float64.
    """
    advantages, errors = np.zeros(len(rows)), np.zeros(len(rows))
    rho, trace = (np.ones(len(rows)),) * 2 if weights is None else weights
    goes_on = 1.0 - ends
    next_value, following = next_values.astype(np.float64), np.zeros(len(next_values))
    # Backwards in turns: each turn has at most one decision of each row.
    for turn in _turns_backwards(rows, len(next_values)):
        acting = rows[turn]
        discount = gamma * goes_on[turn]
        delta = rewards[turn] + discount * next_value[acting] - values[turn]
        later = gae_lambda * discount * following[acting]
        advantages[turn] = rho[turn] * (delta + later)
        following[acting] = errors[turn] = rho[turn] * delta + trace[turn] * later
        next_value[acting] = values[turn]
    return errors, advantages


def _turns_backwards(rows: npt.NDArray[np.int64], num_rows: int) -> list[npt.NDArray[np.int64]]:
    """Return the last decision of each row, then the second last of each, and so on."""
    counts = np.bincount(rows, minlength=num_rows)
    order = np.argsort(rows, kind="stable")  # row by row, in order of time
    until_last = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(len(rows))
    by_turn = order[np.argsort(until_last, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(until_last))[:-1])


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """Return 1 - Var(returns - values) / Var(returns); NaN where the returns do not vary."""
    variance = returns.var(correction=0)
    if variance == 0:
        return float("nan")
    return float(1 - (returns - values).var(correction=0) / variance)
