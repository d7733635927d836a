"""Shaping of the rewards of teams: zero-sum, team spirit, and scaling with time.

These are the three steps from a hero's own rewards to its training rewards in OpenAI Five (Berner
et al. 2019). They are functions of arrays, for any game.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["annealed", "shared", "time_scaled", "zero_sum"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TIME_BASE, TIME_MINUTES = 0.6, 10.0


def zero_sum(rewards: Floats, teams: Sequence[Sequence[int]], plays: Bools | None = None) -> Floats:
    """Subtract from each reward the mean of the enemies: ``r[i] -= mean(enemies)``.

    With two teams of equal size the sum becomes 0, so that a reward that both teams get has no
    effect.

    Args:
        rewards: Rewards of the seats of games. Shape: (..., S).
        teams: Seats of each team.
        plays: True for seats that take part; the others are left out of means and get 0. Shape:
            (..., S); None for all seats.
    """
    plays = np.ones(rewards.shape, np.bool_) if plays is None else plays
    shaped = np.where(plays, rewards, 0.0)
    for team in teams:
        own = set(team)
        enemies = [seat for other in teams for seat in other if seat not in own]
        taken = _mean(rewards, plays, enemies)
        for seat in team:
            shaped[..., seat] -= np.where(plays[..., seat], taken, 0.0)
    return shaped


def shared(
    rewards: Floats, teams: Sequence[Sequence[int]], spirit: float, plays: Bools | None = None
) -> Floats:
    """Mix in the mean of the team by team spirit: ``r[i] = tau * mean(team) + (1 - tau) * r[i]``.

    Args:
        rewards: See ``zero_sum``.
        teams: See ``zero_sum``.
        spirit: Tau: 0 keeps each seat's own reward, 1 gives each the mean of its team.
        plays: See ``zero_sum``.
    """
    plays = np.ones(rewards.shape, np.bool_) if plays is None else plays
    mixed = np.where(plays, rewards, 0.0)
    for team in teams:
        mean = _mean(rewards, plays, team)
        for seat in team:
            own = spirit * mean + (1.0 - spirit) * rewards[..., seat]
            mixed[..., seat] = np.where(plays[..., seat], own, 0.0)
    return mixed


def time_scaled(rewards: Floats, minutes: Floats | float) -> Floats:
    """Scale rewards down with time: ``r *= 0.6 ** (minutes / 10)``.

    Args:
        rewards: Shape: (..., S).
        minutes: Minutes since the game began, in a shape that broadcasts to that of ``rewards``.
    """
    scaled: Floats = rewards * TIME_BASE ** (np.asarray(minutes) / TIME_MINUTES)
    return scaled


def annealed(first: float, last: float | None, progress: float) -> float:
    """Return the value at ``progress``, 0 to 1, on the line from ``first`` to ``last``."""
    return first if last is None else first + (last - first) * min(max(progress, 0.0), 1.0)


def _mean(rewards: Floats, plays: Bools, seats: Sequence[int]) -> Floats:
    """Return the mean over the given seats that take part; 0 without any. Shape: (...)."""
    there = plays[..., list(seats)]
    total = np.where(there, rewards[..., list(seats)], 0.0).sum(axis=-1)
    mean: Floats = total / np.maximum(there.sum(axis=-1), 1)
    return mean
