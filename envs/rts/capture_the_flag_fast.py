"""Capture the Flag for Numba: ``capture_the_flag.py`` over the arrays of ``fast_world.py``."""

from __future__ import annotations

from typing import Any

from entity_env.rows.compiled import random_int

from .capture_the_flag import (
    ATTACK_CARRIER,
    BACK_AFTER,
    CAPTURE_THE_FLAG,
    ESCORT,
    ESCORT_FLAG,
    GET,
    GET_FLAG,
    PROTECT,
    TO_WIN,
)
from .fast_layout import (
    ALIVE,
    CARRIES,
    COMMAND,
    DAMAGED_BY,
    DO_OWN,
    KIND,
    NOTES,
    OWN_X,
    OWN_Y,
    SCORE,
    SLOTS,
    TAIL,
    TARGET,
    TICK,
    TOLD,
    X,
    Y,
    called,
    copied,
)
from .fast_orders import forget, send_told, tell
from .fast_space import single
from .fast_world import (
    EACH_TICK,
    EXECUTE,
    GOES_ON,
    JUDGE,
    REMOVED,
    RUN,
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
    spot_of,
    step_to,
)
from .rules import ATTACK

__all__ = [
    "act_scripted",
    "assign",
    "carrier_of",
    "is_possible",
    "order",
    "play_tick",
    "prepare",
    "setup",
]

KINDS = CAPTURE_THE_FLAG.table()
MAP, MOST_UNITS = CAPTURE_THE_FLAG.size, CAPTURE_THE_FLAG.most_units
HOME, ATHLETE, FLAG = range(3)
TAKE, SCORE_WITH = DO_OWN, DO_OWN + 1

ROW, WAITS, FALLEN, BACK = NOTES, NOTES + 1, NOTES + 2, NOTES + 3
"""The row of the next flag, 0 if not drawn; whether it waits for its place; how many
athletes come back; and for each of them when, and whose it is. The place where the flag waits is
kept with the base of player 0, in slot 0, whose own orders it never gets."""


@called
def rules_of_a_tick(w: Any, kinds: Any, what: int, i: int) -> int:
    """Return the game's own part of a tick."""
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
                dx, dy = spot_of(spot)
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
    """Get the flag, or bring it home; whether that is finished."""
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


play_tick = engine(rules_of_a_tick)


@called
def prepare(w: Any, random: Any, game: int) -> None:
    """Draw what the next tick may need."""
    if w.numbers[ROW] == 0:
        w.numbers[ROW] = random_int(random, game, 5, 14)


@called
def setup(w: Any, random: Any, game: int, max_tick: int) -> None:
    """Begin a game: the same draws in the same order as ``CaptureTheFlag.setup``."""
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
    first = player * w.numbers[SLOTS]
    for i in range(first, first + w.numbers[TAIL + player]):
        if w.units[i, ALIVE] and w.units[i, CARRIES]:
            return i
    return -1


@called
def assign(w: Any, player: int, actions: int) -> None:
    """Note what each athlete is told by orders, the sum of 2^order. See ``capture_the_flag``."""
    u = w.units
    mine, theirs = carrier_of(w, player), carrier_of(w, 1 - player)
    has_flag = first_of(w, 0, FLAG) >= 0
    damaged_by = u[mine, DAMAGED_BY] if mine >= 0 else -1
    first = player * w.numbers[SLOTS]
    for action in range(1, 5):
        if not (actions >> action) & 1:
            continue
        for i in range(first, first + w.numbers[TAIL + player]):
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


@called
def order(w: Any, player: int, actions: int) -> None:
    """Let a player give orders, the sum of 2^order."""
    assign(w, player, actions)
    send_told(w, KINDS, player)
    forget(w)


@called
def is_possible(w: Any, player: int, action: int) -> bool:
    """Return True if an order would move an athlete now; idling is possible."""
    assign(w, player, 1 << action)
    found = w.numbers[TOLD] > 0
    forget(w)
    return found or action == 0


@called
def act_scripted(w: Any, player: int, is_random: bool, random: Any, game: int) -> None:
    """Let a built-in player act."""
    if is_random:
        order(w, player, 1 << random_int(random, game, 0, 4))
    elif first_of(w, 0, FLAG) >= 0:
        order(w, player, 1 << GET)
    elif carrier_of(w, player) >= 0:
        order(w, player, (1 << ESCORT_FLAG) | (1 << PROTECT))
    else:
        order(w, player, 1 << ATTACK_CARRIER)
