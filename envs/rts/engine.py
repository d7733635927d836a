"""The engine of strategy games: commands, movement, combat, gathering, building, fog.

It plays on arrays, without objects, in functions that Numba compiles.

A unit is a slot: a row of ``units`` and of ``places``. Of all slots player 0 has the first half.
They are filled in the order of creation; a slot is used again only after ``tidy`` has moved a
player's units forward. What is particular about a game is a compiled function that is given to
``engine``: ``(w, kinds, what, slot) -> int``, where ``what`` is one of the names below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import (
    ALIVE,
    ATTACK_TICKS,
    ATTACKED,
    BASE,
    BUILD_TICKS,
    BUILDS,
    BUILDS_OF,
    BUILT,
    BULLETS,
    CARRIES,
    COMMAND,
    COMMANDS_OF,
    COST,
    CREATED,
    DAMAGED_BY,
    DEFENCE,
    DO_CREATE,
    DO_DELIVER,
    DO_GATHERING,
    DO_HARVEST,
    DO_HIT,
    DO_MOVE,
    DO_PAY,
    DO_SHOOT,
    DO_STRIKE,
    FAILED,
    FAILED_SUM,
    FRESH,
    GATHER_TICKS,
    GATHERED,
    GRID,
    HP,
    IS_BUILDING,
    IS_RESOURCE,
    IS_STORE,
    IS_TOLD,
    KIND,
    LEADS_TO,
    MAX_HP,
    MAX_TICK,
    MONEY,
    MOST,
    NEW_BASE,
    NEW_BUILDS,
    NEW_COMMAND,
    NEW_START,
    NEW_TARGET,
    NEW_X,
    NEW_Y,
    ORDER_LIST,
    ORDERED,
    OVER,
    OWN_BUILDS,
    OWN_COMMAND,
    OWN_TARGET,
    OWN_X,
    OWN_Y,
    PHASE,
    PLACE_COLUMNS,
    POWER,
    QUEUE_ROOM,
    QUEUED,
    REACH,
    SEEN,
    SENT,
    SENT_LIST,
    SIZE,
    SLOTS,
    SPARE,
    SPEED,
    START,
    TAIL,
    TARGET,
    TICK,
    TO_X,
    TO_Y,
    TOLD,
    TOLD_LIST,
    UID,
    UNIT_COLUMNS,
    WINNER,
    X,
    Y,
    called,
    copied,
    slots_of,
)
from .rules import (
    ATTACK,
    BUILD,
    BULLET_REACH,
    BULLET_SPEED,
    CROWD_MOVES,
    CROWD_TICKS,
    GATHER,
    HARVEST,
    MOST_BULLETS,
    MOVE,
)
from .space import can_pass, enter, leave, sees, single, waypoint

__all__ = [
    "allows",
    "begin",
    "count_of",
    "create",
    "damage",
    "engine",
    "first_of",
    "forget",
    "free_spot",
    "is_alive",
    "move_to",
    "nearest",
    "player_of",
    "push",
    "put",
    "remove",
    "see",
    "send",
    "send_told",
    "step_to",
    "tell",
    "tidy",
]

EACH_TICK, RUN, REMOVED, JUDGE, HURT, EXECUTE = range(6)
"""Calls of a game's rules: before a tick; to run a command of the game, which returns True if it is
finished; after a unit has died; to return the winner, -1 for none and -2 during the game; after a
unit has lost hit points to the unit in its ``DAMAGED_BY``; and to execute an immediate command of
the game in a row of ``lists``."""

NOBODY, DEAD = -1, -2
"""In the place of a slot: that there never was a unit, and that it is no more."""

GOES_ON = -2
GOING, WORKING, RETURNING = range(3)


SPOTS = np.array(
    [
        *((-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0)),
        *((-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)),
        *((-2.0, 0.0), (2.0, 0.0), (0.0, -2.0), (0.0, 2.0)),
    ]
)
"""Places (x, y) for something new around a point, in the order in which they are tried."""


@called
def begin(w: Any, size: int, most: int, money: int, max_tick: int) -> None:
    """Make an empty map at tick 1, from which on units exist."""
    n = w.numbers
    n[:] = 0
    n[TICK] = 1
    n[WINNER], n[SIZE], n[MOST], n[MAX_TICK] = -1, size, most, max_tick
    n[SLOTS] = w.units.shape[0] // 2
    n[MONEY], n[MONEY + 1] = money, money
    w.units[:] = 0
    w.places[:] = 0
    n[GRID : GRID + size * size] = -1


@called
def player_of(w: Any, i: int) -> int:
    """Return the owner of a unit."""
    return i // w.numbers[SLOTS]


@called
def count_of(w: Any, player: int, kind: int) -> int:
    """Return the number of a player's units of a kind; -1 counts all kinds."""
    found = 0
    for i in slots_of(w, player):
        if w.units[i, ALIVE] and (kind < 0 or w.units[i, KIND] == kind):
            found += 1
    return found


@called
def first_of(w: Any, player: int, kind: int) -> int:
    """Return a player's first unit of a kind, or -1."""
    for i in slots_of(w, player):
        if w.units[i, ALIVE] and w.units[i, KIND] == kind:
            return i
    return -1


@called
def nearest(w: Any, kinds: Any, player: int, x: float, y: float, kind: int, within: float) -> int:
    """Return the enemy of a player that is nearest to a point, within a squared distance; or -1.

    It is of a kind, or with -1 any unit in the player's sight that is no resource.
    """
    u, p = w.units, w.places
    found, least = -1, within
    for i in slots_of(w, 1 - player):
        dx, dy = p[i, X] - x, p[i, Y] - y
        if not u[i, ALIVE] or not dx * dx + dy * dy < least:
            continue
        wanted = u[i, KIND] == kind
        if kind < 0 and kinds[u[i, KIND], IS_RESOURCE] == 0:
            wanted = sees(w, kinds, player, p[i, X], p[i, Y])
        if wanted:
            found, least = i, dx * dx + dy * dy
    return found


@called
def allows(w: Any, kinds: Any, i: int, command: int) -> bool:
    """Return True if a unit may get a command."""
    return (int(kinds[w.units[i, KIND], COMMANDS_OF]) >> command) & 1 == 1


@called
def is_alive(w: Any, i: int) -> bool:
    """Return True if a reference leads to a living unit."""
    return i >= 0 and w.units[i, ALIVE] == 1


@called
def put(w: Any, kinds: Any, player: int, kind: int, x: float, y: float) -> int:
    """Create a unit at any place; return -1 if there is no slot left."""
    n, u = w.numbers, w.units
    if n[TAIL + player] >= n[SLOTS]:
        return -1
    i = player * n[SLOTS] + n[TAIL + player]
    n[TAIL + player] += 1
    for column in range(UNIT_COLUMNS):
        u[i, column] = 0
    u[i, ALIVE], u[i, UID], u[i, KIND] = 1, n[CREATED], kind
    u[i, HP], u[i, DAMAGED_BY] = int(kinds[kind, MAX_HP]), -1
    u[i, TARGET], u[i, BASE], u[i, BUILDS] = -1, -1, -1
    n[CREATED] += 1
    w.places[i, X], w.places[i, Y] = single(x), single(y)
    enter(w, i)
    return i


@called
def create(w: Any, kinds: Any, player: int, kind: int, x: float, y: float) -> int:
    """Create a unit; return -1 if the place is not free, or its player has the maximum number."""
    x, y = single(x), single(y)
    if not can_pass(w, x, y, -1) or count_of(w, player, -1) >= w.numbers[MOST]:
        return -1
    return put(w, kinds, player, kind, x, y)


@called
def send(
    w: Any,
    kinds: Any,
    player: int,
    i: int,
    command: int,
    x: float,
    y: float,
    target: int,
    base: int,
    builds: int,
) -> bool:
    """Give a unit a command from this tick on; return False if the command is rejected.

    Commands are rejected from other players, for other kinds of units, for places outside the map
    or units that do not exist, and for busy buildings. Of several commands for a unit in one tick
    the last one counts.
    """
    u = w.units
    if i < 0 or i >= len(u) or not u[i, ALIVE] or player_of(w, i) != player or command < 1:
        return False
    if not allows(w, kinds, i, command):
        return False
    if kinds[u[i, KIND], IS_BUILDING] > 0 and u[i, COMMAND] != 0:
        return False
    if target >= len(u) or base >= len(u):
        return False
    last = w.numbers[SIZE] - 1
    has_place = 0 <= x <= last and 0 <= y <= last
    if command == MOVE and not has_place:
        return False
    if command == ATTACK and (not is_alive(w, target) or player_of(w, target) == player):
        return False
    if command == GATHER:
        if not (is_alive(w, target) and is_alive(w, base)) or player_of(w, base) != player:
            return False
        if kinds[u[target, KIND], IS_RESOURCE] == 0 or kinds[u[base, KIND], IS_STORE] == 0:
            return False
    if command == BUILD:
        mine = 0 <= builds < len(kinds) and (int(kinds[u[i, KIND], BUILDS_OF]) >> builds) & 1 == 1
        if not mine or not (has_place if kinds[u[i, KIND], SPEED] > 0 else x < 0):
            return False
    _note_sent(w, i, command, x, y, target, base, builds)
    return True


@called
def _note_sent(
    w: Any, i: int, command: int, x: float, y: float, target: int, base: int, builds: int
) -> None:
    """Add a command to the list, or replace an earlier one for the same unit."""
    n, u = w.numbers, w.units
    if u[i, NEW_COMMAND] != 0:
        kept = 0
        for k in range(n[SENT]):
            if w.numbers[SENT_LIST + k] != i:
                w.numbers[SENT_LIST + kept] = w.numbers[SENT_LIST + k]
                kept += 1
        n[SENT] = kept
    w.numbers[SENT_LIST + n[SENT]] = i
    n[SENT] += 1
    u[i, NEW_COMMAND], u[i, NEW_TARGET], u[i, NEW_BASE] = command, target, base
    u[i, NEW_BUILDS], u[i, NEW_START] = builds, n[TICK]
    w.places[i, NEW_X], w.places[i, NEW_Y] = x, y


@called
def tell(w: Any, i: int, command: int, target: int, builds: int, x: float, y: float) -> None:
    """Store the command of a unit; a later command replaces an earlier one, in its place."""
    u = w.units
    if not u[i, IS_TOLD]:
        u[i, IS_TOLD] = 1
        w.numbers[TOLD_LIST + w.numbers[TOLD]] = i
        w.numbers[TOLD] += 1
    u[i, OWN_COMMAND], u[i, OWN_TARGET], u[i, OWN_BUILDS] = command, target, builds
    w.places[i, OWN_X], w.places[i, OWN_Y] = x, y


@called
def forget(w: Any) -> None:
    """Remove all stored commands."""
    for k in range(w.numbers[TOLD]):
        w.units[w.numbers[TOLD_LIST + k], IS_TOLD] = 0
    w.numbers[TOLD] = 0


@called
def send_told(w: Any, kinds: Any, player: int) -> None:
    """Send the stored commands to their units, in order."""
    u = w.units
    for k in range(w.numbers[TOLD]):
        i = w.numbers[TOLD_LIST + k]
        x, y = w.places[i, OWN_X], w.places[i, OWN_Y]
        send(w, kinds, player, i, u[i, OWN_COMMAND], x, y, u[i, OWN_TARGET], -1, u[i, OWN_BUILDS])


@called
def push(w: Any, what: int, a: int, b: int, c: int, x: float, y: float) -> None:
    """Queue an immediate command for the end of the tick."""
    at = w.numbers[QUEUED]
    w.lists[at, 0], w.lists[at, 1], w.lists[at, 2], w.lists[at, 3] = what, a, b, c
    w.flights[at, 0], w.flights[at, 1] = x, y
    w.numbers[QUEUED] = at + 1


@called
def tidy(w: Any, player: int) -> None:
    """Move a player's living units forward over the slots of the dead, in their order.

    References to moved units are updated, and those to dead units become ``DEAD``.
    """
    n, u, p = w.numbers, w.units, w.places
    first, end = player * n[SLOTS], player * n[SLOTS] + n[TAIL + player]
    at = first
    for i in range(first, end):
        leads = DEAD
        if u[i, ALIVE]:
            leave(w, i)
            leads = at
            at += 1
        u[i, LEADS_TO] = leads
    for k in range(n[ORDERED]):
        n[ORDER_LIST + k] = _led(w, first, end, n[ORDER_LIST + k])
    for k in range(n[SENT]):
        n[SENT_LIST + k] = _led(w, first, end, n[SENT_LIST + k])
    _drop_dead(w, ORDERED, ORDER_LIST)
    _drop_dead(w, SENT, SENT_LIST)
    for i in range(len(u)):
        for column in (TARGET, BASE, DAMAGED_BY, NEW_TARGET, NEW_BASE):
            u[i, column] = _led(w, first, end, u[i, column])
    for k in range(QUEUE_ROOM, QUEUE_ROOM + n[BULLETS]):
        w.lists[k, 1] = _led(w, first, end, w.lists[k, 1])
        w.lists[k, 2] = _led(w, first, end, w.lists[k, 2])
    for i in range(first, end):
        to = u[i, LEADS_TO]
        if to >= 0:
            for column in range(UNIT_COLUMNS):
                u[to, column] = u[i, column]
            for column in range(PLACE_COLUMNS):
                p[to, column] = p[i, column]
            enter(w, to)
    for i in range(at, end):
        u[i, ALIVE] = 0
    n[TAIL + player] = at - first


@called
def _led(w: Any, first: int, end: int, i: int) -> int:
    """Return the slot of a reference after ``tidy``."""
    return w.units[i, LEADS_TO] if first <= i < end else i


@called
def _drop_dead(w: Any, count: int, at: int) -> None:
    """Remove dead units from a list of slots."""
    n, kept = w.numbers, 0
    for k in range(n[count]):
        if n[at + k] >= 0:
            n[at + kept] = n[at + k]
            kept += 1
    n[count] = kept


def engine(game: Any, kinds: npt.NDArray[np.float64]) -> Any:
    """Return ``play_tick(w)`` of a game, which lets a tick pass after players have sent commands.

    The game's function is part of the result, because as an argument it would be an address of this
    process, which cannot be cached on disk.

    Args:
        game: The function of the game.
        kinds: The table of its kinds, ``Rules.table``.
    """

    @called
    def play_tick(w: Any) -> None:
        _tick(w, kinds, game)

    return play_tick


@copied
def _tick(w: Any, kinds: Any, game: Any) -> None:
    for player in range(2):
        if w.numbers[TAIL + player] > w.numbers[SLOTS] - SPARE:
            tidy(w, player)
    game(w, kinds, EACH_TICK, -1)
    if w.numbers[BULLETS] > 0:
        _move_bullets(w)
    _run_commands(w, kinds, game)
    _execute_queue(w, kinds, game)
    see(w, kinds)
    _finish_tick(w, game(w, kinds, JUDGE, -1))


@copied
def _move_bullets(w: Any) -> None:
    b, at, flying = w.lists[QUEUE_ROOM:], w.flights[QUEUE_ROOM:], 0
    for k in range(w.numbers[BULLETS]):
        target = b[k, 2]
        if not is_alive(w, target):
            continue
        dx, dy = w.places[target, X] - at[k, 0], w.places[target, Y] - at[k, 1]
        distance = math.sqrt(dx * dx + dy * dy)
        if distance < BULLET_REACH:
            push(w, DO_HIT, b[k, 1], target, b[k, 0], 0.0, 0.0)
            continue
        x = single(at[k, 0] + dx * (BULLET_SPEED / distance))
        y = single(at[k, 1] + dy * (BULLET_SPEED / distance))
        at[flying, 0], at[flying, 1] = x, y
        b[flying, 0], b[flying, 1], b[flying, 2] = b[k, 0], b[k, 1], target
        flying += 1
    w.numbers[BULLETS] = flying


@copied
def _run_commands(w: Any, kinds: Any, game: Any) -> None:
    """Run each command once: new ones in the order of sending, then others, newest first."""
    n, u, p = w.numbers, w.units, w.places
    told = 0
    for k in range(n[SENT]):
        i = w.numbers[SENT_LIST + k]
        if u[i, ALIVE]:
            w.numbers[SENT_LIST + told] = i
            told += 1
            u[i, COMMAND], u[i, TARGET], u[i, BASE] = (
                u[i, NEW_COMMAND],
                u[i, NEW_TARGET],
                u[i, NEW_BASE],
            )
            u[i, BUILDS], u[i, PHASE], u[i, START] = u[i, NEW_BUILDS], GOING, u[i, NEW_START]
            p[i, TO_X], p[i, TO_Y] = p[i, NEW_X], p[i, NEW_Y]
            u[i, FRESH] = 1
        u[i, NEW_COMMAND] = 0
    n[SENT] = 0
    old = 0
    for k in range(told + n[ORDERED]):
        is_new = k < told
        i = n[SENT_LIST + k] if is_new else n[ORDER_LIST + k - told]
        if u[i, ALIVE] and u[i, COMMAND] != 0 and (is_new or not u[i, FRESH]):
            if _run(w, kinds, i, game):
                u[i, COMMAND] = 0
            elif not is_new:
                n[ORDER_LIST + old] = i
                old += 1
    n[ORDERED] = old
    if told > 0:
        _put_first(w, told)


@copied
def _put_first(w: Any, told: int) -> None:
    """Put units with new commands before the others, those of this tick first."""
    n, u = w.numbers, w.units
    going = 0
    for k in range(told):
        i = w.numbers[SENT_LIST + k]
        u[i, FRESH] = 0
        if u[i, COMMAND] != 0:
            w.numbers[SENT_LIST + going] = i
            going += 1
    for k in range(n[ORDERED] - 1, -1, -1):
        w.numbers[ORDER_LIST + k + going] = w.numbers[ORDER_LIST + k]
    at = 0
    for is_now in (True, False):
        for k in range(going):
            if (u[w.numbers[SENT_LIST + k], START] == n[TICK]) == is_now:
                w.numbers[ORDER_LIST + at] = w.numbers[SENT_LIST + k]
                at += 1
    n[ORDERED] += going


@copied
def _run(w: Any, kinds: Any, i: int, game: Any) -> bool:
    """Run a command once; return True if it is finished."""
    u, p = w.units, w.places
    command = u[i, COMMAND]
    if command == MOVE:
        dx, dy = p[i, TO_X] - p[i, X], p[i, TO_Y] - p[i, Y]
        if dx * dx + dy * dy < 0.001:
            return True
        step_to(w, kinds, i, p[i, TO_X], p[i, TO_Y])
        return False
    if command == ATTACK:
        return _attack(w, kinds, i)
    if command == GATHER:
        return _gather(w, kinds, i)
    if command == BUILD:
        return _build(w, kinds, i)
    return game(w, kinds, RUN, i) != 0


@copied
def _attack(w: Any, kinds: Any, i: int) -> bool:
    u, p = w.units, w.places
    target, kind = u[i, TARGET], u[i, KIND]
    if not is_alive(w, target):
        return True
    dx, dy = p[target, X] - p[i, X], p[target, Y] - p[i, Y]
    reach = kinds[kind, REACH]
    if int(dx * dx + dy * dy) > reach * reach:
        if kinds[kind, SPEED] == 0:
            return True
        step_to(w, kinds, i, p[target, X], p[target, Y])
    elif w.numbers[TICK] - u[i, ATTACKED] >= kinds[kind, ATTACK_TICKS]:
        what = DO_STRIKE if reach <= 1 else DO_SHOOT
        push(w, what, i, target, int(kinds[kind, POWER]), 0.0, 0.0)
    return False


@copied
def _gather(w: Any, kinds: Any, i: int) -> bool:
    u, p = w.units, w.places
    resource, base = u[i, TARGET], u[i, BASE]
    if not is_alive(w, resource) or not is_alive(w, base):
        return True
    if u[i, PHASE] == WORKING:
        if w.numbers[TICK] - u[i, GATHERED] >= kinds[u[i, KIND], GATHER_TICKS]:
            push(w, DO_HARVEST, resource, 0, 0, 0.0, 0.0)
            u[i, PHASE] = RETURNING
        return False
    to = resource if u[i, PHASE] == GOING else base
    dx, dy = p[to, X] - p[i, X], p[to, Y] - p[i, Y]
    is_far = dx * dx + dy * dy >= 1.0
    if is_far or u[i, PHASE] == GOING:
        step_to(w, kinds, i, p[to, X], p[to, Y])  # the last step leads nearer than one cell
    if is_far:
        return False
    if u[i, PHASE] == GOING:
        push(w, DO_GATHERING, i, 0, 0, 0.0, 0.0)
        u[i, PHASE] = WORKING
    else:
        push(w, DO_DELIVER, player_of(w, i), 0, 0, 0.0, 0.0)
        u[i, PHASE] = GOING
    return False


@called
def free_spot(w: Any, x: float, y: float) -> int:
    """Return the first free point of twelve around another one, or -1."""
    for spot in range(len(SPOTS)):
        dx, dy = SPOTS[spot, 0], SPOTS[spot, 1]
        if can_pass(w, single(x + dx), single(y + dy), -1):
            return spot
    return -1


@copied
def _build(w: Any, kinds: Any, i: int) -> bool:
    u, p = w.units, w.places
    x, y = p[i, TO_X], p[i, TO_Y]
    has_place = x >= 0
    if u[i, PHASE] == GOING:
        dx, dy = x - p[i, X], y - p[i, Y]
        if has_place and dx * dx + dy * dy >= 1.0:
            if free_spot(w, x, y) >= 0:
                step_to(w, kinds, i, x, y)
            return False
        push(w, DO_PAY, i, u[i, BUILDS], 0, 0.0, 0.0)
        u[i, PHASE] = WORKING
        return False
    if w.numbers[TICK] - u[i, BUILT] < kinds[u[i, KIND], BUILD_TICKS]:
        return False
    if not has_place:
        spot = free_spot(w, p[i, X], p[i, Y])
        if spot < 0:
            return False
        dx, dy = SPOTS[spot, 0], SPOTS[spot, 1]
        x, y = single(p[i, X] + dx), single(p[i, Y] + dy)
    push(w, DO_CREATE, player_of(w, i), u[i, BUILDS], 0, x, y)
    return True


@called
def step_to(w: Any, kinds: Any, i: int, x: float, y: float) -> None:
    """Queue a step on the way to a point, or store that there is none."""
    from_x, from_y = w.places[i, X], w.places[i, Y]
    dx, dy = x - from_x, y - from_y
    if dx * dx + dy * dy > 1.0:
        cell = waypoint(w, i, x, y)
        if cell >= 0:
            size = w.numbers[SIZE]
            dx, dy = float(cell % size) - from_x, float(cell // size) - from_y
    speed = kinds[w.units[i, KIND], SPEED]
    if w.units[i, CARRIES]:
        speed = speed / 3.0
    distance = math.sqrt(dx * dx + dy * dy)
    if distance > speed:
        dx, dy = dx * (speed / distance), dy * (speed / distance)
    for _ in range(3):
        new_x, new_y = single(from_x + dx), single(from_y + dy)
        if can_pass(w, new_x, new_y, i):
            push(w, DO_MOVE, i, 0, 0, new_x, new_y)
            return
        if _ == 0:
            dx, dy = -dy, dx
        else:
            dx, dy = -dx, -dy
    w.numbers[FAILED + w.numbers[TICK] % CROWD_TICKS] += 1
    w.numbers[FAILED_SUM] += 1


@copied
def _execute_queue(w: Any, kinds: Any, game: Any) -> None:
    n, u, p, q = w.numbers, w.units, w.places, w.lists
    for k in range(n[QUEUED]):
        what, a, b, c = q[k, 0], q[k, 1], q[k, 2], q[k, 3]
        if what == DO_MOVE:
            x, y = w.flights[k, 0], w.flights[k, 1]
            if u[a, ALIVE] and can_pass(w, x, y, a):
                move_to(w, a, x, y)
        elif what == DO_STRIKE:
            if u[a, ALIVE]:
                u[a, ATTACKED] = n[TICK]
            _hit(w, kinds, game, a, b, c)
        elif what == DO_SHOOT:
            if u[a, ALIVE]:
                u[a, ATTACKED] = n[TICK]
                if n[BULLETS] < MOST_BULLETS:
                    at = n[BULLETS]
                    (
                        w.lists[QUEUE_ROOM + at, 0],
                        w.lists[QUEUE_ROOM + at, 1],
                        w.lists[QUEUE_ROOM + at, 2],
                    ) = c, a, b
                    w.flights[QUEUE_ROOM + at, 0], w.flights[QUEUE_ROOM + at, 1] = p[a, X], p[a, Y]
                    n[BULLETS] += 1
        elif what == DO_HIT:
            _hit(w, kinds, game, a, b, c)
        elif what == DO_GATHERING:
            if u[a, ALIVE]:
                u[a, GATHERED] = n[TICK]
        elif what == DO_HARVEST:
            if u[a, ALIVE]:
                damage(w, kinds, game, a, HARVEST, -1)
        elif what == DO_DELIVER:
            n[MONEY + a] += HARVEST
        elif what == DO_PAY:
            if u[a, ALIVE]:
                player, cost = player_of(w, a), int(kinds[b, COST])
                if n[MONEY + player] < cost:
                    u[a, COMMAND] = 0
                else:
                    n[MONEY + player] -= cost
                    u[a, BUILT] = n[TICK]
        elif what == DO_CREATE:
            x, y = w.flights[k, 0], w.flights[k, 1]
            n[MONEY + a] += int(kinds[b, COST]) if create(w, kinds, a, b, x, y) < 0 else 0
        else:
            game(w, kinds, EXECUTE, k)
    n[QUEUED] = 0


@called
def move_to(w: Any, i: int, x: float, y: float) -> None:
    """Move a unit to another place."""
    leave(w, i)
    w.places[i, X], w.places[i, Y] = x, y
    enter(w, i)


@copied
def _hit(w: Any, kinds: Any, game: Any, by: int, target: int, attack: int) -> None:
    if is_alive(w, target):
        lost = max(0, attack - int(kinds[w.units[target, KIND], DEFENCE]))
        if lost > 0:
            damage(w, kinds, game, target, lost, by)


@copied
def damage(w: Any, kinds: Any, game: Any, hurt: int, lost: int, by: int) -> None:
    """Subtract hit points; an idle unit that survives and can attack strikes back."""
    u = w.units
    u[hurt, HP] -= lost
    if by != NOBODY:
        u[hurt, DAMAGED_BY] = by
        game(w, kinds, HURT, hurt)
    if u[hurt, HP] <= 0:
        remove(w, hurt)
        game(w, kinds, REMOVED, hurt)
        return
    if is_alive(w, by) and u[hurt, COMMAND] == 0 and allows(w, kinds, hurt, ATTACK):
        _note_sent(w, hurt, ATTACK, -1.0, -1.0, by, -1, -1)


@called
def remove(w: Any, i: int) -> None:
    """Let a unit die."""
    leave(w, i)
    w.units[i, ALIVE] = 0


@called
def see(w: Any, kinds: Any) -> None:
    """Store the buildings that the enemy sees, because it remembers them."""
    u, p = w.units, w.places
    for player in range(2):
        for i in slots_of(w, player):
            if (
                u[i, ALIVE]
                and not u[i, SEEN]
                and kinds[u[i, KIND], IS_BUILDING] > 0
                and sees(w, kinds, 1 - player, p[i, X], p[i, Y])
            ):
                u[i, SEEN] = 1


@copied
def _finish_tick(w: Any, winner: int) -> None:
    n = w.numbers
    crowded = n[FAILED + n[TICK] % CROWD_TICKS] >= 1 and n[FAILED_SUM] >= CROWD_MOVES
    n[TICK] += 1
    n[FAILED_SUM] -= n[FAILED + n[TICK] % CROWD_TICKS]
    n[FAILED + n[TICK] % CROWD_TICKS] = 0
    if winner != GOES_ON or n[TICK] >= n[MAX_TICK] or crowded:
        n[OVER], n[WINNER] = 1, -1 if winner == GOES_ON else winner
