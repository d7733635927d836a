"""The independent form of the massively multiplayer world, against numbers computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles import mmo
from oracles.mmo import Action

KINDS = "~w.,fs"
"""Lava, water, grass, scrub, forest, stone."""
FIELD = ["~~~~~~~", *["~.....~"] * 5, "~~~~~~~"]


class Told(mmo.Chance):
    """Newcomers appear on given cells, each attack hits, and nothing grows unless it is said."""

    def __init__(self, cells):
        super().__init__(np.random.default_rng(0))
        self.cells, self.grows, self.probabilities = list(cells), False, []

    def spawn(self, cells, populations):
        return self.cells.pop(0), 0

    def hit(self, attacker, target, probability):
        self.probabilities.append(probability)
        return True

    def regrown(self, scrub, probability):
        return np.full(len(scrub), self.grows)


def world_of(lines, *cells, **rules):
    """Return a world with agents on these cells, none of whom has had a tick; nobody follows."""
    tiles = np.array([[KINDS.index(c) for c in line] for line in lines])
    rules = mmo.Rules(populations=1, **{"immunity": False, **rules})
    world = mmo.World(tiles, cells, Told(cells), rules)
    for _ in cells:
        world.try_spawn()
    world.rules = replace(rules, cap=0)
    return world, *world.agents.values()


def vitals(agent):
    return agent.health, agent.food, agent.water


def test_experience_and_levels():
    assert [mmo.EXPERIENCE[level - 1] for level in (1, 2, 10, 11, 20)] == [0, 83, 1154, 1358, 4470]
    _, agent = world_of(FIELD, (3, 3))
    assert agent.experience == [0, 0, 0, 0, 1154, 1154, 1154]
    assert [agent.level(skill) for skill in range(7)] == [1, 1, 1, 1, 10, 10, 10]
    assert agent.combat_level == 3  # 0.25 * 11 + 0.65 = 3.4
    for experience, level in ((82, 1), (83, 2), (1153, 9), (10**9, 98)):
        agent.experience[mmo.MELEE] = experience
        assert agent.level(mmo.MELEE) == level
    assert agent.combat_level == 66  # 0.25 * 11 + 0.65 * 98 = 66.45


def test_an_agent_that_walks_into_lava_decides_twice():
    world, agent = world_of(FIELD, (1, 3))
    assert world.step({0: Action(mmo.NORTH)}) == []
    assert (agent.row, agent.col, agent.age, vitals(agent)) == (0, 3, 1, (10, 9, 9))
    assert world.step({0: Action(mmo.SOUTH)}) == [agent]
    assert (agent.row, agent.age, vitals(agent)) == (1, 1, (10, 9, 9))  # it moved, no more
    assert not world.agents


def test_an_agent_that_does_nothing_decides_fifteen_times():
    world, agent = world_of(FIELD, (3, 3))
    seen = []
    while world.agents:
        world.step({})
        seen.append(vitals(agent))
    starving = [(10, 10 - tick, 10 - tick) for tick in range(1, 10)]
    assert seen == [*starving, *[(health, 0, 0) for health in (8, 6, 4, 2, 0, 0)]]
    assert agent.age == 14


def test_skills_in_another_order():
    world, agent = world_of(FIELD, (3, 3), order=(mmo.CONSTITUTION, mmo.FISHING, mmo.HUNTING))
    for _ in range(11):
        world.step({})
    assert vitals(agent) == (8, 0, 0)  # health looked at food and water of the tick before


def test_foraging():
    world, agent, second = world_of(["~~~~~", "~fws~", "~.f.~", "~~~~~"], (1, 1), (1, 1))
    agent.food = agent.water = second.food = 3
    agent.health = 4
    world.step({0: Action(mmo.EAST), 1: Action(mmo.SOUTH)})
    # Floor(10 / 2) each, and the older takes all of the tile. Not more than the maximum: 10.
    assert vitals(agent) == (5, 7, 7)
    assert vitals(second) == (10, 2, 10)
    assert agent.experience[mmo.FISHING :] == [1154 + 50, 1154 + 50, 1154]
    assert second.experience[mmo.FISHING :] == [1154 + 10, 1154, 1154]
    assert world.tiles[1, 1] == mmo.SCRUB
    assert (agent.row, agent.col) == (1, 1)  # water is in the way
    assert (second.row, second.col) == (2, 1)
    world.chance.grows = True
    world.step({0: Action(mmo.SOUTH)})
    assert vitals(agent) == (6, 6, 10)  # 6 - 1 + 1 for health, 7 - 1 + 4 for water
    assert world.tiles[1, 1] == mmo.FOREST
    world.step({0: Action(mmo.SOUTH)})
    assert vitals(agent) == (6, 5, 9)  # food is not above half


def test_foraging_off():
    world, agent = world_of(["~~~~", "~fw~", "~~~~"], (1, 1), foraging=False)
    for _ in range(30):
        world.step({})
    assert (vitals(agent), world.tiles[1, 1], agent.age) == ((10, 10, 10), mmo.FOREST, 30)


@pytest.mark.parametrize(("style", "damage"), [(mmo.MELEE, 5), (mmo.RANGE, 3), (mmo.MAGE, 1)])
def test_a_hit(style, damage):
    world, attacker, target = world_of(FIELD, (3, 3), (3, 4))
    attacker.food = 3
    world.step({0: Action(mmo.STAY, style, target=1)})
    # One of each is used in the tick.
    assert vitals(target) == (10 - damage, 9 - damage, 9 - damage)
    assert vitals(attacker) == (10, 2 + damage, 10)
    assert target.damage == damage
    assert target.freeze == (3 if style == mmo.MAGE else 0)
    assert attacker.experience[style] == target.experience[mmo.DEFENCE] == 40 * damage
    assert attacker.experience[6] == target.experience[6] == 1154 + 20 * damage
    world.step({})
    assert target.damage == 0


@pytest.mark.parametrize(
    ("column", "rules", "reach"),
    [
        *[(2, {}, [1, 2, 3]), (3, {}, [2, 3]), (4, {}, [3]), (5, {}, [])],
        *[(2, {"ranges": (1, 1, 1)}, [1, 2, 3]), (3, {"ranges": (1, 1, 1)}, [])],
        (2, {"combat": False}, []),
        # Levels differ by 0, and 0 is what the wilderness is from 7 cells on.
        *[(2, {"wilderness": True, "centre": (9, 2)}, [1, 2, 3])],
        *[(2, {"wilderness": True, "centre": (8, 2)}, [])],
    ],
)
def test_reach(column, rules, reach):
    for style in range(3):
        world, first, second = world_of(FIELD, (2, 1), (2, column), **rules)
        assert world.targets(first, style) == [1] * (style + 1 in reach)
        world.step({0: Action(mmo.STAY, style, target=1)})
        assert (second.damage > 0) == (style + 1 in reach)


def test_misses_and_probabilities():
    world, attacker, target = world_of(FIELD, (2, 1), (2, 2))
    for style in (mmo.MELEE, mmo.MELEE, mmo.RANGE):
        world.step({0: Action(mmo.STAY, style, target=1)})
        target.health = 10
    # Melee and Defence: 40 * 5 = 200 (level 3), then 40 * 6 more = 440 (level 5); Defence then has
    # 40 * 3 more = 560 (level 6). Levels begin at 83, 174, 276, 388, 512.
    assert [attacker.level(mmo.MELEE), target.level(mmo.DEFENCE)] == [5, 6]
    assert world.chance.probabilities == [0.5, 0.5, 0.5 - 4 / 200]
    world.chance.hit = lambda *attack: False
    world.step({0: Action(mmo.STAY, mmo.MAGE, target=1)})
    assert (target.freeze, target.damage, target.experience[mmo.DEFENCE]) == (0, 0, 560)


def test_a_target_that_walks_away_is_hit_all_the_same():
    world, _, target = world_of(FIELD, (1, 3), (2, 3))
    world.step({0: Action(mmo.STAY, mmo.MELEE, 1), 1: Action(mmo.SOUTH)})
    assert (target.row, target.health) == (3, 5)


def test_magic_takes_two_moves():
    world, _, target = world_of(FIELD, (1, 1), (1, 2))
    south = {1: Action(mmo.SOUTH)}
    rows = []
    for acts in ({0: Action(mmo.STAY, mmo.MAGE, 1)}, south, south, south):
        world.step(acts)
        rows.append(target.row)
    assert rows == [1, 1, 1, 2]
    assert target.freeze == 0


def test_immunity_lasts_nine_ticks():
    world, attacker, target = world_of(FIELD, (1, 1), (1, 2), immunity=True)
    health = []
    for _ in range(10):
        world.step({0: Action(mmo.STAY, mmo.MELEE, 1)})
        health.append(target.health)
    assert health == [10] * 9 + [3]  # hunger and thirst, and then 5 of the attack
    assert attacker.experience[mmo.MELEE] == 200


def test_two_agents_kill_each_other():
    world, first, second = world_of(FIELD, (1, 1), (1, 2))
    first.health = second.health = 6
    for deaths in ([], [], [first, second]):
        acts = {agent.uid: Action(0, mmo.MELEE, 1 - agent.uid) for agent in (first, second)}
        first.row = second.row = 1
        assert world.step(acts) == deaths
    # They have 1 after the first tick, 0 after the second, and hit in the third, too: 5, 6 and 7.
    assert first.experience[mmo.MELEE] == second.experience[mmo.MELEE] == 40 * 18


def test_systems_off():
    off = {"progression": False, "pilfering": False, "freezing": False}
    world, attacker, target = world_of(FIELD, (1, 1), (1, 2), **off)
    world.step({0: Action(mmo.STAY, mmo.MAGE, 1)})
    assert attacker.experience == [0, 0, 0, 0, 1154, 1154, 1154]
    assert (vitals(attacker), vitals(target), target.freeze) == ((10, 9, 9), (9, 9, 9), 0)


def test_spawning_fails_at_the_cap_and_in_a_full_population():
    world, _ = world_of(FIELD, (1, 1))
    world.rules = mmo.Rules(cap=4, populations=2)
    world.chance.cells = [(1, 2)] * 3
    populations = iter([0, 0, 1])
    world.chance.spawn = lambda cells, number: ((1, 2), next(populations))
    world.step({})
    assert [agent.immune for agent in world.agents.values()] == [0, 10]  # the newcomer: no update
    world.step({})  # 2 of 2
    assert len(world.agents) == 2
    world.step({})
    assert [agent.population for agent in world.agents.values()] == [0, 0, 1]
    world.rules = mmo.Rules(cap=3, populations=2)
    world.step({})  # nothing is drawn any more
    assert len(world.agents) == 3


def test_ring():
    cells = mmo.ring(80)
    assert len(cells) == 4 * 61
    assert {(9, 9), (9, 70), (70, 9), (70, 70)} < set(cells)


def test_ridges():
    # Sharp is 0 where x < 0; where y < 0 it is 0.5, elsewhere 1.
    high = mmo.heights(lambda x, y: -1 if x < 0 else 0.5 if y < 0 else 0, seed=0, size=4, scale=16)
    # With sharp s the sum is s (1 + s / 2) (1 + s / 4) ... (1 + s / 128), so that the quotient of
    # those of 0.5 and of 1 is 0.5 (1 + 1 / 256) / (1 + 1 / 2).
    assert high == pytest.approx(np.array([[0] * 4] * 2 + [[257 / 768] * 2 + [1] * 2] * 2))
    asked = []
    mmo.heights(lambda x, y: asked.append((x, y)) or 0, seed=2, size=2, scale=28)
    assert asked[8:11] == [(42, 56), (84, 112), (168, 224)]  # 28 (2 - 0.5) and 28 (2 + 0.5 - 0.5)


def test_tiles():
    high = np.tile([0.29, 0.3, 0.56, 0.57, 0.71, 0.72, 0.29, 0.29], (8, 1))
    assert "".join(KINDS[kind] for kind in mmo.small_map(high, border=1)[3]) == "~..ffs.~"
    assert "".join(KINDS[kind] for kind in mmo.small_map(high, border=0)[3]) == "...ffsw."
    large = mmo.large_map(np.full((144, 144), 0.6))
    # Grass until 0.675 - 0.325 u < 0.6, which is at 16.6 of 72 cells; forest to 0.75 - 0.1625 u
    # = 0.6, at 66.5, but the last 9 cells are lava.
    row = "".join(KINDS[kind] for kind in large[72])
    assert row == "~" * 9 + "f" * 47 + "." * 14 + "w" * 5 + "." * 14 + "f" * 46 + "~" * 9


def test_players():
    lines = ["~~~~~~~", "~.s...~", "~s...f~", "~w....~", "~~~~~~~"]
    world, agent = world_of(lines, (2, 2))
    agent.food = 9
    assert mmo.forager(world, agent) == Action(mmo.EAST)  # three cells to the forest
    agent.food = 10
    assert mmo.forager(world, agent) == Action(mmo.SOUTH)  # as much water as food: to the water
    agent.row = 3
    assert mmo.forager(world, agent) == Action(mmo.STAY)
    world.tiles[3, 1] = mmo.GRASS
    assert mmo.forager(world, agent).move in (mmo.NORTH, mmo.EAST)  # the forest instead
    agent.row, agent.col = 1, 1
    assert {mmo.safe_player(world, agent).move for _ in range(9)} == {mmo.STAY}
    agent.col = 5
    assert {mmo.safe_player(world, agent).move for _ in range(99)} == {mmo.SOUTH, mmo.WEST}
    assert {mmo.random_player(world, agent).move for _ in range(99)} == {0, 1, 2, 3}


def test_the_fighting_player_hits_the_weakest():
    world, agent, _, second, _ = world_of(FIELD, (2, 2), (2, 3), (3, 3), (4, 4))
    second.health = 5
    assert mmo.fighting_forager(world, agent).target == 2
    assert {mmo.random_player(world, agent).target for _ in range(99)} == {1, 2, 3}
