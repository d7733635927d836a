"""The state of an agent: one row of whole numbers, ``me``, of which these are the columns.

It is one array, because Numba's compilation time grows with the number of arrays of a function.
"""

from __future__ import annotations

import numpy as np

from entity_env.rows.compiled import Field

__all__ = [
    "AGE",
    "COLUMN",
    "COLUMNS",
    "CONSTITUTION",
    "DAMAGE",
    "DEFENCE",
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
    "agents_field",
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
