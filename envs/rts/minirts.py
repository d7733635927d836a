"""Mini-RTS: gather, build an army, and destroy the enemy's base; nine strategic orders.

Each player has a base, a resource and perhaps some units; the only player with a base wins. If
both lose their bases in one tick, nobody wins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.rows.compiled import random_float, random_int
from entity_env.rows.jit import kernel, with_arrays

from .arrays import (
    ALIVE,
    BUILDS,
    COMMAND,
    COST,
    DAMAGED_BY,
    HP,
    IS_TOLD,
    KIND,
    MAX_HP,
    MONEY,
    OVER,
    SIZE,
    TARGET,
    TICK,
    TOLD,
    X,
    Y,
    called,
    copied,
    slots_of,
    world_of,
)
from .engine import (
    GOES_ON,
    JUDGE,
    allows,
    begin,
    count_of,
    create,
    engine,
    first_of,
    forget,
    is_alive,
    nearest,
    see,
    send,
    send_told,
    tell,
)
from .rules import ATTACK, BUILD, GATHER, MOVE, Rules, UnitKind
from .space import WAYS, can_pass, cell_of, sees
from .strategic import RANDOM, SEATED

__all__ = [
    "ACTIONS",
    "MINI_RTS",
    "act",
    "advantage",
    "assign",
    "attacker_of",
    "begin_games",
    "gain",
    "is_possible",
    "judge",
    "mark",
    "order",
    "play_games",
    "play_tick",
    "scripted",
    "setup",
    "tick",
]

MINI_RTS = Rules(
    kinds=(
        UnitKind("Resource", hp=1000, defence=1000, is_building=True, is_resource=True),
        UnitKind(
            "Worker",
            cost=50,
            hp=50,
            speed=0.1,
            attack=2,
            range=1,
            vision=3,
            attack_ticks=10,
            gather_ticks=40,
            build_ticks=40,
            commands=(MOVE, ATTACK, GATHER, BUILD),
            builds=("Barracks",),
        ),
        UnitKind(
            "Melee",
            cost=100,
            hp=100,
            defence=1,
            speed=0.1,
            attack=15,
            range=1,
            vision=3,
            attack_ticks=15,
            commands=(MOVE, ATTACK),
        ),
        UnitKind(
            "Range",
            cost=100,
            hp=50,
            speed=0.2,
            attack=10,
            range=5,
            vision=5,
            attack_ticks=10,
            commands=(MOVE, ATTACK),
        ),
        UnitKind(
            "Barracks",
            cost=200,
            hp=200,
            defence=1,
            vision=5,
            build_ticks=50,
            commands=(BUILD,),
            builds=("Melee", "Range"),
            is_building=True,
        ),
        UnitKind(
            "Base",
            cost=500,
            hp=500,
            defence=2,
            vision=5,
            build_ticks=50,
            commands=(BUILD,),
            builds=("Worker",),
            is_building=True,
            is_store=True,
            is_known=True,
        ),
    ),
    resource=200,
)

ACTIONS = (
    *("Idle", "BuildWorker", "BuildBarracks", "BuildMelee", "BuildRange"),
    *("Attack", "AttackInRange", "HitAndRun", "Defend"),
)
IDLE, BUILD_WORKER, BUILD_BARRACKS, BUILD_MELEE, BUILD_RANGE = range(5)
ATTACK_BASE, ATTACK_IN_RANGE, HIT_AND_RUN, DEFEND = range(5, 9)

FLEE = 10
"""The distance from all enemies to which a unit flees, in cells."""

KINDS = MINI_RTS.table()
MAP, MOST_UNITS, AT_FIRST = MINI_RTS.size, MINI_RTS.most_units, MINI_RTS.resource
RESOURCE, WORKER, MELEE, RANGE, BARRACKS, HOME = range(6)
OWN, ENEMY, SOURCES, REMEMBERED = range(4)
_UNIT = (OWN, ENEMY, REMEMBERED)
LISTS = np.array([(*[SOURCES] * 3, 0), *[(*_UNIT, 0)] * 4, (*_UNIT, 1)])
"""The lists of the units that a player sees; see ``note_units``."""
SIMPLE, HIT_N_RUN = 1, 2
"""Built-in players by number, which see everything."""


@called
def judge(w: Any, kinds: Any, what: int, i: int) -> int:
    """Play the game's part of a tick: the only player with a base wins."""
    if what != JUDGE:
        return 0
    first, second = first_of(w, 0, HOME) >= 0, first_of(w, 1, HOME) >= 0
    if first and second:
        return GOES_ON
    return 0 if first else 1 if second else -1


play_tick = engine(judge, KINDS)


@with_arrays
def setup(w: Any, random: Any, game: int, max_tick: int) -> None:
    """Begin a game: two bases in opposite corners, their resources, and a few units by chance."""
    begin(w, MAP, MOST_UNITS, AT_FIRST, max_tick)
    size = MAP
    planned = np.zeros((16, 4), np.int64)
    count = 0
    for player in range(2):
        base_x, base_y, x, y = -1, -1, -1, -1
        while True:  # both again, so that bases stand at a border less often
            base_x = (random_int(random, game, 0, 19) + 40 * player) // 3
            base_y = (random_int(random, game, 0, 19) + 40 * player) // 3
            x = base_x + random_int(random, game, -4, 4)
            y = base_y + random_int(random, game, -4, 4)
            if 0 <= x < size and 0 <= y < size and (x != base_x or y != base_y):
                break
        planned[count, 0], planned[count, 1] = player, HOME
        planned[count, 2], planned[count, 3] = base_x, base_y
        planned[count + 1, 0], planned[count + 1, 1] = player, RESOURCE
        planned[count + 1, 2], planned[count + 1, 3] = x, y
        count += 2
        for k in range(6):
            kind = WORKER if k < 3 else BARRACKS if k == 3 else MELEE if k == 4 else RANGE
            if random_float(random, game) < (0.2 if k == 3 else 0.5):
                planned[count, 0], planned[count, 1] = player, kind
                planned[count, 2] = random_int(random, game, 0, 5) + 2 + 10 * player
                planned[count, 3] = random_int(random, game, 0, 5) + 2 + 10 * player
                count += 1
    flip_x = random_float(random, game) < 0.5
    flip_y = random_float(random, game) < 0.5
    for k in range(count):
        x, y = planned[k, 2], planned[k, 3]
        x, y = size - 1 - x if flip_x else x, size - 1 - y if flip_y else y
        create(w, KINDS, planned[k, 0], planned[k, 1], float(x), float(y))
    see(w, KINDS)


@called
def order(w: Any, player: int, actions: int) -> None:
    """Let a player act by some orders; ``actions`` is the sum of 2^order.

    Units that hit and run find the enemy's units in the fog, too; defending, and attacking in
    range, use visible units only. Idle workers gather.

    Differs from the original engine: buildings never get the command to attack, so that a
    player that defends continues to build.
    """
    u = w.units
    base, resource = first_of(w, player, HOME), first_of(w, player, RESOURCE)
    if base < 0 or first_of(w, 1 - player, HOME) < 0:
        return
    assign(w, player, actions)
    send_told(w, KINDS, player)
    if resource >= 0:
        for i in slots_of(w, player):
            is_idle = u[i, ALIVE] and u[i, KIND] == WORKER and u[i, COMMAND] == 0
            if is_idle and not u[i, IS_TOLD]:
                send(w, KINDS, player, i, GATHER, -1.0, -1.0, resource, base, -1)
    forget(w)


@called
def is_possible(w: Any, player: int, action: int) -> bool:
    """Return True if an order would give any unit a command now.

    A player with units that can hunt may always send them, because fog hides whether the enemy has
    any units.
    """
    assign(w, player, 1 << action)
    found = w.numbers[TOLD] > 0
    forget(w)
    if action == HIT_AND_RUN and not found:
        u = w.units
        for i in slots_of(w, player):
            is_free = u[i, KIND] == RANGE or (u[i, KIND] == MELEE and u[i, COMMAND] == 0)
            found = found or (u[i, ALIVE] and is_free)
    return found


@called
def _attacks(w: Any, i: int) -> bool:
    return w.units[i, COMMAND] == ATTACK


@called
def _attack(w: Any, i: int, target: int) -> None:
    """Attack, unless the unit cannot, or attacks already."""
    if allows(w, KINDS, i, ATTACK) and not (_attacks(w, i) and w.units[i, TARGET] == target):
        tell(w, i, ATTACK, target, -1, -1.0, -1.0)


@called
def assign(w: Any, player: int, actions: int) -> None:
    """Store the commands of each unit by orders, without the rule for idle workers."""
    n, u = w.numbers, w.units
    base, enemy_base = first_of(w, player, HOME), first_of(w, 1 - player, HOME)
    resource = first_of(w, player, RESOURCE)
    if base < 0 or enemy_base < 0:
        return
    if resource < 0:
        _all_attack(w, player, enemy_base)
        return
    money = n[MONEY + player]
    if (actions >> BUILD_WORKER) & 1 and u[base, COMMAND] == 0 and money >= KINDS[WORKER, COST]:
        money -= int(KINDS[WORKER, COST])
        tell(w, base, BUILD, -1, WORKER, -1.0, -1.0)
    if (actions >> BUILD_BARRACKS) & 1 and money >= KINDS[BARRACKS, COST]:
        for i in slots_of(w, player):
            if u[i, ALIVE] and u[i, KIND] == WORKER and u[i, COMMAND] == GATHER:
                cell = _place_near(w, base)
                if cell >= 0:
                    money -= int(KINDS[BARRACKS, COST])
                    x, y = float(cell % n[SIZE]), float(cell // n[SIZE])
                    tell(w, i, BUILD, -1, BARRACKS, x, y)
                break
    for action, kind in ((BUILD_MELEE, MELEE), (BUILD_RANGE, RANGE)):
        if (actions >> action) & 1 and money >= KINDS[kind, COST]:
            for i in slots_of(w, player):
                free = u[i, ALIVE] and u[i, KIND] == BARRACKS and u[i, COMMAND] == 0
                if free and not u[i, IS_TOLD]:
                    money -= int(KINDS[kind, COST])
                    tell(w, i, BUILD, -1, kind, -1.0, -1.0)
                    break
    if (actions >> ATTACK_BASE) & 1:
        _army_attacks(w, player, enemy_base)
    if (actions >> HIT_AND_RUN) & 1:
        _hit_and_run(w, player)
    if (actions >> ATTACK_IN_RANGE) & 1:
        enemy = _first_seen(w, player)
        if enemy >= 0:
            _army_attacks(w, player, enemy)
    if (actions >> DEFEND) & 1:
        target = _intruder(w, player, base, resource)
        if target >= 0:
            _all_attack(w, player, target)


@called
def _all_attack(w: Any, player: int, target: int) -> None:
    """Let all units that do not attack do so."""
    for i in slots_of(w, player):
        if w.units[i, ALIVE] and not _attacks(w, i):
            _attack(w, i, target)


@called
def _army_attacks(w: Any, player: int, target: int) -> None:
    u = w.units
    for i in slots_of(w, player):
        if u[i, ALIVE] and (u[i, KIND] == MELEE or u[i, KIND] == RANGE) and u[i, COMMAND] == 0:
            _attack(w, i, target)


@called
def _first_seen(w: Any, player: int) -> int:
    """Return the first enemy unit in sight, without resources; or -1."""
    u, p = w.units, w.places
    for i in slots_of(w, 1 - player):
        wanted = u[i, ALIVE] and u[i, KIND] != RESOURCE
        if wanted and sees(w, KINDS, player, p[i, X], p[i, Y]):
            return i
    return -1


@copied
def _place_near(w: Any, base: int) -> int:
    """Return the cell where a barracks can be built: the middle of the map first; or -1."""
    size = w.numbers[SIZE]
    x, y = int(w.places[base, X] + 0.5), int(w.places[base, Y] + 0.5)
    way_x, way_y = 1 if x < size // 2 else -1, 1 if y < size // 2 else -1
    for dx in range(3, -4, -1):
        for dy in range(3, -4, -1):
            column, row = x + way_x * dx, y + way_y * dy
            inside = 2 <= column < size - 2 and 2 <= row < size - 2
            if inside and can_pass(w, float(column), float(row), -1):
                return row * size + column
    return -1


@copied
def _hit_and_run(w: Any, player: int) -> None:
    u = w.units
    shooter = first_of(w, 1 - player, RANGE)
    hunted = -1
    if first_of(w, 1 - player, MELEE) >= 0:
        hunted = MELEE
    elif shooter < 0 and first_of(w, 1 - player, WORKER) >= 0:
        hunted = WORKER
    if hunted >= 0:
        for i in slots_of(w, player):
            if u[i, ALIVE] and u[i, KIND] == RANGE:
                _kite(w, player, i, hunted)
    if shooter >= 0:
        _army_attacks(w, player, shooter)


@called
def _kite(w: Any, player: int, i: int, kind: int) -> None:
    """Shoot from far away, and run from what is near."""
    p = w.places
    target = nearest(w, KINDS, player, p[i, X], p[i, Y], kind, 1e9)
    dx, dy = p[target, X] - p[i, X], p[target, Y] - p[i, Y]
    distance = dx * dx + dy * dy
    if 4.0 <= distance <= 6.0:
        return
    cell = -1
    if distance < 4.0:
        cell = _refuge(w, player, i, kind)
    if cell < 0:
        _attack(w, i, target)
    else:
        size = w.numbers[SIZE]
        tell(w, i, MOVE, -1, -1, float(cell % size), float(cell // size))


@with_arrays
def _refuge(w: Any, player: int, me: int, kind: int) -> int:
    """Return the nearest cell at ten steps from the targets, by breadth-first search."""
    size, u, p = w.numbers[SIZE], w.units, w.places
    steps = np.full(size * size, -1, np.int32)
    queue = np.empty(size * size, np.int32)
    count = 0
    for i in slots_of(w, 1 - player):
        if u[i, ALIVE] and u[i, KIND] == kind:
            cell = cell_of(w, p[i, X], p[i, Y])
            if steps[cell] < 0:
                steps[cell], queue[count] = 0, cell
                count += 1
    at = 0
    while at < count and steps[queue[at]] < FLEE:
        cell = queue[at]
        at += 1
        for way in range(4):
            x, y = cell % size + WAYS[way, 0], cell // size + WAYS[way, 1]
            if can_pass(w, float(x), float(y), me) and steps[y * size + x] < 0:
                steps[y * size + x], queue[count] = steps[cell] + 1, y * size + x
                count += 1
    found, least = -1, 1e9
    for cell in range(size * size):
        if steps[cell] == FLEE:
            dx, dy = cell % size - p[me, X], cell // size - p[me, Y]
            if dx * dx + dy * dy < least:
                found, least = cell, dx * dx + dy * dy
    return found


@called
def attacker_of(w: Any, player: int) -> int:
    """Return the first living unit that last damaged any of a player's workers or bases; or -1."""
    u = w.units
    for i in slots_of(w, player):
        is_economy = u[i, KIND] == WORKER or u[i, KIND] == HOME
        if u[i, ALIVE] and is_economy and is_alive(w, u[i, DAMAGED_BY]):
            return u[i, DAMAGED_BY]
    return -1


@copied
def _intruder(w: Any, player: int, base: int, resource: int) -> int:
    """Return the enemy to defend against: one that has done damage, or one that is near, or -1."""
    p = w.places
    enemy = attacker_of(w, player)
    if enemy < 0:
        enemy = nearest(w, KINDS, player, p[base, X], p[base, Y], -1, 4.0)
    if enemy < 0:
        enemy = nearest(w, KINDS, player, p[resource, X], p[resource, Y], -1, 6.0)
    return enemy


@copied
def _economy(w: Any, player: int) -> int:
    """Return the first orders of both built-in players: three workers, then a barracks."""
    workers, money = count_of(w, player, WORKER), w.numbers[MONEY + player]
    if workers < 3 and money >= 50:
        return 1 << BUILD_WORKER
    if workers >= 3 and money >= 200 and first_of(w, player, BARRACKS) < 0:
        for i in slots_of(w, player):
            own = w.units[i]
            if own[ALIVE] and own[COMMAND] == BUILD and own[BUILDS] == BARRACKS:
                return 0
        return 1 << BUILD_BARRACKS
    return 0


@copied
def scripted(w: Any, player: int, who: int) -> int:
    """Return the actions of SIMPLE or HIT_N_RUN as the sum of 2^action."""
    actions, money = _economy(w, player), w.numbers[MONEY + player]
    has_barracks = first_of(w, player, BARRACKS) >= 0
    is_disturbed = _first_seen(w, player) >= 0 or attacker_of(w, player) >= 0
    if who == SIMPLE:
        if has_barracks and money >= 100:
            actions |= 1 << BUILD_MELEE
        if count_of(w, player, MELEE) >= 5:
            actions |= 1 << ATTACK_BASE
        if is_disturbed:
            actions |= (1 << ATTACK_IN_RANGE) | (1 << DEFEND)
        return actions
    if has_barracks and money >= 100:
        actions |= 1 << BUILD_RANGE
    if count_of(w, player, RANGE) >= 2:
        is_left = False
        for kind in (WORKER, MELEE, RANGE):
            is_left = is_left or count_of(w, 1 - player, kind) > 0
        actions |= 1 << (HIT_AND_RUN if is_left else ATTACK_BASE)
    if is_disturbed:
        actions |= 1 << DEFEND
    return actions


@called
def _worth(w: Any, player: int) -> float:
    u, n = w.units, w.numbers
    total = float(n[MONEY + player])
    for i in slots_of(w, player):
        if u[i, ALIVE] and u[i, KIND] != RESOURCE:
            total += KINDS[u[i, KIND], COST] * u[i, HP] / KINDS[u[i, KIND], MAX_HP]
    return total


@called
def advantage(w: Any, player: int) -> float:
    """Return the advantage of a player over the other one, from -1 to 1.

    Units count what they cost, by their share of hit points; money is added; resources are not.
    """
    own, other = _worth(w, player), _worth(w, 1 - player)
    return (own - other) / (own + other)


@called
def mark(w: Any, player: int, marks: Any) -> None:
    """Store the advantage before a step."""
    marks[0] = advantage(w, player)


@called
def gain(g: Any, w: Any, player: int, marks: Any) -> float:
    """Return the reward of a change of the advantage, which counts as 0 after the end."""
    if g.who == SEATED:
        return 0.0  # duels have no shaping
    ahead = 0.0 if w.numbers[OVER] else advantage(w, player)
    return float(g.shaping * (ahead - marks[0]))


@called
def act(w: Any, player: int, who: int, random: Any, game: int) -> None:
    """Let a built-in player act; RANDOM takes one of the nine actions."""
    order(
        w,
        player,
        1 << random_int(random, game, 0, 8) if who == RANDOM else scripted(w, player, who),
    )


@called
def tick(w: Any, random: Any, game: int) -> None:
    """Play a tick."""
    play_tick(w)


def _play_games(g: Any, first: int, last: int, who: Any, skips: Any, ticks: int) -> int:
    """Play games until they are over, or for some ticks; return the number of ticks played."""
    played = 0
    for game in range(first, last):
        w = world_of(g, game)
        for _ in range(ticks):
            if w.numbers[OVER]:
                break
            for player in range(2):
                if w.numbers[TICK] % skips[player] == 0:
                    act(w, player, who[player], g.random, game)
            play_tick(w)
            played += 1
    return played


def _begin_games(g: Any, max_tick: int) -> None:
    for game in range(len(g.random)):
        setup(world_of(g, game), g.random, game, max_tick)


play_games: Any = kernel(_play_games)
begin_games: Any = kernel(_begin_games)
