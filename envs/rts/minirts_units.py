"""Mini-RTS with commands to each unit: the legal commands, and their effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env.rows.compiled import Actors, Field
from entity_env.spaces import ActionName, ActionSpace, CategoricalActionSpace
from entity_env.spaces import SelectEntityActionSpace as Select

from .arrays import (
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
    X,
    Y,
    called,
    fill,
    slots_of,
)
from .engine import GOING, allows, first_of, send
from .minirts import (
    ENEMY,
    HOME,
    KINDS,
    LISTS,
    MINI_RTS,
    MOST_UNITS,
    OWN,
    REMEMBERED,
    RESOURCE,
    SOURCES,
    act,
    gain,
    mark,
    setup,
    tick,
)
from .rules import ATTACK, BUILD, GATHER, MOVE
from .space import WAYS, can_pass, is_ground, single
from .strategic import OUT_OF_SIGHT, SEATED, begin_match, is_turn, note_units, play_on

__all__ = ["COMMANDS", "UNIT_ACTIONS", "units_interface"]

BUILT = ("Worker", "Barracks", "Melee", "Range")
COMMANDS = (
    *("None", "Attack", "Gather", *(f"Build{name}" for name in BUILT)),
    *("Left", "Right", "Up", "Down", "UpLeft", "UpRight", "DownLeft", "DownRight"),
)
NONE, TO_ATTACK, TO_GATHER, TO_BUILD = range(4)
TO_MOVE = TO_BUILD + len(BUILT)
FAR, BESIDE = 2.0, 0.75
"""The cells of one move, and the distance from a worker at which a barracks is begun: so near
that it is paid at once."""
UNIT_ACTIONS: Mapping[ActionName, ActionSpace] = {
    "Command": CategoricalActionSpace(list(COMMANDS)),
    "Target": Select(),
}
"""The actions of a unit. The target is used by units with the command Attack only."""


_CHOICES, _BUILT = len(COMMANDS), TO_MOVE - TO_BUILD
KINDS_BUILT = np.array([MINI_RTS.number[name] for name in BUILT])


@called
def _beside(w: Any, i: int) -> int:
    """Return the first of four points beside a worker where it can build, or -1."""
    last = w.numbers[SIZE] - 1
    for k in range(4):
        dx, dy = WAYS[k, 0], WAYS[k, 1]
        x, y = single(w.places[i, X] + BESIDE * dx), single(w.places[i, Y] + BESIDE * dy)
        if 0 <= x <= last and 0 <= y <= last and can_pass(w, x, y, -1):
            return k
    return -1


@called
def _note_legal(w: Any, shown: Any, counts: Any, may: Any, player: int) -> None:
    """Write the legal commands of each listed own unit, all of which the engine can carry out.

    Money counts once: a unit may build only what can be paid after all units before it have built
    the most expensive things that they may build. Workers on their way to a building have paid.
    """
    n, u, p = w.numbers, w.units, w.places
    money, last = n[MONEY + player], n[SIZE] - 1
    can_gather = first_of(w, player, RESOURCE) >= 0 and first_of(w, player, HOME) >= 0
    can_attack = counts[ENEMY] + counts[REMEMBERED] > 0
    for i in slots_of(w, player):
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
                cost = int(KINDS[KINDS_BUILT[k], COST])
                if (int(KINDS[kind, BUILDS_OF]) >> KINDS_BUILT[k]) & 1 == 1 and cost <= money:
                    may[at, TO_BUILD + k] = True
                    most = max(most, cost)
        money -= most
        if allows(w, KINDS, i, MOVE):
            for k in range(8):
                dx, dy = WAYS[k, 0], WAYS[k, 1]
                x, y = p[i, X] + FAR * dx, p[i, Y] + FAR * dy
                inside = 0 <= x <= last and 0 <= y <= last
                may[at, TO_MOVE + k] = inside and is_ground(w, x, y)


@called
def _tell(w: Any, player: int, i: int, what: int, target: int) -> None:
    """Give a unit one of ``COMMANDS``."""
    p = w.places
    if what == TO_ATTACK:
        send(w, KINDS, player, i, ATTACK, -1.0, -1.0, target, -1, -1)
    elif what == TO_GATHER:
        resource, base = first_of(w, player, RESOURCE), first_of(w, player, HOME)
        send(w, KINDS, player, i, GATHER, -1.0, -1.0, resource, base, -1)
    elif what >= TO_MOVE:
        way = what - TO_MOVE
        dx, dy = WAYS[way, 0], WAYS[way, 1]
        send(w, KINDS, player, i, MOVE, p[i, X] + FAR * dx, p[i, Y] + FAR * dy, -1, -1, -1)
    elif what >= TO_BUILD:
        x, y = -1.0, -1.0
        if KINDS[w.units[i, KIND], IS_BUILDING] == 0:
            way = _beside(w, i)
            dx, dy = WAYS[way, 0], WAYS[way, 1]
            x, y = single(p[i, X] + BESIDE * dx), single(p[i, Y] + BESIDE * dy)
        send(w, KINDS, player, i, BUILD, x, y, -1, -1, KINDS_BUILT[what - TO_BUILD])


@called
def _note_told(told: Any, shown: Any, counts: Any, may: Any, commands: Any, aimed: Any) -> None:
    """Store the command of each own unit, and its target, or -1."""
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
                told[at, 1] = shown[REMEMBERED, k - known] % OUT_OF_SIGHT
            attacker += 1
        told[at, 0] = commands[actor]
        actor += 1


@called
def _note(g: Any, game: int, w: Any) -> None:
    for seat in range(g.win.shape[1]):
        shown, counts = g.shown[game, seat], g.counts[game, seat]
        note_units(w, KINDS, LISTS, shown, counts, seat, g.fog)
        _note_legal(w, shown, counts, g.may[game, seat], seat)


@called
def _obey(g: Any, game: int, w: Any, seat: int) -> None:
    for at in range(g.counts[game, seat, OWN]):
        told = g.told[game, seat, at]
        _tell(w, seat, g.shown[game, seat, OWN, at], told[0], told[1])


@called
def _must_act(g: Any, game: int, seat: int) -> bool:
    """Return True if it is a seat's turn; in a duel some unit must be able to act."""
    able = g.who != SEATED
    for at in range(g.counts[game, seat, OWN]):
        able = able or g.may[game, seat, at, NONE]
    return able and is_turn(g, game, seat)


def _reset(g: Any, game: int) -> None:
    begin_match(g, game, setup, act, tick, _note)


def _step(g: Any, game: int, seat: int, commands: Any, aimed: Any) -> None:
    shown, counts = g.shown[game, seat], g.counts[game, seat]
    _note_told(g.told[game, seat], shown, counts, g.may[game, seat], commands, aimed)


def _resolve(g: Any, game: int, reward: Any) -> bool:
    return play_on(g, game, reward, _obey, act, tick, _note, _must_act, mark, gain)


def _asks(g: Any, game: int, seat: int) -> bool:
    return _must_act(g, game, seat)


def _may_act(g: Any, game: int, seat: int, i: int) -> bool:
    return g.may[game, seat, i, NONE]


def _may_attack(g: Any, game: int, seat: int, i: int) -> bool:
    return g.may[game, seat, i, TO_ATTACK]


def _choices(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    fill(out, g.may[game, seat, i], 0)


def units_interface(seats: int) -> dict[str, Any]:
    """Return the parts of a ``CompiledGame`` in which commands to units differ from orders."""
    return {
        "action_space": UNIT_ACTIONS,
        "state": {
            "may": Field((seats, MOST_UNITS, _CHOICES), "bool"),
            "told": Field((seats, MOST_UNITS, 2), "int32", -1, 2 * MOST_UNITS + 31),
        },
        "reset": _reset,
        "step": _step,
        "asks": _asks,
        "resolve": _resolve,
        "actions": {
            "Command": Actors("Own", when=_may_act, mask=_choices),
            "Target": Actors("Own", when=_may_attack, targets=("Enemy", "Remembered")),
        },
    }
