"""Where the arrays of a compiled game keep what: names for columns, and the arrays themselves."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from numba import njit as _njit

from entity_env.rows.compiled import Field
from entity_env.rows.jit import called

from .rules import CROWD_TICKS, MOST_BULLETS, PLAN_ROOM, Rules

__all__ = [
    "FastWorld",
    "called",
    "copied",
    "fill",
    "world_fields",
    "world_of",
]

njit: Any = _njit

# Columns of ``numbers``, one row for each game.
TICK, OVER, WINNER, CREATED, SIZE, SLOTS, MOST, MAX_TICK, WALLED = range(9)
TAIL, MONEY, SCORE, PLANS = 9, 11, 13, 15  # of two players each
ORDERED, SENT, BULLETS, QUEUED, TOLD, FAILED_SUM = range(17, 23)
NOTES, FAILED = 23, 63  # 40 numbers of the game's own
# Lists among ``numbers``: few arrays for each game, for each argument of a call is compiled.
MOST_SLOTS, MOST_CELLS = 128, 400
ORDER_LIST = FAILED + CROWD_TICKS
SENT_LIST, TOLD_LIST = ORDER_LIST + MOST_SLOTS, ORDER_LIST + 2 * MOST_SLOTS
GRID, WALLS = ORDER_LIST + 3 * MOST_SLOTS, ORDER_LIST + 3 * MOST_SLOTS + MOST_CELLS
PLAN_LIST = WALLS + MOST_CELLS
NUMBERS = PLAN_LIST + 2 * PLAN_ROOM * 3
# Rows of ``lists`` and ``flights``: immediate commands of a tick, then bullets.
QUEUE_ROOM = 2 * MOST_SLOTS + MOST_BULLETS

# Columns of ``units``.
ALIVE, UID, KIND, HP, ATTACKED, GATHERED, BUILT, DAMAGED_BY, CARRIES, SEEN = range(10)
COMMAND, TARGET, BASE, BUILDS, PHASE, START = range(10, 16)
NEXT, FRESH, IS_TOLD = range(16, 19)
NEW_COMMAND, NEW_TARGET, NEW_BASE, NEW_BUILDS, NEW_START = range(19, 24)
OWN_COMMAND, OWN_TARGET, OWN_BUILDS = range(24, 27)
LEADS_TO = 27  # while slots are tidied
UNIT_COLUMNS = 28

# Columns of ``places``: where a unit is, where its command leads, and its next one, and the plan.
X, Y, TO_X, TO_Y, NEW_X, NEW_Y, OWN_X, OWN_Y = range(8)
PLACE_COLUMNS = 8

# Columns of the table of kinds, ``Rules.table``.
(
    COST,
    MAX_HP,
    DEFENCE,
    SPEED,
    POWER,
    REACH,
    VISION,
    ATTACK_TICKS,
    GATHER_TICKS,
    BUILD_TICKS,
    COMMANDS_OF,
    BUILDS_OF,
    IS_BUILDING,
    IS_RESOURCE,
    IS_STORE,
) = range(15)

# What an immediate command does.
DO_MOVE, DO_STRIKE, DO_SHOOT, DO_HIT, DO_GATHERING, DO_HARVEST, DO_DELIVER, DO_PAY, DO_CREATE = (
    range(9)
)
DO_OWN = 9
"""From here on what only a game does."""

SPARE = 16
"""Slots beyond the most units of a player, for what is created between two calls of ``tidy``."""

FastWorld = namedtuple("FastWorld", ("numbers", "units", "places", "lists", "flights"))
"""The arrays of one game."""


def copied(function: Any) -> Any:
    """Put a function in the place of its one call: what is called is compiled for each caller."""
    return njit(nogil=True, _nrt=False, inline="always")(function)


def world_fields(rules: Rules) -> dict[str, Field]:
    """The fields of ``FastWorld`` for the kit."""
    slots = 2 * (rules.most_units + SPARE)
    return {
        "numbers": Field((NUMBERS,)),
        "units": Field((slots, UNIT_COLUMNS)),
        "places": Field((slots, PLACE_COLUMNS), "float64"),
        "lists": Field((QUEUE_ROOM + MOST_BULLETS, 5)),
        "flights": Field((QUEUE_ROOM + MOST_BULLETS, 2), "float64"),
    }


@called
def fill(out: Any, values: Any, first: int) -> None:
    """Copy values into ``out`` from a place on, as many as fit: kernels cannot assign slices."""
    for k in range(first, len(out)):
        out[k] = values[k - first]


@called
def world_of(g: Any, game: int) -> Any:
    """The arrays of one game, as views of those of all games."""
    return FastWorld(g.numbers[game], g.units[game], g.places[game], g.lists[game], g.flights[game])
