"""The arrays that hold a strategy game, and names of their columns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit as _njit

from entity_env.rows.compiled import Field
from entity_env.rows.jit import called

from .rules import CROWD_TICKS, MOST_BULLETS, PLAN_ROOM, Rules

__all__ = [
    "World",
    "called",
    "copied",
    "fill",
    "slots_of",
    "world_fields",
    "world_of",
    "world_problems",
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
"""Additional slots for units that are created between two calls of ``tidy``."""

World = namedtuple("World", ("numbers", "units", "places", "lists", "flights"))
"""The arrays of one game."""


def copied(function: Any) -> Any:
    """Inline a function that is called in one place."""
    return njit(nogil=True, _nrt=False, inline="always")(function)


_FAR = 2**30
"""A bound of ticks and counts that excludes overflows of sums."""


def world_fields(rules: Rules) -> dict[str, Field]:
    """Return the fields of ``World`` for the kit, with the bounds of saved states."""
    slots, cells = 2 * (rules.most_units + SPARE), rules.size**2
    numbers = {
        **dict.fromkeys(range(NUMBERS), (0, _FAR)),
        **{OVER: (0, 0), WINNER: (-1, 1), TICK: (1, _FAR), QUEUED: (0, 0), TOLD: (0, 0)},
        **dict.fromkeys((SIZE,), (rules.size, rules.size)),
        **dict.fromkeys((SLOTS,), (slots // 2, slots // 2)),
        **dict.fromkeys((MOST,), (rules.most_units, rules.most_units)),
        **dict.fromkeys((WALLED,), (int(rules.has_walls), int(rules.has_walls))),
        **dict.fromkeys((TAIL, TAIL + 1), (0, slots // 2)),
        **dict.fromkeys((ORDERED, SENT), (0, slots)),
        BULLETS: (0, MOST_BULLETS),
        **dict.fromkeys(range(ORDER_LIST, GRID), (-1, slots - 1)),
        **dict.fromkeys(range(GRID, WALLS), (-1, slots - 1)),
        **dict.fromkeys(range(WALLS, PLAN_LIST), (0, 1)),
        **dict.fromkeys(range(PLAN_LIST, NUMBERS), (-_FAR, _FAR)),
        **dict.fromkeys(range(PLAN_LIST + 2, NUMBERS, 3), (-1, cells - 1)),
    }
    slot, kind, command = (
        (-2, slots - 1),
        (-1, len(rules.kinds) - 1),
        (0, 4 + len(rules.extra_commands)),
    )
    units = {
        **dict.fromkeys(range(UNIT_COLUMNS), (0, _FAR)),
        **dict.fromkeys((ALIVE, SEEN, FRESH, IS_TOLD), (0, 1)),
        **dict.fromkeys((DAMAGED_BY, TARGET, BASE, NEW_TARGET, NEW_BASE, OWN_TARGET), slot),
        **dict.fromkeys((NEXT,), (-1, slots - 1)),
        **dict.fromkeys((LEADS_TO,), slot),
        **dict.fromkeys((COMMAND, NEW_COMMAND, OWN_COMMAND), command),
        **dict.fromkeys((BUILDS, NEW_BUILDS, OWN_BUILDS), kind),
        KIND: (0, len(rules.kinds) - 1),
        HP: (-_FAR, _FAR),
        CARRIES: (0, 1000),
        PHASE: (0, 2),
    }
    # A point of the map has a cell, and so rounds to one.
    last = rules.size - 1.0
    inside = (float(np.nextafter(-0.5, 0)), float(np.nextafter(last + 0.5, 0)))
    places = [inside, inside, *[(-1.0, last)] * (PLACE_COLUMNS - 2)]
    lists = [(0, 10**6), slot, slot, (-2, 10**6), (0, 0)]
    rows = QUEUE_ROOM + MOST_BULLETS
    return {
        "numbers": _field((NUMBERS,), [numbers[column] for column in range(NUMBERS)]),
        "units": _field((slots, UNIT_COLUMNS), [units[c] for c in range(UNIT_COLUMNS)]),
        "places": _field((slots, PLACE_COLUMNS), places, "float64"),
        "lists": _field((rows, 5), lists),
        "flights": Field((rows, 2), "float64", least=-1.0, most=float(rules.size)),
    }


def _field(
    shape: tuple[int, ...], bounds: Sequence[tuple[float, float]], dtype: str = "int32"
) -> Field:
    least, most = zip(*bounds, strict=True)
    return Field(shape, dtype, least=least, most=most)


def world_problems(g: Any, game: int) -> dict[str, bool]:
    """Return descriptions of invalid states, with True for those of a saved world."""
    w = world_of(g, game)
    n, u, p = w.numbers, w.units, w.places
    half, size = n[SLOTS], n[SIZE]
    used = [
        i for player in range(2) for i in range(player * half, player * half + n[TAIL + player])
    ]
    listed, is_wrong = set(), False
    for cell in range(size * size):
        i = n[GRID + cell]
        while i >= 0 and not is_wrong:
            here = int(p[i, Y] + 0.5) * size + int(p[i, X] + 0.5)
            is_wrong = i in listed or here != cell
            listed.add(i)
            i = u[i, NEXT]
    ordered, sent = n[ORDER_LIST:][: n[ORDERED]], n[SENT_LIST:][: n[SENT]]
    units = [*ordered, *sent]
    return {
        "a tick after its last one": n[TICK] >= n[MAX_TICK],
        "units that are in no cell or in a wrong one": is_wrong
        or listed != {i for i in used if u[i, ALIVE]}
        or u[:, ALIVE].sum() != len(listed),
        "orders of nobody": min(units, default=0) < 0
        or len(set(ordered)) < len(ordered)
        or len(set(sent)) < len(sent),
    }


@called
def fill(out: Any, values: Any, first: int) -> None:
    """Copy values into ``out`` from a place on, as many as fit; kernels cannot assign slices."""
    for k in range(first, len(out)):
        out[k] = values[k - first]


@called
def slots_of(w: Any, player: int) -> range:
    """Return the slots of a player's units, including dead ones, in the order of creation."""
    first = player * w.numbers[SLOTS]
    return range(first, first + w.numbers[TAIL + player])


@called
def world_of(g: Any, game: int) -> Any:
    """Return the arrays of one game, as views of those of all games."""
    return World(g.numbers[game], g.units[game], g.places[game], g.lists[game], g.flights[game])
