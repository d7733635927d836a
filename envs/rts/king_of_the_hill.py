"""King of the hill: a game of the engine in one file, as ``README.md`` explains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_env.rows.compiled import CompiledGame, random_int
from entity_env.spaces import Discrete, Entity, ObsSpace

from .arrays import ALIVE, COMMAND, HP, SCORE, TICK, X, Y, called, slots_of
from .engine import EACH_TICK, GOES_ON, JUDGE, begin, count_of, create, engine, nearest, see, tell
from .rules import ATTACK, MOVE, Rules, UnitKind
from .strategic import (
    NOWHERE,
    RANDOM,
    Match,
    OrderRows,
    begin_match,
    is_turn,
    ordering,
    orders_game,
    play_on,
    seating,
)
from .world_rows import StrategyEnvironment, StrategyPlayers

__all__ = [
    "KING_OF_THE_HILL",
    "KingOfTheHill",
    "KingOfTheHillDuel",
    "KingOfTheHillDuelRows",
    "KingOfTheHillRows",
]

KING_OF_THE_HILL = Rules(
    kinds=(
        UnitKind(
            "Guard",
            hp=60,
            speed=0.1,
            attack=10,
            range=1,
            vision=6,
            attack_ticks=15,
            commands=(MOVE, ATTACK),
        ),
    ),
    max_tick=3000,
    most_units=8,
)

KINDS, GUARD = KING_OF_THE_HILL.table(), 0
MAP, MOST_GUARDS = KING_OF_THE_HILL.size, KING_OF_THE_HILL.most_units
HILL, NEAR, TO_WIN = 9.5, 4.0, 400
"""The middle of the hill, its squared radius, and the ticks for which it must be held."""


# ---- The rules -----------------------------------------------------------------------------------


@called
def _is_on_hill(w: Any, i: int) -> bool:
    dx, dy = w.places[i, X] - HILL, w.places[i, Y] - HILL
    return bool(dx * dx + dy * dy < NEAR)


@called
def _climbers(w: Any, player: int) -> int:
    """Return the number of a player's guards on the hill."""
    found = 0
    for i in slots_of(w, player):
        found += w.units[i, ALIVE] and _is_on_hill(w, i)
    return found


@called
def rules_of_a_tick(w: Any, kinds: Any, what: int, i: int) -> int:
    """Give a point to a player alone on the hill; 400 points, or being the only one left, win."""
    n = w.numbers
    if what == EACH_TICK:
        for player in range(2):
            if _climbers(w, player) > 0 and _climbers(w, 1 - player) == 0:
                n[SCORE + player] += 1
    elif what == JUDGE:
        left, right = count_of(w, 0, GUARD), count_of(w, 1, GUARD)
        if left == 0 or right == 0:
            return 0 if left > 0 else 1 if right > 0 else -1
        for player in range(2):
            if n[SCORE + player] >= TO_WIN:
                return player
        return GOES_ON
    return 0


play_tick = engine(rules_of_a_tick, KINDS)


@called
def tick(w: Any, random: Any, game: int) -> None:
    """Play a tick."""
    play_tick(w)


@called
def setup(w: Any, random: Any, game: int, max_tick: int) -> None:
    """Begin a game with four guards on each side, in random rows."""
    begin(w, MAP, MOST_GUARDS, 0, max_tick)
    for player in range(2):
        for i in range(4):
            y = 4 * i + random_int(random, game, 0, 3)
            create(w, KINDS, player, GUARD, float(18 * player + i % 2), float(y))
    see(w, KINDS)


# ---- Orders, and the built-in player -------------------------------------------------------------

ORDERS = ("Nothing", "Climb", "Fight")
NOTHING, CLIMB, FIGHT = range(3)


@called
def assign(w: Any, player: int, orders: int) -> None:
    """Tell guards to go to the hill, or to attack the nearest enemy in sight."""
    p = w.places
    for i in slots_of(w, player):
        if not w.units[i, ALIVE]:
            continue
        if (orders >> CLIMB) & 1 and not _is_on_hill(w, i):
            tell(w, i, MOVE, -1, -1, HILL, HILL)
        target = nearest(w, KINDS, player, p[i, X], p[i, Y], -1, 1e9)
        if (orders >> FIGHT) & 1 and target >= 0:
            tell(w, i, ATTACK, target, -1, -1.0, -1.0)


order, is_possible = ordering(KINDS, assign)


@called
def act(w: Any, player: int, who: int, random: Any, game: int) -> None:
    """Let the built-in player climb, and fight enemies in sight."""
    if who == RANDOM:
        order(w, player, 1 << random_int(random, game, NOTHING, FIGHT))
    else:
        order(w, player, (1 << CLIMB) | (1 << FIGHT))


# ---- What players see, and their rewards ---------------------------------------------------------

OBS_SPACE = ObsSpace(
    global_features=["own ticks", "enemy ticks", "tick"],
    entities={
        "Own": Entity(["x", "y", "hp", Discrete("command", 3)]),
        "Enemy": Entity(["x", "y", "hp"]),
    },
)
LISTS = np.array([[0, 1, NOWHERE, 0]])
"""Own guards are in the first list, enemies in sight in the second one."""


def _own(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    slot = g.shown[game, seat, 0, i]
    out[0], out[1] = g.places[game, slot, X], g.places[game, slot, Y]
    out[2], out[3] = g.units[game, slot, HP] / 60, g.units[game, slot, COMMAND]


def _enemy(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    slot = g.shown[game, seat, 1, i]
    out[0], out[1] = g.places[game, slot, X], g.places[game, slot, Y]
    out[2] = g.units[game, slot, HP] / 60


def _globals(g: Any, game: int, seat: int, out: Any) -> None:
    n = g.numbers[game]
    out[0], out[1], out[2] = n[SCORE + seat], n[SCORE + 1 - seat], n[TICK]


@called
def _mark(w: Any, player: int, marks: Any) -> None:
    marks[0] = w.numbers[SCORE + player] - w.numbers[SCORE + 1 - player]


@called
def _gain(g: Any, w: Any, player: int, marks: Any) -> float:
    """Return a part of a win for each tick on the hill."""
    return float((w.numbers[SCORE + player] - w.numbers[SCORE + 1 - player] - marks[0]) / TO_WIN)


# ---- The game ------------------------------------------------------------------------------------


_note, _obey = seating(KINDS, LISTS, order, is_possible)


def _reset(g: Any, game: int) -> None:
    begin_match(g, game, setup, act, tick, _note)


def _resolve(g: Any, game: int, reward: Any) -> bool:
    return play_on(g, game, reward, _obey, act, tick, _note, is_turn, _mark, _gain)


@dataclass(frozen=True)
class HillMatch(Match):
    """The settings of king of the hill, which are those of ``Match``."""

    opponent: str = "climb"

    rules = KING_OF_THE_HILL
    scripts = ("climb",)


class KingOfTheHillRows(OrderRows):
    """R rows of ``KingOfTheHill``, compiled."""

    match = HillMatch

    @classmethod
    def game(cls, match: Any) -> CompiledGame:
        """Return the game for the kit."""
        rows = {"Own": _own, "Enemy": _enemy}
        return orders_game(match, cls.seats, OBS_SPACE, rows, _reset, _resolve, _globals, ORDERS)


class KingOfTheHillDuelRows(KingOfTheHillRows):
    """R rows of ``KingOfTheHillDuel``, two seats of each game, compiled."""

    seats = 2


class KingOfTheHill(StrategyEnvironment):
    """King of the hill against ``climb`` or ``random``: be alone on the hill for 400 ticks.

    Args:
        settings: Settings of ``Match``.
    """

    rows = KingOfTheHillRows


class KingOfTheHillDuel(StrategyPlayers):
    """King of the hill for two players."""

    rows = KingOfTheHillDuelRows


KingOfTheHillRows.environment = KingOfTheHill
KingOfTheHillDuelRows.environment = KingOfTheHillDuel
