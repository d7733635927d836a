"""States of both engines as the same plain values, to compare them unit by unit."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from entity_env.rows.random_numbers import seeded_streams
from envs.rts import fast_layout as at

COMMANDS = {
    1: ("x", "y"),
    2: ("target",),
    3: ("target", "base", "phase"),
    4: ("x", "y", "builds", "phase"),
}


def make_arrays(rules, games, seed=0):
    fields = at.world_fields(rules)
    arrays = [np.zeros((games, *own.shape), own.dtype) for own in fields.values()]
    return namedtuple("G", [*fields, "random"])(*arrays, seeded_streams(seed, games))


def state_of_world(world):
    """The state of the engine in Python."""
    units = []
    for player in range(2):
        for own in world.of(player):
            command = own.command
            doing = (0,)
            if command is not None:
                names = COMMANDS.get(command.kind, ())
                values = {**vars(command)}
                for name in ("target", "base"):
                    values[name] = values[name] if values[name] in world.units else -1
                doing = (command.kind, *(values[name] for name in names))
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
    bullets = [(b.x, b.y, b.attack, b.target) for b in world.bullets if b.target in world.units]
    return {
        "tick": world.tick,
        "over": (world.is_over, world.winner),
        "money": tuple(world.resource),
        "score": tuple(world.score),
        "failed": sum(world.failed),
        "units": units,
        "order": [u for u in world.order if u in world.units and world.units[u].command],
        "bullets": bullets,
    }


def state_of_arrays(g, game):
    """The state of the engine for Numba, in the same form."""
    n, u, p = g.numbers[game], g.units[game], g.places[game]
    lists, flights = g.lists[game], g.flights[game]

    def uid(i):
        return int(u[i, at.UID]) if i >= 0 and u[i, at.ALIVE] else -1

    units = []
    for i in range(len(u)):
        own = u[i]
        player, inside = divmod(i, int(n[at.SLOTS]))
        if inside >= n[at.TAIL + player] or not own[at.ALIVE]:
            continue
        kind = int(own[at.COMMAND])
        values = {
            "x": float(p[i, at.TO_X]),
            "y": float(p[i, at.TO_Y]),
            "target": uid(own[at.TARGET]),
            "base": uid(own[at.BASE]),
            "builds": int(own[at.BUILDS]),
            "phase": int(own[at.PHASE]),
        }
        doing = (kind, *(values[name] for name in COMMANDS.get(kind, ())))
        units.append(
            {
                "unit": (int(own[at.UID]), player, int(own[at.KIND]), int(own[at.HP])),
                "place": (float(p[i, at.X]), float(p[i, at.Y])),
                "clocks": tuple(int(own[c]) for c in (at.ATTACKED, at.GATHERED, at.BUILT)),
                "marks": (uid(own[at.DAMAGED_BY]), bool(own[at.CARRIES]), bool(own[at.SEEN])),
                "command": doing,
            }
        )
    bullets = []
    for k in range(at.QUEUE_ROOM, at.QUEUE_ROOM + n[at.BULLETS]):
        if uid(lists[k, 2]) >= 0:
            place = float(flights[k, 0]), float(flights[k, 1])
            bullets.append((*place, int(lists[k, 0]), uid(lists[k, 2])))
    order = n[at.ORDER_LIST : at.ORDER_LIST + n[at.ORDERED]]
    return {
        "tick": int(n[at.TICK]),
        "over": (bool(n[at.OVER]), int(n[at.WINNER])),
        "money": (int(n[at.MONEY]), int(n[at.MONEY + 1])),
        "score": (int(n[at.SCORE]), int(n[at.SCORE + 1])),
        "failed": int(n[at.FAILED_SUM]),
        "units": units,
        "order": [uid(i) for i in order if u[i, at.ALIVE] and u[i, at.COMMAND]],
        "bullets": bullets,
    }
