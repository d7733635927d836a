"""Mini-RTS by commands to each unit, compiled: ``minirts_units.py`` for all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entity_env.rows.compiled import Actors, CompiledGame, Entities, Field

from .fast_layout import (
    ALIVE,
    BUILDS,
    BUILDS_OF,
    COMMAND,
    COMMANDS_OF,
    COST,
    IS_BUILDING,
    KIND,
    MONEY,
    OVER,
    PHASE,
    SIZE,
    SLOTS,
    TAIL,
    X,
    Y,
    called,
    fill,
    world_of,
)
from .fast_space import can_pass, is_ground, single
from .fast_world import GOING, allows, first_of, send
from .minirts_fast import BARRACKS, HOME, KINDS, MELEE, RANGE, RESOURCE, WORKER, play_tick
from .minirts_kernel import (
    ENEMY,
    MOST,
    OWN,
    REMEMBERED,
    SOURCES,
    begin_duel,
    begin_game,
    end_duel,
    globals_of,
    is_turn,
    note_lists,
    play_on,
    problems,
    seat_globals,
)
from .minirts_units import (
    BESIDE,
    COMMANDS,
    FAR,
    NONE,
    TO_ATTACK,
    TO_BUILD,
    TO_GATHER,
    TO_MOVE,
    UNIT_ACTIONS,
)
from .minirts_view import OBS_SPACE
from .rules import ATTACK, BUILD, GATHER, MOVE

__all__ = ["units_duel", "units_game"]

_CHOICES, _BUILT = len(COMMANDS), TO_MOVE - TO_BUILD


@called
def _built(k: int) -> int:
    """Return the kind of the k-th thing that can be built."""
    return WORKER if k == 0 else BARRACKS if k == 1 else MELEE if k == 2 else RANGE


@called
def _way(k: int) -> tuple[int, int]:
    """One of eight directions: along the axes first."""
    dx, dy = 0, 0
    if k < 4:
        if k < 2:
            dx = -1 if k == 0 else 1
        else:
            dy = -1 if k == 2 else 1
    else:
        dx = -1 if k % 2 == 0 else 1
        dy = -1 if k < 6 else 1
    return dx, dy


@called
def _beside(w: Any, i: int) -> int:
    """Return the first of four points beside a worker where it can build, or -1."""
    last = w.numbers[SIZE] - 1
    for k in range(4):
        dx, dy = _way(k)
        x, y = single(w.places[i, X] + BESIDE * dx), single(w.places[i, Y] + BESIDE * dy)
        if 0 <= x <= last and 0 <= y <= last and can_pass(w, x, y, -1):
            return k
    return -1


@called
def _note_legal(w: Any, shown: Any, counts: Any, may: Any, player: int) -> None:
    """Write the legal commands of each listed own unit; see ``minirts_units.legal``."""
    n, u, p = w.numbers, w.units, w.places
    money, last = n[MONEY + player], n[SIZE] - 1
    can_gather = first_of(w, player, RESOURCE) >= 0 and first_of(w, player, HOME) >= 0
    can_attack = counts[ENEMY] + counts[REMEMBERED] > 0
    for i in range(player * n[SLOTS], player * n[SLOTS] + n[TAIL + player]):
        if u[i, ALIVE] and u[i, COMMAND] == BUILD and u[i, PHASE] == GOING:
            money -= int(KINDS[u[i, BUILDS], COST])
    for at in range(counts[OWN]):
        i = shown[OWN, at]
        kind = u[i, KIND]
        stands = KINDS[kind, IS_BUILDING] > 0
        for k in range(_CHOICES):
            may[at, k] = False
        if n[OVER] or KINDS[kind, COMMANDS_OF] == 0 or (stands and u[i, COMMAND] != 0):
            continue
        may[at, NONE] = True
        may[at, TO_ATTACK] = can_attack and allows(w, KINDS, i, ATTACK)
        may[at, TO_GATHER] = can_gather and allows(w, KINDS, i, GATHER)
        most = 0
        if allows(w, KINDS, i, BUILD) and (stands or _beside(w, i) >= 0):
            for k in range(_BUILT):
                cost = int(KINDS[_built(k), COST])
                if (int(KINDS[kind, BUILDS_OF]) >> _built(k)) & 1 == 1 and cost <= money:
                    may[at, TO_BUILD + k] = True
                    most = max(most, cost)
        money -= most
        if allows(w, KINDS, i, MOVE):
            for k in range(8):
                dx, dy = _way(k)
                x, y = p[i, X] + FAR * dx, p[i, Y] + FAR * dy
                inside = 0 <= x <= last and 0 <= y <= last
                may[at, TO_MOVE + k] = inside and is_ground(w, x, y)


@called
def _tell(w: Any, player: int, i: int, what: int, target: int) -> None:
    """Tell a unit one of ``COMMANDS``."""
    p = w.places
    if what == TO_ATTACK:
        send(w, KINDS, player, i, ATTACK, -1.0, -1.0, target, -1, -1)
    elif what == TO_GATHER:
        resource, base = first_of(w, player, RESOURCE), first_of(w, player, HOME)
        send(w, KINDS, player, i, GATHER, -1.0, -1.0, resource, base, -1)
    elif what >= TO_MOVE:
        dx, dy = _way(what - TO_MOVE)
        send(w, KINDS, player, i, MOVE, p[i, X] + FAR * dx, p[i, Y] + FAR * dy, -1, -1, -1)
    elif what >= TO_BUILD:
        x, y = -1.0, -1.0
        if KINDS[w.units[i, KIND], IS_BUILDING] == 0:
            dx, dy = _way(_beside(w, i))
            x, y = single(p[i, X] + BESIDE * dx), single(p[i, Y] + BESIDE * dy)
        send(w, KINDS, player, i, BUILD, x, y, -1, -1, _built(what - TO_BUILD))


def _reset(g: Any, game: int) -> None:
    begin_game(g, game)
    w = world_of(g, game)
    note_lists(w, g.shown[game], g.counts[game], 0, g.fog)
    _note_legal(w, g.shown[game], g.counts[game], g.may[game], 0)


@called
def _note_told(told: Any, shown: Any, counts: Any, may: Any, commands: Any, aimed: Any) -> None:
    """Note of each own unit what it is told, and which unit it aims at, else -1."""
    enemies = counts[ENEMY]
    first = counts[OWN]  # the number of the first enemy among all entities
    known = first + enemies + counts[SOURCES]
    actor, attacker = 0, 0
    for at in range(counts[OWN]):
        told[at, 0], told[at, 1] = NONE, -1
        if not may[at, NONE]:
            continue
        if may[at, TO_ATTACK]:
            k = aimed[attacker]
            if k < first + enemies:
                told[at, 1] = shown[ENEMY, k - first]
            else:
                told[at, 1] = shown[REMEMBERED, k - known] % 1000
            attacker += 1
        told[at, 0] = commands[actor]
        actor += 1


@called
def _tell_all(w: Any, player: int, told: Any, shown: Any, counts: Any) -> None:
    for at in range(counts[OWN]):
        _tell(w, player, shown[OWN, at], told[at, 0], told[at, 1])


def _step(g: Any, game: int, commands: Any, aimed: Any) -> tuple[float, bool]:
    w = world_of(g, game)
    shown, counts, told = g.shown[game], g.counts[game], g.told[game]
    _note_told(told, shown, counts, g.may[game], commands, aimed)
    _tell_all(w, 0, told, shown, counts)
    reward, over = play_on(g, game)
    note_lists(w, g.shown[game], g.counts[game], 0, g.fog)
    _note_legal(w, g.shown[game], g.counts[game], g.may[game], 0)
    return reward, over


def _may_act(g: Any, game: int, i: int) -> bool:
    return g.may[game, i, NONE]


def _may_attack(g: Any, game: int, i: int) -> bool:
    return g.may[game, i, TO_ATTACK]


def _choices(g: Any, game: int, i: int, out: Any) -> None:
    fill(out, g.may[game, i], 0)


def units_game(
    state: Mapping[str, Field],
    settings: Mapping[str, float],
    entities: Mapping[str, Entities],
) -> CompiledGame:
    """Return the game for the kit."""
    return CompiledGame(
        problems=problems,
        obs_space=OBS_SPACE,
        action_space=UNIT_ACTIONS,
        state={
            **state,
            "may": Field((MOST, _CHOICES), "bool"),
            "told": Field((MOST, 2), "int32", -1, 2 * MOST + 31),
        },
        settings=settings,
        reset=_reset,
        step=_step,
        entities=entities,
        actions={
            "Command": Actors("Own", when=_may_act, mask=_choices),
            "Target": Actors("Own", when=_may_attack, targets=("Enemy", "Remembered")),
        },
        global_features=globals_of,
        metrics={"win": "win", "ticks": "ticks"},
    )


@called
def _has_turn(g: Any, game: int, seat: int) -> bool:
    """Return True if a seat is asked: it is its turn, and some unit may be told something."""
    able = 0
    for at in range(g.counts[game, seat, OWN]):
        able += g.may[game, seat, at, NONE]
    return able > 0 and is_turn(g, game, seat)


@called
def _note_seats(g: Any, game: int, w: Any) -> None:
    for seat in range(2):
        note_lists(w, g.shown[game, seat], g.counts[game, seat], seat, g.fog)
        _note_legal(w, g.shown[game, seat], g.counts[game, seat], g.may[game, seat], seat)


def _duel_reset(g: Any, game: int) -> None:
    w = world_of(g, game)
    begin_duel(g, game, w)
    _note_seats(g, game, w)


def _duel_asks(g: Any, game: int, seat: int) -> bool:
    return _has_turn(g, game, seat)


def _duel_step(g: Any, game: int, seat: int, commands: Any, aimed: Any) -> None:
    shown, counts = g.shown[game, seat], g.counts[game, seat]
    _note_told(g.told[game, seat], shown, counts, g.may[game, seat], commands, aimed)


def _duel_resolve(g: Any, game: int, reward: Any) -> bool:
    w = world_of(g, game)
    for seat in range(2):
        if _has_turn(g, game, seat):
            _tell_all(w, seat, g.told[game, seat], g.shown[game, seat], g.counts[game, seat])
    while True:
        play_tick(w, KINDS)
        if w.numbers[OVER] or is_turn(g, game, 0) or is_turn(g, game, 1):
            _note_seats(g, game, w)
            if w.numbers[OVER] or _has_turn(g, game, 0) or _has_turn(g, game, 1):
                break
    return end_duel(g, game, w, reward)


def _seat_may_act(g: Any, game: int, seat: int, i: int) -> bool:
    return g.may[game, seat, i, NONE]


def _seat_may_attack(g: Any, game: int, seat: int, i: int) -> bool:
    return g.may[game, seat, i, TO_ATTACK]


def _seat_choices(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    fill(out, g.may[game, seat, i], 0)


def units_duel(
    state: Mapping[str, Field],
    settings: Mapping[str, float],
    entities: Mapping[str, Entities],
) -> CompiledGame:
    """Return the game of two players for the kit."""
    return CompiledGame(
        problems=problems,
        obs_space=OBS_SPACE,
        action_space=UNIT_ACTIONS,
        state={
            **state,
            "may": Field((2, MOST, _CHOICES), "bool"),
            "told": Field((2, MOST, 2), "int32", -1, 2 * MOST + 31),
        },
        settings=settings,
        reset=_duel_reset,
        asks=_duel_asks,
        step=_duel_step,
        resolve=_duel_resolve,
        entities=entities,
        actions={
            "Command": Actors("Own", when=_seat_may_act, mask=_seat_choices),
            "Target": Actors("Own", when=_seat_may_attack, targets=("Enemy", "Remembered")),
        },
        global_features=seat_globals,
        metrics={"win": "win", "ticks": "ticks"},
        seats=2,
    )
