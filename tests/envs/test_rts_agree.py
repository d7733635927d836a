"""The engine of strategy games plays what an independent form of it plays, tick by tick.

``PYTHONPATH=.:tests python tests/envs/test_rts_agree.py SEEDS`` compares more games, whole ones.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from oracles.rts_world import Command, World
from rts_support import Table

from envs.rts import arrays as at
from envs.rts.minirts import MINI_RTS
from envs.rts.rules import ATTACK, BUILD, GATHER, MOVE, Rules

WALLED = Rules(kinds=MINI_RTS.kinds, resource=600, max_tick=2000, has_walls=True)
OPEN = Rules(kinds=MINI_RTS.kinds, resource=600, max_tick=2000)
DETAILS = {
    0: (),
    MOVE: ("x", "y"),
    ATTACK: ("target",),
    GATHER: ("target", "base", "phase"),
    BUILD: ("x", "y", "builds", "phase"),
}


def state_of_world(world):
    units = []
    for player in range(2):
        for own in world.of(player):
            does = own.command or Command(0)
            values = {**vars(does)}
            for name in ("target", "base"):
                values[name] = values[name] if values[name] in world.units else -1
            doing = (does.kind, *(values[name] for name in DETAILS[does.kind]))
            by = own.damaged_by if own.damaged_by in world.units else -1
            units.append(
                {
                    "unit": (own.uid, player, own.kind, own.hp),
                    "place": (own.x, own.y),
                    "clocks": (own.attacked, own.gathered, own.built),
                    "marks": (by, own.carries, own.seen),
                    "command": doing,
                }
            )
    return {
        "tick": world.tick,
        "over": (world.is_over, world.winner),
        "money": world.resource,
        "failed": sum(world.failed),
        "units": units,
        "order": [u for u in world.order if u in world.units and world.units[u].command],
        "bullets": [
            (b.x, b.y, b.attack, b.target) for b in world.bullets if b.target in world.units
        ],
    }


def state_of_table(table):
    n, u, p = (own.tolist() for own in table.w[:3])
    lists, flights = table.w.lists.tolist(), table.w.flights.tolist()

    def uid(i):
        return u[i][at.UID] if i >= 0 and u[i][at.ALIVE] else -1

    units = []
    for player in range(2):
        for unit in table.units(player):
            own, place = u[unit.slot], p[unit.slot]
            values = {
                **{"x": place[at.TO_X], "y": place[at.TO_Y], "target": uid(own[at.TARGET])},
                **{"base": uid(own[at.BASE]), "builds": own[at.BUILDS], "phase": own[at.PHASE]},
            }
            does = own[at.COMMAND]
            units.append(
                {
                    "unit": (own[at.UID], player, own[at.KIND], own[at.HP]),
                    "place": (place[at.X], place[at.Y]),
                    "clocks": (own[at.ATTACKED], own[at.GATHERED], own[at.BUILT]),
                    "marks": (uid(own[at.DAMAGED_BY]), bool(own[at.CARRIES]), bool(own[at.SEEN])),
                    "command": (does, *(values[name] for name in DETAILS[does])),
                }
            )
    order = n[at.ORDER_LIST : at.ORDER_LIST + n[at.ORDERED]]
    return {
        "tick": n[at.TICK],
        "over": table.over,
        "money": table.money.tolist(),
        "failed": n[at.FAILED_SUM],
        "units": units,
        "order": [uid(i) for i in order if u[i][at.ALIVE] and u[i][at.COMMAND]],
        "bullets": [
            (*flights[k], lists[k][0], uid(lists[k][2]))
            for k in range(at.QUEUE_ROOM, at.QUEUE_ROOM + n[at.BULLETS])
            if uid(lists[k][2]) >= 0
        ],
    }


def populate(draw, world, table):
    """The same walls, and the same units in both games."""
    size = world.rules.size
    if world.rules.has_walls:
        table.w.numbers[at.WALLED] = 1
        for x, y in draw.integers(2, size - 2, (50, 2)).tolist():
            world.walls[y][x] = True
            table.w.numbers[at.WALLS + y * size + x] = 1
    for player in range(2):
        for name in ("Base", "Resource", *["Worker"] * 3, *["Melee"] * 3, "Range", "Barracks"):
            x, y = (draw.integers(0, 13, 2) + 6 * player).tolist()
            made = world.create(player, name, x, y), table.create(player, name, x, y)
            assert (made[0] is None) == (made[1] is None)
    world._see()
    table.see(table.kinds)


def command_both(draw, world, table):
    """Let a player tell a unit something, mostly what it may be told."""
    player = int(draw.integers(2))
    known = [*world.units, -1, world.created]
    uids = [known[k] for k in draw.integers(0, len(known), 3)]
    own = world.of(player)
    if own and draw.random() < 0.8:
        uids[0] = own[int(draw.integers(len(own)))].uid
    kind, builds = int(draw.integers(0, 6)), int(draw.integers(-1, 8))
    enemies = world.of(1 - player)
    if kind == ATTACK and enemies and draw.random() < 0.8:
        uids[1] = enemies[int(draw.integers(len(enemies)))].uid
    if kind == GATHER and draw.random() < 0.8:
        wanted = world.of(player, "Resource"), world.of(player, "Base")
        uids[1:] = [part[0].uid if part else -1 for part in wanted]
    x, y = draw.uniform(-1, 21, 2).tolist() if draw.random() < 0.8 else (-1.0, -1.0)
    slots = {unit.uid: unit.slot for side in range(2) for unit in table.units(side)}
    sent = world.send(player, uids[0], Command(kind, x, y, uids[1], uids[2], builds))
    unit, target, base = (slots.get(uid, -1) for uid in uids)
    assert bool(table.send(player, unit, kind, x, y, target, base, builds)) == sent
    return sent


def play_both(rules, seed, ticks):
    """Play random commands in both games; return how many units have died."""
    draw, world, table = np.random.default_rng(seed), World(rules), Table(rules)
    populate(draw, world, table)
    for _ in range(ticks):
        for _ in range(int(draw.poisson(0.3))):
            command_both(draw, world, table)
        world.play_tick()
        table.play()
        one, two = state_of_world(world), state_of_table(table)
        assert one == two, (seed, [(k, one[k], two[k]) for k in one if one[k] != two[k]])
        check_invariants(world)
        if world.is_over:
            break
    return world.created - len(world.units)


def check_invariants(world):
    """Raise unless a state can be."""
    units, size = list(world.units.values()), world.rules.size
    for i, unit in enumerate(units):
        assert 0 < unit.hp <= world.kind(unit).hp
        assert -0.5 < unit.x < size - 0.5
        assert -0.5 < unit.y < size - 0.5
        assert not world.walls[int(unit.y + 0.5)][int(unit.x + 0.5)]
        for other in units[:i]:
            assert (other.x - unit.x) ** 2 + (other.y - unit.y) ** 2 >= 0.25
    assert min(world.resource) >= 0


@pytest.mark.parametrize("rules", [OPEN, WALLED], ids=["open", "walls"])
def test_both_play_the_same_games(rules):
    died = [play_both(rules, seed, 250) for seed in range(2)]
    assert sum(died) >= 3


if __name__ == "__main__":
    for seed in range(int(sys.argv[1])):
        print(seed, [play_both(rules, seed, 2000) for rules in (OPEN, WALLED)], flush=True)
