"""A scripted player of Pursuit for both teams: the baseline of its experiments."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import Observation

from .pursuit import MOVES, STEPS

__all__ = ["chase_or_flee"]


def chase_or_flee(observation: Observation) -> dict[str, Action]:
    """Chase the nearest visible runner, or flee from the nearest hunter.

    A player that sees none keeps to one direction for six steps, turning at walls. Ways are
    measured without walls, so that hunters stop before them.
    """
    features: Any = observation.features
    masks: Any = observation.actions
    x, y, hunts, left = (int(number) for number in features["Me"][0])
    allowed = [move for move in range(len(MOVES)) if np.asarray(masks["Move"].mask)[0][move]]
    wanted = 1 + (7 * x + 3 * y + left // 6 if not hunts else left // 6 + x // 3) % 4
    seen = [(int(dx), int(dy)) for dx, dy in features["Runner" if hunts else "Hunter"]]

    def worth(move: int) -> tuple[float, bool, bool]:
        dx, dy = STEPS[move]
        away = min((abs(a - dx) + abs(b - dy) for a, b in seen), default=0)
        return (-away if hunts else away), move == wanted, move != 0

    best = max(allowed, key=worth)
    return {"Move": CategoricalAction(list(masks["Move"].actor_ids), np.array([best]), MOVES)}
