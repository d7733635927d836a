"""Advantages and returns of decisions, along each row's own sequence of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ppo_trainer.algorithms.group_baseline import GroupReturns
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.experience.sequences import Sequences
from ppo_trainer.experience.trajectories import Trajectories

__all__ = ["estimate", "explained_variance", "gae", "vtrace"]

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]


def estimate(
    trajectories: Trajectories,
    config: PPOConfig,
    groups: GroupReturns | None = None,
    weights: tuple[Floats, Floats] | None = None,
) -> Rollout:
    """Return the decisions of an update with their advantages and returns.

    Where a limit cut an episode off, the discounted value of its final observation joins the
    reward. With ``groups`` advantages are those over the other rows of a group; the value function
    learns the same returns as without. ``weights`` are those of ``vtrace``.
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
    if groups is not None:
        advantages = groups.advantages(
            trajectories,
            advantages,
            config.gamma,
            normalized=config.baseline == "group_normalized",
        )
    return Rollout(
        batch=decisions.batch,
        chosen=decisions.chosen,
        log_probs=decisions.log_probs,
        values=decisions.values,
        advantages=torch.from_numpy(advantages.astype(np.float32)).to(device),
        returns=torch.from_numpy(returns).to(device),
        sequences=Sequences.of(trajectories),
    )


def gae(
    rewards: Floats,
    values: Floats,
    ends: npt.NDArray[np.bool_],
    rows: npt.NDArray[np.int64],
    next_values: Floats,
    gamma: float,
    gae_lambda: float,
) -> npt.NDArray[np.float64]:
    """Generalised advantage estimation (Schulman et al. 2015, arXiv:1506.02438, eq. 16).

    delta_k = r_k + gamma * V(s_k+1) * (1 - end_k) - V(s_k)
    A_k = delta_k + gamma * lambda * (1 - end_k) * A_k+1

    where k + 1 is the next decision of the same row, however many others decide in between: time is
    counted in decisions. A decision after which a limit ended the episode must already contain
    gamma * V(final observation) in its reward: then ``ends`` cuts off the next episode, and the
    value of the cut-off one is not lost.

    Args:
        rewards: Of K decisions in order of time. Shape: (K,).
        values: V(s_k). Shape: (K,).
        ends: Whether the episode ended after decision k. Shape: (K,), bool.
        rows: Who decided, 0 to R - 1. Shape: (K,), int64.
        next_values: The value of what follows the last decision of each row. Shape: (R,).
        gamma: Discount for each decision.
        gae_lambda: 0 is one-step, 1 is Monte Carlo.

    Returns:
        The advantages. Shape: (K,), float64.
    """
    return vtrace(rewards, values, ends, rows, next_values, gamma, gae_lambda)[0]


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
    """Estimate returns and advantages of decisions that other networks have made, with V-trace.

    delta_k = r_k + gamma * V(s_k+1) * (1 - end_k) - V(s_k)
    v_k - V(s_k) = rho_k * delta_k + c_k * gamma * lambda * (1 - end_k) * (v_k+1 - V(s_k+1))
    A_k = rho_k * (delta_k + gamma * lambda * (1 - end_k) * (v_k+1 - V(s_k+1)))

    Espeholt et al. 2018, arXiv:1802.01561, equation 1, remarks 1 and 2, and section 4.2, of which
    this is the form for lambda below 1. With weights of 1 both are ``gae``.

    Args:
        rewards: See ``gae``, as for all others.
        values: V(s_k) of the present network.
        ends: See ``gae``.
        rows: See ``gae``.
        next_values: See ``gae``.
        gamma: See ``gae``.
        gae_lambda: See ``gae``.
        weights: rho and c: how likely the present network makes each decision, as a multiple of how
            likely it was, clipped. Shape of both: (K,). None: 1.

    Returns:
        v_k - V(s_k), by which returns differ from values, and the advantages. Shape: (K,), float64.
    """
    advantages, errors = np.zeros(len(rows)), np.zeros(len(rows))
    rho, trace = (np.ones(len(rows)),) * 2 if weights is None else weights
    goes_on = 1.0 - ends
    next_value, following = next_values.astype(np.float64), np.zeros(len(next_values))
    # Backwards in turns: in each turn every row has one decision at most.
    for turn in _turns_backwards(rows, len(next_values)):
        own = rows[turn]
        discount = gamma * goes_on[turn]
        delta = rewards[turn] + discount * next_value[own] - values[turn]
        later = gae_lambda * discount * following[own]
        advantages[turn] = rho[turn] * (delta + later)
        following[own] = errors[turn] = rho[turn] * delta + trace[turn] * later
        next_value[own] = values[turn]
    return errors, advantages


def _turns_backwards(rows: npt.NDArray[np.int64], num_rows: int) -> list[npt.NDArray[np.int64]]:
    """Return the last decision of each row, then the last but one, and so on."""
    counts = np.bincount(rows, minlength=num_rows)
    order = np.argsort(rows, kind="stable")  # row by row, in order of time
    until_last = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(len(rows))
    by_turn = order[np.argsort(until_last, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(until_last))[:-1])


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns); NaN where the returns do not vary."""
    variance = returns.var(correction=0)
    if variance == 0:
        return float("nan")
    return float(1 - (returns - values).var(correction=0) / variance)
