"""Ratings of players from all games of all pairs at once: Bradley-Terry model with draws."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["SCALE", "rate"]

F64 = npt.NDArray[np.float64]

SCALE = 400 / np.log(10)
"""Rating points for each unit of the logarithm of the odds: 400 points are odds of 10 to 1."""
_PRIOR = 0.1
"""Precision of the normal prior of strengths, for players that have won or lost all games."""
_MOST_STEPS = 200


def rate(won: npt.ArrayLike, drawn: npt.ArrayLike, anchor: int | None = None) -> tuple[F64, F64]:
    """Return ratings and their standard deviations, by maximum likelihood of all games.

    Davidson's model: a win of i, a win of j and a draw have probabilities in the proportion
    ``p_i : p_j : nu * sqrt(p_i p_j)``. The rating is ``400 log10 p``. A weak normal prior keeps the
    rating finite if a player has won all games. The order of games does not matter.

    Args:
        won: Wins of the row's player against the column's player. Shape: (players, players).
        drawn: Number of their draws, symmetric. Shape: (players, players).
        anchor: Player whose rating is 0; None sets the mean of all ratings to 0.

    Returns:
        The ratings and their standard deviations. Shape of each: (players,).

    Source:
        Davidson, "On extending the Bradley-Terry model to accommodate ties in paired comparison
        experiments", JASA 65, 1970.
    """
    wins, draws = np.asarray(won, np.float64), np.asarray(drawn, np.float64)
    count = len(wins)
    games = wins + wins.T + draws
    margin = (wins - wins.T) / 2
    strength = np.zeros(count + 1)  # log p of each player, and log nu
    for _ in range(_MOST_STEPS):
        lead = (strength[:count, None] - strength[:count]) / 2
        chances = np.exp(np.stack([lead, -lead, np.full_like(lead, strength[count])]))
        first, second, draw = chances / chances.sum(axis=0)
        expected = (first - second) / 2
        slope = np.zeros(count + 1)
        slope[:count] = (margin - games * expected).sum(axis=1)
        slope[count] = np.triu(draws - games * draw, 1).sum()
        slope -= _PRIOR * strength
        information = np.empty((count + 1, count + 1))
        own = games * ((first + second) / 4 - expected**2)
        information[:count, :count] = np.diag(own.sum(axis=1)) - own
        information[:count, count] = information[count, :count] = -(games * draw * expected).sum(
            axis=1
        )
        information[count, count] = np.triu(games * draw * (1 - draw), 1).sum()
        information += _PRIOR * np.eye(count + 1)
        step = np.linalg.solve(information, slope)
        strength += step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    covariance = np.linalg.inv(information)[:count, :count]
    shift = np.eye(count)
    shift -= 1 / count if anchor is None else shift[anchor].copy()
    covariance = shift @ covariance @ shift.T
    deviation = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    return SCALE * (shift @ strength[:count]), SCALE * deviation
