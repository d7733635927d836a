"""The massively multiplayer world plays what an independent form of it plays, tick by tick.

``PYTHONPATH=.:tests:tests/envs python tests/envs/test_mmo_against_oracle.py WORLDS TICKS`` compares
more worlds, compiled ones.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mmo_support import COLUMN_OF, choices, drawn
from oracles import mmo
from ragged_envs.mmo.scripts import Player
from ragged_envs.mmo.world import MmoRows

PLAYERS = (("random", "random"), ("forage", "off"), ("forage", "melee"))
SKILLS = ("melee", "range", "mage", "defence", "fishing", "hunting", "constitution")
COLUMNS = {
    **{name: name for name in ("row", "health", "food", "water", "immune", "age", "damage")},
    **{"col": "column", "freeze": "frozen", "wilderness": "wild"},
}
"""Values of an agent that are compared, by their names in the oracle and in the world."""

SETTINGS = [
    ({"populations": 1, "cap": 4}, {"populations": 1, "agents": 4}),
    (
        {"order": (), "ranges": (1, 1, 1)},
        {"random_order": True, "range_reach": 1, "mage_reach": 1},
    ),
    ({"wilderness": True, "centre": (20, 20)}, {"wilderness": True, "wilderness_centre": 20}),
    ({"freezing": False}, {"freezing": 0}),
    ({"immunity": False}, {"immunity": 0}),
    *[
        ({system: False}, {system: False})
        for system in ("foraging", "combat", "pilfering", "progression")
    ],
]
"""The same in the oracle's words and in the world's."""


class Recorded(mmo.Chance):
    """Decisions that were taken elsewhere."""

    def __init__(self):
        super().__init__()
        self.seats, self.asked = {}, set()

    def spawn(self, cells, populations):
        new = self.drawn["spawned"]
        assert new is None or new[1:] in cells
        return new[1:] if new else cells[0], self.drawn["population"]

    def hit(self, attacker, target, probability):
        self.asked.add(self.seats[attacker.uid])
        return self.drawn["hits"][self.seats[attacker.uid]]

    def regrown(self, scrub, probability):
        grown = set(self.drawn["regrown"])
        assert grown <= {tuple(cell) for cell in scrub.tolist()}
        return np.array([tuple(cell) in grown for cell in scrub.tolist()], bool)

    def skill_order(self, agent):
        return [mmo.FORAGING[i] for i in self.drawn["orders"][self.seats[agent.uid]]]


def oracle_numbers(agent):
    return [agent.population, *(getattr(agent, name) for name in COLUMNS), *agent.experience]


def world_numbers(seat, row, populations):
    experience = row[COLUMN_OF["xp"]]
    order = ("fishing", "hunting", "constitution", "melee", "range", "mage", "defence")
    by_name = dict(zip(order, experience, strict=True))
    own = [row[COLUMN_OF[name]] for name in COLUMNS.values()]
    return [seat % populations, *own, *(by_name[name] for name in SKILLS)]


def compare(rows, player, tiles, cells, rules, ticks):
    """Play a world of both kinds, and fail at the first tick after which they differ."""
    chance = Recorded()
    world, seats, numbers = mmo.World(tiles, cells, chance, rules), chance.seats, {}
    obs = rows.reset()
    after = rows.save_game(0)
    for tick in range(ticks + 1):
        if tick:
            before, obs = after, rows.act(player(obs))
            after = rows.save_game(0)
            moves, attacks = choices(before, after)
            chance.drawn, chance.asked = drawn(before, after, rules.foraging), set()
            acts = {}
            for uid, seat in seats.items():
                style, target = attacks[seat] or (0, None)
                acts[uid] = mmo.Action(moves[seat], style, numbers.get(target))
            # The newcomer's number is known before it is there: the next one.
            born = world.born
            for agent in world.step(acts):
                del seats[agent.uid]
            assert chance.asked == set(chance.drawn["hits"]), f"tick {tick}: who can be hit"
        else:
            born, new = 0, after["newcomer"]
            place = [after["agents"][new][COLUMN_OF[name]] for name in ("row", "column")]
            chance.drawn = {"population": after["drawn"], "spawned": (new, *place)}
            world.try_spawn()
        new = after["newcomer"]
        assert (world.born > born) == (new >= 0), f"tick {tick}: spawn"
        if new >= 0:
            seats[born] = new
        numbers = {seat: uid for uid, seat in seats.items()}
        mine = {seats[uid]: oracle_numbers(agent) for uid, agent in world.agents.items()}
        living = after["order"][: after["alive"]]
        agents = after["agents"]
        theirs = {seat: world_numbers(seat, agents[seat], rules.populations) for seat in living}
        assert theirs == mine, f"tick {tick}"
        assert list(theirs) == list(mine), f"tick {tick}: order of age"
        np.testing.assert_array_equal(after["tiles"], world.tiles, f"tick {tick}")
    return world


def both(number, side=12):
    """Return what to compare with: a map at random of these sides, settings and a player."""
    rules, settings = SETTINGS[number % len(SETTINGS)]
    size = side + 16
    heights = np.random.default_rng(number).random((size, size)) * 0.6 + 0.2
    tiles, cells = mmo.small_map(heights, border=8), mmo.ring(size, border=8)
    rows = MmoRows(None, number, tiles=tiles.tolist(), spawns=cells, **settings)
    # All players play by all settings in the end, and neighbouring numbers differ in both.
    way = (number + number // len(SETTINGS)) % len(PLAYERS)
    player = Player(*PLAYERS[way], seed=number)
    return rows, player, tiles, cells, mmo.Rules(**rules)


@pytest.mark.parametrize("number", range(5))
def test_agreement(number):
    rows, *others = both(number)
    rows.interpret()
    world = compare(rows, *others, ticks=40)
    if number == 0:
        assert world.born < 40, "the world is full at times, and nobody is born"


if __name__ == "__main__":
    worlds, ticks = map(int, sys.argv[1:])
    for number in range(worlds):
        world = compare(*both(number, side=12 + number % 4 * 8), ticks)
        print(f"world {number}: {ticks} ticks, {world.born} agents agree", flush=True)
