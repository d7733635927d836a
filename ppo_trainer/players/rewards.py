"""Shaping of the rewards of teams: zero-sum, team spirit, less weight the later they come.

The three steps that OpenAI Five took from a hero's own rewards to those that it was trained on.
They are functions of arrays and know nothing of games.
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

    With two teams of one size the sum is then 0: a reward that both teams get is no gain.

    Args:
        rewards: The rewards of the seats of games. Shape: (..., S).
        teams: The seats of each team.
        plays: Which seats are in the game: only they count, and others get nothing. Shape:
            (..., S); None: all.
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
        rewards: As in ``zero_sum``.
        teams: As in ``zero_sum``.
        spirit: Tau, from 0, where each cares for itself, to 1.
        plays: As in ``zero_sum``.
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
        minutes: Since the game began; of a shape that goes with that of ``rewards``.
    """
    scaled: Floats = rewards * TIME_BASE ** (np.asarray(minutes) / TIME_MINUTES)
    return scaled


def annealed(first: float, last: float | None, progress: float) -> float:
    """Return the value on the line from ``first`` to ``last`` at ``progress`` in 0 to 1."""
    return first if last is None else first + (last - first) * min(max(progress, 0.0), 1.0)


def _mean(rewards: Floats, plays: Bools, seats: Sequence[int]) -> Floats:
    """Return the mean over those of some seats that play; 0 where none does. Shape: (...)."""
    there = plays[..., list(seats)]
    total = np.where(there, rewards[..., list(seats)], 0.0).sum(axis=-1)
    mean: Floats = total / np.maximum(there.sum(axis=-1), 1)
    return mean
