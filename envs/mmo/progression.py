"""Progression: experience and levels of seven skills, which improve an agent's actions.

Without ``progression`` levels do not change after birth.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

from entity_env.rows.jit import inlined

from .body import CONSTITUTION, DEFENCE, LEVEL, MELEE, RANGE, SKILLS, TOP_LEVEL, XP
from .settings import setting

__all__ = ["EXPERIENCE", "Progression", "combat_level", "gain_experience", "start_skills"]

_POINTS = np.cumsum([0, 0, *(floor(k + 300 * 2 ** (k / 7)) for k in range(1, TOP_LEVEL))])
EXPERIENCE = _POINTS // 4
"""The experience that each level takes, by its number: 0 for 1, 83 for 2. Shape: (99,)."""
_MOST = 2**30  # more than any level takes
_SKILLS = len(SKILLS)


@dataclass(frozen=True)
class Progression:
    """The settings of this system.

    Args:
        progression: True if skills grow.
        forager_level: The level of fishing, hunting and constitution at birth.
        fighter_level: First level of melee, range, mage and defence.
    """

    progression: bool = setting(True)
    forager_level: int = setting(10, 1, TOP_LEVEL)
    fighter_level: int = setting(1, 1, TOP_LEVEL)


@inlined
def start_skills(g: Any, me: Any) -> None:
    """Give a newcomer the levels of its birth."""
    for skill in range(_SKILLS):
        level = g.forager_level if skill <= CONSTITUTION else g.fighter_level
        me[LEVEL + skill] = level
        me[XP + skill] = EXPERIENCE[level]


@inlined
def gain_experience(me: Any, skill: int, points: int) -> None:
    """Add experience, and the levels that it makes; nothing changes for 0 points."""
    me[XP + skill] = min(me[XP + skill] + points, _MOST)
    while me[LEVEL + skill] < TOP_LEVEL and me[XP + skill] >= EXPERIENCE[me[LEVEL + skill] + 1]:
        me[LEVEL + skill] += 1


@inlined
def combat_level(me: Any) -> int:
    """Return the level of a fighter as a whole: 3 at birth."""
    bow = me[LEVEL + RANGE]
    body = 0.25 * (me[LEVEL + DEFENCE] + me[LEVEL + CONSTITUTION])
    return int(body + max(0.65 * me[LEVEL + MELEE], 0.325 * (bow // 2 + bow)))
