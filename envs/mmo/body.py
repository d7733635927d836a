"""The state of an agent, one row of whole numbers, and its experience and levels.

The state is one array, because the compilation time of Numba grows with the number of arrays of a
function. Without ``progression`` levels do not change after birth.

"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

from entity_env.rows.compiled import Field
from entity_env.rows.jit import inlined

from .settings import setting

__all__ = [
    "AGE",
    "COLUMN",
    "COLUMNS",
    "CONSTITUTION",
    "DAMAGE",
    "DEFENCE",
    "EXPERIENCE",
    "FISHING",
    "FOOD",
    "FROZEN",
    "HEALTH",
    "HUNTING",
    "IMMUNE",
    "LEVEL",
    "LIVING",
    "LUCK",
    "MAGE",
    "MARKED",
    "MELEE",
    "MOVE",
    "NEXT",
    "RANGE",
    "ROW",
    "SKILLS",
    "SKILL_ORDER",
    "STYLE",
    "STYLES",
    "TARGET",
    "TOP_LEVEL",
    "WATER",
    "WILD",
    "XP",
    "Progression",
    "agents_field",
    "combat_level",
    "gain_experience",
    "start_skills",
]


SKILLS = ("fishing", "hunting", "constitution", "melee", "range", "mage", "defence")
FISHING, HUNTING, CONSTITUTION, MELEE, RANGE, MAGE, DEFENCE = range(len(SKILLS))
STYLES = ("melee", "range", "mage")
TOP_LEVEL = 98

COLUMNS = (
    *("row", "column", "food", "water", "health", "immune", "frozen", "age", "damage"),
    "wild",  # how deep in the wilderness
    "living",
    "marked",  # dies in this tick
    *("move", "style", "target"),  # its choices; target -1: none
    "luck",  # whether its attack hit; -1: nothing was drawn
    "skill_order",  # the order of foraging that was drawn
    "next",  # the next agent on the same tile, -1: none
    *(f"level_{skill}" for skill in SKILLS),
    *(f"xp_{skill}" for skill in SKILLS),
)
ROW, COLUMN, FOOD, WATER, HEALTH, IMMUNE, FROZEN, AGE, DAMAGE = range(9)
WILD, LIVING, MARKED, MOVE, STYLE, TARGET, LUCK, SKILL_ORDER, NEXT = range(9, 18)
LEVEL = 18  # those of all skills, and behind them their experience
XP = LEVEL + len(SKILLS)

_LEAST = {"wild": -1, "target": -1, "luck": -1, "next": -1}
_MANY = 2**30


def agents_field(agents: int, shape: tuple[int, ...], moves: int) -> Field:
    """Return the field of all agents of a world, with the bounds of each column."""
    most = dict.fromkeys(COLUMNS, _MANY)
    most |= {"row": shape[0] - 1, "column": shape[1] - 1, "move": moves - 1}
    most |= {"target": agents - 1, "next": agents - 1, "style": len(STYLES) - 1, "skill_order": 5}
    most |= dict.fromkeys(("living", "marked", "luck"), 1)
    most |= dict.fromkeys(("food", "water", "health"), TOP_LEVEL)
    most |= {f"level_{skill}": TOP_LEVEL for skill in SKILLS}
    least = tuple(_LEAST.get(name, 0) for name in COLUMNS)
    return Field((agents, len(COLUMNS)), np.int32, least, tuple(most[name] for name in COLUMNS))


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
