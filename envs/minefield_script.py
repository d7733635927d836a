"""A scripted Minefield player: the baseline that a trained network is measured against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import Observation

from .minefield import DIRECTIONS, MOVES, RADIUS, Point

__all__ = ["drive_around"]

_LOOK_AHEAD = 30.0
_MARGIN = 0.5
_ALL = range(DIRECTIONS)


def drive_around(observation: Observation) -> dict[str, Action]:
    """Drive in the direction without a mine ahead that points best to the target.

    It looks 30 ahead, or to the target if that is nearer. If all ways are blocked it takes the best
    direction all the same.
    """
    features: Any = observation.features
    ((*place, heading),) = features["Vehicle"]
    (x, y), *mines = (
        _seen(point, place, heading) for point in (*features["Target"], *features["Mine"])
    )
    bearing = math.atan2(y, x)
    sight = min(_LOOK_AHEAD, math.hypot(x, y) - RADIUS)
    clear = [d for d in _ALL if not any(_blocks(mine, d, sight) for mine in mines)]
    # Turning costs a little, so that two equally good directions do not make it waver.
    cost = {d: abs(_turn(_angle(d) - bearing)) + 0.01 * abs(_turn(_angle(d))) for d in _ALL}
    best = min(clear or _ALL, key=lambda d: cost[d])
    label = "Move" if best == 0 else "Turn Left" if best <= DIRECTIONS // 2 else "Turn Right"
    return {"Drive": CategoricalAction(["Vehicle"], np.array([MOVES.index(label)]), MOVES)}


def _seen(point: Sequence[float], place: Sequence[float], heading: float) -> Point:
    """Return a point from where the vehicle is: how far ahead, how far to the left."""
    dx, dy = point[0] - place[0], point[1] - place[1]
    cos, sin = math.cos(_angle(heading)), math.sin(_angle(heading))
    return cos * dx + sin * dy, cos * dy - sin * dx


def _blocks(mine: Point, direction: int, sight: float) -> bool:
    """Return True if a mine, relative to the vehicle, lies on the way in a direction."""
    ahead, aside = _seen(mine, (0.0, 0.0), direction)
    nearest = min(max(ahead, 0.0), max(sight, 0.0))
    return ahead > 0 and math.hypot(ahead - nearest, aside) <= RADIUS + _MARGIN


def _angle(direction: float) -> float:
    return direction * math.pi / 8


def _turn(angle: float) -> float:
    """Return the same angle from -pi to pi."""
    return math.remainder(angle, math.tau)
