"""Capture the Flag: athletes carry a flag to their own base; five orders.

Differs from the original engine: athletes who die in one tick all come back, and a flag whose place
is taken waits until it is free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_env.rows.compiled import CompiledGame, Entities, random_int
from entity_env.spaces import Discrete, Entity, ObsSpace

from .arrays import (
    ALIVE,
    CARRIES,
    COMMAND,
    DAMAGED_BY,
    DO_OWN,
    HP,
    KIND,
    NOTES,
    OWN_X,
    OWN_Y,
    SCORE,
    SLOTS,
    TARGET,
    TICK,
    X,
    Y,
    called,
    copied,
    slots_of,
    world_of,
)
from .engine import (
    EACH_TICK,
    EXECUTE,
    GOES_ON,
    JUDGE,
    REMOVED,
    RUN,
    SPOTS,
    begin,
    create,
    engine,
    first_of,
    free_spot,
    is_alive,
    player_of,
    push,
    remove,
    see,
    step_to,
    tell,
)
from .rules import ATTACK, COMMANDS, MOVE, Rules, UnitKind
from .space import single
from .strategic import (
    NOWHERE,
    OUT_OF_SIGHT,
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
from .strategic import problems as match_problems
from .world_rows import StrategyEnvironment, StrategyPlayers

__all__ = [
    "ACTIONS",
    "CAPTURE_THE_FLAG",
    "OBS_SPACE",
    "CaptureTheFlag",
    "CaptureTheFlagDuel",
    "CaptureTheFlagDuelRows",
    "CaptureTheFlagRows",
    "act",
    "carrier_of",
    "order",
    "play_tick",
    "setup",
    "tick",
]

GET_FLAG, ESCORT = len(COMMANDS), len(COMMANDS) + 1

CAPTURE_THE_FLAG = Rules(
    kinds=(
        UnitKind("FlagBase", vision=5, build_ticks=1, is_building=True),
        UnitKind(
            "Athlete",
            hp=100,
            speed=0.1,
            attack=10,
            range=1,
            vision=3,
            attack_ticks=15,
            commands=(MOVE, ATTACK, GET_FLAG, ESCORT),
        ),
        UnitKind("Flag", is_building=True),
    ),
    most_units=16,
    extra_commands=("get flag", "escort"),
)

ACTIONS = ("Nothing", "GetFlag", "AttackCarrier", "Escort", "Protect")
NOTHING, GET, ATTACK_CARRIER, ESCORT_FLAG, PROTECT = range(5)

LYING, OURS, THEIRS, COMING = range(4)
OBS_SPACE = ObsSpace(
    global_features=["own score", "enemy score", "tick"],
    entities={
        "Own": Entity(["x", "y", "hp", Discrete("carries", 2), Discrete("command", 7)]),
        "Enemy": Entity(["x", "y", "hp", Discrete("carries", 2)]),
        "Base": Entity(["x", "y", Discrete("own", 2)]),
        "Flag": Entity(["x", "y", Discrete("held", 4, names=("lies", "ours", "theirs", "comes"))]),
    },
)
"""``held`` of the flag: it lies on the ground, an own athlete or an enemy's has it, or it comes."""

TO_WIN = 5
BACK_AFTER = 100
"""Ticks until an athlete who died is back."""
FOR_A_POINT, FOR_A_CELL = 0.2, 0.01
"""The reward of a point, and of the flag being a cell nearer to the own base."""

KINDS = CAPTURE_THE_FLAG.table()
MAP, MOST_UNITS = CAPTURE_THE_FLAG.size, CAPTURE_THE_FLAG.most_units
HOME, ATHLETE, FLAG = range(3)
TAKE, SCORE_WITH = DO_OWN, DO_OWN + 1

LISTS = np.array([[2, 2, 2, 1], [0, 1, NOWHERE, 0], [NOWHERE, NOWHERE, NOWHERE, 0]])
"""The lists of ``note_units``: both players know both bases and the place of the flag."""

ROW, WAITS, FALLEN, BACK = NOTES, NOTES + 1, NOTES + 2, NOTES + 3
"""The row of the next flag, 0 if not drawn; whether it waits for its place; how many
athletes come back; and for each of them when, and whose it is. The place where the flag waits is
kept with the base of player 0, in slot 0, whose own orders it never gets."""


@called
def rules_of_a_tick(w: Any, kinds: Any, what: int, i: int) -> int:
    """Play the game's part of a tick."""
    if what == EACH_TICK:
        _come_back(w)
        _place_flag(w)
    elif what == RUN:
        return _run(w, i)
    elif what == REMOVED:
        _fall(w, i)
    elif what == EXECUTE:
        _execute(w, w.lists[i, 0], w.lists[i, 1])
    elif what == JUDGE:
        for player in range(2):
            if w.numbers[SCORE + player] >= TO_WIN:
                return player
        return GOES_ON
    return 0


@copied
def _come_back(w: Any) -> None:
    n, kept = w.numbers, 0
    for k in range(n[FALLEN]):
        due, player = n[BACK + 2 * k], n[BACK + 2 * k + 1]
        if due <= n[TICK]:
            base = first_of(w, player, HOME)
            x, y = w.places[base, X], w.places[base, Y]
            spot = free_spot(w, x, y)
            if spot >= 0:
                dx, dy = SPOTS[spot, 0], SPOTS[spot, 1]
                create(w, KINDS, player, ATHLETE, single(x + dx), single(y + dy))
                continue
        n[BACK + 2 * kept], n[BACK + 2 * kept + 1] = due, player
        kept += 1
    n[FALLEN] = kept


@copied
def _place_flag(w: Any) -> None:
    if w.numbers[WAITS] and create(w, KINDS, 0, FLAG, w.places[0, OWN_X], w.places[0, OWN_Y]) >= 0:
        w.numbers[WAITS] = 0


@copied
def _run(w: Any, i: int) -> int:
    """Get the flag, or bring it home; return True if that is finished."""
    p = w.places
    if w.units[i, COMMAND] == GET_FLAG:
        to, what = first_of(w, 0, FLAG), TAKE
    else:
        to, what = first_of(w, player_of(w, i), HOME), SCORE_WITH
        if not w.units[i, CARRIES]:
            return 1
    if to < 0:
        return 1
    dx, dy = p[to, X] - p[i, X], p[to, Y] - p[i, Y]
    if dx * dx + dy * dy < 0.5:
        push(w, what, i, 0, 0, 0.0, 0.0)
        return 1
    step_to(w, KINDS, i, p[to, X], p[to, Y])
    return 0


@copied
def _execute(w: Any, what: int, i: int) -> None:
    n, u = w.numbers, w.units
    if not u[i, ALIVE]:
        return
    flag = first_of(w, 0, FLAG)
    if what == TAKE and flag >= 0:
        remove(w, flag)
        u[i, CARRIES] = 1
    elif what == SCORE_WITH and u[i, CARRIES]:
        u[i, CARRIES] = 0
        n[SCORE + player_of(w, i)] += 1
        _let_flag_wait(w, 9.0, float(n[ROW]))
        n[ROW] = 0


@copied
def _fall(w: Any, i: int) -> None:
    n = w.numbers
    if w.units[i, KIND] != ATHLETE:
        return
    at = BACK + 2 * n[FALLEN]
    n[at], n[at + 1] = n[TICK] + BACK_AFTER, player_of(w, i)
    n[FALLEN] += 1
    if w.units[i, CARRIES]:
        _let_flag_wait(w, w.places[i, X], w.places[i, Y])


@called
def _let_flag_wait(w: Any, x: float, y: float) -> None:
    w.numbers[WAITS] = 1
    w.places[0, OWN_X], w.places[0, OWN_Y] = x, y


play_tick = engine(rules_of_a_tick, KINDS)


@called
def tick(w: Any, random: Any, game: int) -> None:
    """Play a tick, after drawing the random numbers that it may need."""
    if w.numbers[ROW] == 0:
        w.numbers[ROW] = random_int(random, game, 5, 14)
    play_tick(w)


@called
def setup(w: Any, random: Any, game: int, max_tick: int) -> None:
    """Begin a game: a base and five athletes each, and the flag in the middle."""
    begin(w, MAP, MOST_UNITS, 0, max_tick)
    for player in range(2):
        create(w, KINDS, player, HOME, 18.0 if player else 1.0, 9.5)
    for player in range(2):
        for i in range(5):
            y = 11 * random_int(random, game, 0, 1)
            y += random_int(random, game, 0, 8)
            create(w, KINDS, player, ATHLETE, float(15 * player + i), float(y))
    create(w, KINDS, 0, FLAG, 9.5, 9.5)
    see(w, KINDS)


@called
def carrier_of(w: Any, player: int) -> int:
    """Return a player's athlete with the flag, or -1."""
    for i in slots_of(w, player):
        if w.units[i, ALIVE] and w.units[i, CARRIES]:
            return i
    return -1


@called
def assign(w: Any, player: int, actions: int) -> None:
    """Store the commands of each athlete by orders, the sum of 2^order."""
    u = w.units
    mine, theirs = carrier_of(w, player), carrier_of(w, 1 - player)
    has_flag = first_of(w, 0, FLAG) >= 0
    damaged_by = u[mine, DAMAGED_BY] if mine >= 0 else -1
    for action in range(1, 5):
        if not (actions >> action) & 1:
            continue
        for i in slots_of(w, player):
            if not u[i, ALIVE] or u[i, KIND] != ATHLETE:
                continue
            command, target = 0, -1
            if action == GET and has_flag:
                command = GET_FLAG
            elif action == ATTACK_CARRIER and theirs >= 0:
                command, target = ATTACK, theirs
            elif action == ESCORT_FLAG and i == mine:
                command = ESCORT
            elif action == PROTECT and is_alive(w, damaged_by) and not u[i, CARRIES]:
                command, target = ATTACK, damaged_by
            same = u[i, COMMAND] == command and (target < 0 or u[i, TARGET] == target)
            if command > 0 and not same:
                tell(w, i, command, target, -1, -1.0, -1.0)


order, is_possible = ordering(KINDS, assign)


@called
def act(w: Any, player: int, who: int, random: Any, game: int) -> None:
    """Let a built-in player act: get the flag, bring it home, or stop the carrier."""
    if who == RANDOM:
        order(w, player, 1 << random_int(random, game, 0, 4))
    elif first_of(w, 0, FLAG) >= 0:
        order(w, player, 1 << GET)
    elif carrier_of(w, player) >= 0:
        order(w, player, (1 << ESCORT_FLAG) | (1 << PROTECT))
    else:
        order(w, player, 1 << ATTACK_CARRIER)


@called
def _where_the_flag_is(w: Any, player: int) -> tuple[float, float, int]:
    p = w.places
    flag, held = first_of(w, 0, FLAG), LYING
    if flag < 0:
        flag, held = carrier_of(w, player), OURS
    if flag < 0:
        flag, held = carrier_of(w, 1 - player), THEIRS
    x, y = p[0, OWN_X], p[0, OWN_Y]
    if flag >= 0:
        x, y = p[flag, X], p[flag, Y]
    else:
        held = COMING
    return x, y, held


@called
def _progress(w: Any, player: int) -> float:
    """Return the progress of the flag towards a player's base."""
    x, y, _ = _where_the_flag_is(w, player)
    base = first_of(w, player, HOME)
    dx, dy = w.places[base, X] - x, w.places[base, Y] - y
    return -math.sqrt(dx * dx + dy * dy)


@called
def _mark(w: Any, player: int, marks: Any) -> None:
    marks[0], marks[1] = w.numbers[SCORE + player], w.numbers[SCORE + 1 - player]
    marks[2] = _progress(w, player)


@called
def _gain(g: Any, w: Any, player: int, marks: Any) -> float:
    """Return the worth of points, or of the flag's progress."""
    own = w.numbers[SCORE + player] - marks[0]
    theirs = w.numbers[SCORE + 1 - player] - marks[1]
    if own != 0 or theirs != 0:
        gain: float = FOR_A_POINT * (own - theirs)
    else:
        gain = FOR_A_CELL * (_progress(w, player) - marks[2])
    return gain


_note, _obey = seating(KINDS, LISTS, order, is_possible)


def _reset(g: Any, game: int) -> None:
    begin_match(g, game, setup, act, tick, _note)


def _resolve(g: Any, game: int, reward: Any) -> bool:
    return play_on(g, game, reward, _obey, act, tick, _note, is_turn, _mark, _gain)


def _own(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    u, p, slot = g.units[game], g.places[game], g.shown[game, seat, 0, i]
    out[0], out[1], out[2] = p[slot, X], p[slot, Y], u[slot, HP] / 100
    out[3], out[4] = u[slot, CARRIES], u[slot, COMMAND]


def _enemy(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    u, p, slot = g.units[game], g.places[game], g.shown[game, seat, 1, i]
    out[0], out[1], out[2] = p[slot, X], p[slot, Y], u[slot, HP] / 100
    out[3] = u[slot, CARRIES]


def _base(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    slot = g.shown[game, seat, 2, i] % OUT_OF_SIGHT
    out[0], out[1] = g.places[game, slot, X], g.places[game, slot, Y]
    out[2] = slot // g.numbers[game, SLOTS] == seat


def _flag(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    out[0], out[1], out[2] = _where_the_flag_is(world_of(g, game), seat)


def _globals(g: Any, game: int, seat: int, out: Any) -> None:
    n = g.numbers[game]
    out[0], out[1], out[2] = n[SCORE + seat], n[SCORE + 1 - seat], n[TICK]


def _problems(g: Any, game: int) -> dict[str, bool]:
    n, w = g.numbers[game], world_of(g, game)
    fallen = min(int(n[FALLEN]), MOST_UNITS)
    owners = n[BACK + 1 : BACK + 2 * fallen : 2]
    return match_problems(g, game) | {
        "athletes who come back to nobody": n[FALLEN] > MOST_UNITS or bool((owners > 1).any()),
        "a player without a base": first_of(w, 0, HOME) < 0 or first_of(w, 1, HOME) < 0,
    }


ROWS = {"Own": _own, "Enemy": _enemy, "Base": _base, "Flag": Entities(_flag, 1, 1)}


@dataclass(frozen=True)
class FlagMatch(Match):
    """The settings of Capture the Flag, which are those of ``Match``."""

    opponent: str = "built_in"

    rules = CAPTURE_THE_FLAG
    scripts = ("built_in",)


class CaptureTheFlagRows(OrderRows):
    """R rows of ``CaptureTheFlag``, compiled."""

    match = FlagMatch

    @classmethod
    def game(cls, match: Any) -> CompiledGame:
        """Return the game for the kit."""
        parts = OBS_SPACE, ROWS, _reset, _resolve, _globals, ACTIONS
        return orders_game(match, cls.seats, *parts, problems=_problems)


class CaptureTheFlagDuelRows(CaptureTheFlagRows):
    """R rows of ``CaptureTheFlagDuel``, two seats of each game, compiled."""

    seats = 2


class CaptureTheFlag(StrategyEnvironment):
    """Capture the Flag against the built-in player: bring the flag home five times.

    Entities:
        ``Own`` [x, y, hp, carries, command], ``Enemy`` [x, y, hp, carries] in sight, ``Base``
        [x, y, own], ``Flag`` [x, y, held]: everybody knows where it is. ``hp`` is a share. Global:
        both scores, and the tick.
    Actions:
        ``Order``: nothing; all get the flag; all attack the enemy's carrier; the own carrier goes
        home; the others attack who last damaged the own carrier.
    Reward:
        1 for a win, -1 for a defeat; 0.2 for a point, -0.2 for one of the enemy's; in between a
        hundredth for each cell that the flag comes nearer to the own base.
    End:
        Five points, ``max_tick``, or a crowd in which nobody can move.
    Randomness:
        Where athletes begin, and where the flag comes after a point.
    Source:
        Tian et al. 2017, "ELF: An Extensive, Lightweight and Flexible Research Platform for
        Real-time Strategy Games".

    Args:
        settings: Settings of ``Match``; opponents are ``built_in`` and ``random``.
    """

    rows = CaptureTheFlagRows


class CaptureTheFlagDuel(StrategyPlayers):
    """Capture the Flag for two players; see ``CaptureTheFlag``.

    Args:
        settings: ``frame_skip``, ``opponent_skip``, ``max_tick`` and ``fog``, as of ``Match``.
    """

    rows = CaptureTheFlagDuelRows


CaptureTheFlagRows.environment = CaptureTheFlag
CaptureTheFlagDuelRows.environment = CaptureTheFlagDuel
