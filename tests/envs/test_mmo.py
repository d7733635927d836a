"""The massively multiplayer world: its rules by hand, in worlds that Python runs."""

from __future__ import annotations

import numpy as np
import pytest
from mmo_support import SMALL_WORLD, World
from ragged_envs.mmo.body import (
    COLUMN,
    CONSTITUTION,
    DEFENCE,
    EXPERIENCE,
    FISHING,
    HUNTING,
    MELEE,
    NEXT,
    RANGE,
    ROW,
    STYLES,
)
from ragged_envs.mmo.terrain import FOREST, GRASS, LAKE, LAVA, SCRUB, STONE, make_map
from ragged_envs.mmo.world import MmoRows

from entity_env.errors import SettingError
from entity_env.play import random_policy

MELEE_STYLE, RANGE_STYLE, MAGE_STYLE = range(len(STYLES))
FIELD = ("." * 9,) * 9
PAIR = {"spawns": [(4, 4)], "immunity": 0, "hit_chance": 1.0, "agents": 2}
"""Two agents in the middle of the field, who always hit."""


def test_lava_kills_a_tick_later():
    world = World(".", spawns=[(0, 0)], agents=1)
    obs = world.act(s0="North")
    assert (obs.rows.tolist(), obs.reward.tolist(), obs.done.any()) == ([0], [0], False)
    obs = world.act(s0="North")
    assert (obs.reward.tolist(), obs.done.tolist()) == ([-1], [True])
    assert obs.metrics["episodic_length"].tolist() == [2]
    assert obs.rows.tolist() == [], "somebody can come in from the next tick on"
    assert world.act().rows.tolist() == [0]


def test_who_never_moves_starves_in_15_ticks():
    world = World(".", agents=1)
    seen = []
    while not world.act().done[0]:
        seen.append((world.food[0], world.water[0], world.health[0], world.age[0]))
    # 10 ticks take all food and water; the tenth and those after it take 2 of 10 health; with
    # none left the agent is marked in its 15th tick.
    assert [food for food, *_ in seen] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0]
    assert [health for _, _, health, _ in seen] == [10] * 9 + [8, 6, 4, 2, 0]
    assert [age for *_, age in seen] == list(range(1, 15))
    assert world.obs.metrics["episodic_length"].tolist() == [15]


def test_drinking_and_eating_by_hand():
    world = World(".~", "f.", agents=1, regrowth=0.0)
    world.put(0, water=3, food=3)
    world.act(s0="South")  # 3 - 1 + floor(0.5 * 10) = 7 water beside the lake, then into the forest
    assert (world.water[0], world.food[0], world.xp[0, FISHING]) == (7, 2, 1154 + 50)
    world.act()  # not beside water any more; the forest: 2 - 1 + 5 = 6
    assert (world.water[0], world.food[0], world.xp[0, HUNTING]) == (6, 6, 1154 + 50)
    assert world.tiles[world.row[0], world.column[0]] == SCRUB
    world.act()
    assert world.food[0] == 5
    assert world.level[0, HUNTING] == 10
    world.put(0, water=9, row=0, column=0)
    world.act()  # 9 - 1 + min(2, 5)
    assert (world.water[0], world.xp[0, FISHING]) == (10, 1154 + 50 + 20)


def test_forests_grow_again():
    world = World("f", agents=1, regrowth=1.0)
    world.act()
    assert world.tiles[world.row[0], world.column[0]] == FOREST
    assert world.food[0] == 10, "9 and the one that is missing"


def test_who_is_well_fed_heals():
    world = World(".", agents=1)
    world.put(0, health=4, food=7, water=7)
    world.act()  # 6 > 10 // 2 of both: floor(0.1 * 10) = 1
    assert world.health[0] == 5
    world.act()  # 5 is not
    assert world.health[0] == 5
    world.put(0, water=1)
    world.act()
    assert world.health[0] == 4


def test_newcomers_cannot_be_hit_until_their_tenth_tick():
    world = World(*FIELD, **{**PAIR, "immunity": 10}, foraging=False).grow(2)
    lost = []
    for _ in range(11):
        world.act({0: (RANGE_STYLE, 1)})
        lost.append(world.damage[1])
    assert lost == [0] * 9 + [3, 3]


def test_a_spell_freezes_for_two_moves():
    world = World(*FIELD, **PAIR, foraging=False).grow(2)
    world.act({0: (MAGE_STYLE, 1)}, s1="North")  # moves come before attacks
    assert world.frozen[1] == 3
    places = []
    for _ in range(3):
        world.act(s1="North")
        places.append(world.row[1] - world.edge)
    assert places == [3, 3, 2]


def test_both_can_die_at_once():
    world = World(*FIELD, **PAIR).grow(2)
    for seat in (0, 1):
        world.put(seat, health=4)  # a tick heals 1
    obs = world.act({0: (MELEE_STYLE, 1), 1: (MELEE_STYLE, 0)})
    assert (world.health[:2].tolist(), obs.done.any()) == ([0, 0], False)
    obs = world.act({0: (MELEE_STYLE, 1), 1: (MELEE_STYLE, 0)})  # they still attack
    assert (obs.reward.tolist(), obs.done.tolist()) == ([-1, -1], [True, True])
    assert obs.rows.tolist() == []


def test_a_hit_by_hand():
    world = World(*FIELD, **PAIR).grow(2)
    world.put(0, food=4, water=8)
    world.put(1, food=9, water=3)
    world.act({0: (RANGE_STYLE, 1)})
    # A tick takes 1 of all, damage is 3: food 3 + 3, water 7 + 3; the other's 8 - 3, max(2 - 3, 0).
    assert (world.food[:2].tolist(), world.water[:2].tolist()) == ([6, 5], [10, 0])
    assert (world.health[:2].tolist(), world.damage[1]) == ([10, 7], 3)
    assert world.xp[0].tolist() == [1154, 1154, 1154 + 60, 0, 120, 0, 0]
    assert world.xp[1].tolist() == [1154, 1154, 1154 + 60, 0, 0, 0, 120]
    assert (world.level[0, RANGE], world.level[1, DEFENCE], world.level[0, CONSTITUTION]) == (
        2,
        2,
        10,
    )
    world.act()
    assert world.damage[1] == 0
    world.put(0, food=9, water=9, level=[12, 11, 10, 1, 1, 1, 1])
    world.act({0: (MELEE_STYLE, 1)})
    # At most the level of fishing, 12, and of hunting, 11.
    assert (world.water[0], world.food[0]) == (12, 11)


def test_attacks_come_after_moves_and_look_at_no_distance():
    world = World(*FIELD, **PAIR, foraging=False).grow(2)
    world.act({0: (MELEE_STYLE, 1)}, s0="North", s1="South")
    assert world.health[1] == 5


@pytest.mark.parametrize(("distance", "styles"), [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0)])
def test_who_can_be_hit(distance, styles):
    world = World(*FIELD, **PAIR, radius=4).grow(2)
    world.put(1, row=4 - distance, column=4)
    (frame,) = np.flatnonzero(world.obs.rows == 0)
    strikes = np.asarray(world.obs.features["Strike"][int(frame)].as_array())
    # Range reaches 2 and mage 3: the farther, the later the first style.
    assert strikes[:, 2].tolist() == [*range(3)][3 - styles :]
    actors = world.obs.action_masks["Attack"].actors.size1()
    assert list(actors) == [min(styles, 1)] * 2
    if styles:
        assert strikes[0, :2].tolist() == [4 - distance, 4]
        assert strikes[0, -1] == 1.0  # the chance of a hit


def test_reaches_and_the_freeze_are_settings():
    own = {"melee_reach": 2, "range_reach": 1, "mage_reach": 2, "freezing": 0}
    world = World(*FIELD, **PAIR, **own, foraging=False).grow(2)
    world.put(1, row=4, column=6)
    strikes = np.asarray(world.obs.features["Strike"][0].as_array())
    assert strikes[:, 2].tolist() == [MELEE_STYLE, MAGE_STYLE]
    world.act({0: (MAGE_STYLE, 1)})
    assert (world.damage[1], world.frozen[1]) == (1, 0)


def test_experience_and_levels():
    assert [EXPERIENCE[level] for level in (1, 2, 10, 11, 20)] == [0, 83, 1154, 1358, 4470]
    world = World(*FIELD, **PAIR, foraging=False).grow(2)
    world.put(0, xp=[1154, 1154, 1154, 76, 0, 0, 0])
    world.act({0: (MELEE_STYLE, 1)})  # 200 more: 276, that of level 4
    assert (world.level[0, MELEE], EXPERIENCE[4], EXPERIENCE[5]) == (4, 276, 388)


@pytest.mark.parametrize(
    ("style", "level", "damage"),
    # floor(5 + 45 L / 99), floor(3 + 32 L / 99), floor(1 + 24 L / 99)
    [(0, 1, 5), (0, 20, 14), (0, 98, 49), (1, 1, 3), (1, 20, 9), (2, 1, 1), (2, 50, 13)],
)
def test_damage_by_level(style, level, damage):
    world = World(*FIELD, **PAIR, foraging=False).grow(2)
    levels = np.array([10, 10, 10, 1, 1, 1, 1])
    levels[MELEE + style] = level
    world.put(0, level=levels)
    world.act({0: (style, 1)})
    assert world.damage[1] == damage


def test_the_chance_of_a_hit():
    world = World(*FIELD, **{**PAIR, "hit_chance": 0.0}, foraging=False).grow(2)
    world.put(0, level=[10, 10, 10, 1, 1, 71, 1])
    world.put(1, level=[10, 10, 10, 1, 1, 1, 31], health=98)
    hits = 0
    for _ in range(300):
        world.act({0: (MAGE_STYLE, 1)})
        world.put(0, level=[10, 10, 10, 1, 1, 71, 1])
        world.put(1, level=[10, 10, 10, 1, 1, 1, 31], health=98)
        hits += world.luck[0]
    assert 40 <= hits <= 80  # 300 (71 - 31) / 200 = 60, deviation 6.9


def test_newcomers_have_the_seats_of_their_population():
    world = World(*FIELD, agents=6, populations=3, foraging=False)
    for _ in range(60):
        alive, full = (
            world.alive[()],
            (np.bincount(world.order[: world.alive[()]] % 3, minlength=3)),
        )
        world.act()
        if full[world.drawn[()]] == 2:
            assert (world.newcomer[()], world.alive[()]) == (-1, alive)
        else:
            assert world.newcomer[()] % 3 == world.drawn[()]
            assert world.alive[()] == alive + 1
    assert world.obs.rows.tolist() == list(range(6))
    assert world.obs.features["Self"].as_array()[:, 0].tolist() == [0, 1, 2, 0, 1, 2]


def test_what_an_agent_sees():
    world = World(".~#", "f..", "...", **{**PAIR, "spawns": [(1, 1)]}, radius=2).grow(2)
    world.put(1, row=0, column=0)
    world.put(1, food=5, water=10, health=7, age=20, damage=3, frozen=2)
    tiles = np.asarray(world.obs.features["Tile"][0].as_array()).reshape(5, 5)
    own = [[GRASS, LAKE, STONE], [FOREST, GRASS, GRASS], [GRASS] * 3]
    expected = np.full((5, 5), LAVA)
    expected[1:4, 1:4] = own
    assert np.array_equal(tiles, expected)
    (other,) = np.asarray(world.obs.features["Agent"][0].as_array())
    wild = world.wild[1]
    body = [0.03, 0.2, 0.0, 0.5, 0.2, 2 / 3 - 0.5, -0.5, wild, 3]
    np.testing.assert_allclose(other, [1, 1, 0, *body], rtol=1e-6)


def test_the_wilderness_keeps_levels_apart():
    wild = {"wilderness": True, "wilderness_centre": -1, "safe_distance": 0, "wilderness_step": 1}
    world = World(*FIELD, **{**PAIR, **wild}, foraging=False).grow(2)
    for seat, column in ((0, 6), (1, 7)):
        world.put(seat, row=4, column=column)
    world.act()  # the centre is (4, 4): 2 and 3 deep in the wilderness
    assert world.wild[:2].tolist() == [2, 3]
    assert world.obs.action_masks["Attack"].actors.size1().tolist() == [1, 1]
    # 0.25 (1 + 10) + 0.65 * 5 = 6: 3 levels above the other's 3, and at most 2 may be.
    world.put(0, level=[10, 10, 10, 5, 1, 1, 1])
    assert world.obs.features["Self"].as_array()[:, 9].tolist() == [6, 3]
    assert world.obs.action_masks["Attack"].actors.size1().tolist() == [0, 0]


def test_the_wilderness_begins_at_the_safe_distance():
    wild = {"wilderness_centre": -1, "safe_distance": 2, "wilderness_step": 2}
    world, found = World(*FIELD, **{**PAIR, **wild}, foraging=False), []
    for column in range(4, 9):
        world.put(0, row=4, column=column)
        world.act()
        found.append(int(world.wild[0]))
    assert found == [-1, -1, 0, 0, 1]  # 0 to 4 cells from the centre, (4, 4)


def test_systems_can_be_switched_off():
    world = World("f~", agents=1, foraging=False)
    for _ in range(30):
        world.act()
    assert (world.food[0], world.water[0], world.health[0], world.age[0]) == (10, 10, 10, 30)
    assert world.tiles[world.row[0], world.column[0]] == FOREST
    world = World(*FIELD, **PAIR, progression=False, pilfering=False).grow(2)
    world.act({0: (MELEE_STYLE, 1)})
    assert world.xp[0].tolist() == [1154] * 3 + [0] * 4
    assert (world.food[0], world.health[1]) == (world.food[1] - 1, 5)
    rows = MmoRows(tiles=np.pad([[GRASS]], 3), radius=2, agents=2, populations=1, combat=False)
    assert list(rows.action_space()) == ["Move"]
    assert "Strike" not in rows.obs_space().entities
    rows.interpret()
    obs, policy = rows.reset(), random_policy(0)
    for _ in range(20):
        obs = rows.act(policy(obs))


def test_a_saved_world_leaves_out_what_follows_from_who_lives():
    rows, other = (MmoRows(12, seed, **SMALL_WORLD) for seed in range(2))
    rows.interpret()
    other.interpret()
    obs, policy = rows.reset(), random_policy(0)
    for _ in range(20):
        obs = rows.act(policy(obs))
    state = rows.get_state()
    assert "first" not in state[0]["env"]
    before = rows.copy_games([0, 1]).fields
    for has in (before["first"], before["agents"][..., NEXT]):
        assert (has >= 0).any(), "some tiles have agents, and one of them several"
    other.set_state(state)
    after = other.copy_games([0, 1]).fields
    assert all(np.array_equal(before[name], after[name]) for name in ("first", "agents"))
    assert other.places([0, 7]).tolist() == [
        [*before["agents"][game, seat, [ROW, COLUMN]]] for game, seat in ((0, 0), (1, 1))
    ]


def test_maps_are_as_described():
    pytest.importorskip("opensimplex")
    shares = []
    for number in (0, 23):
        tiles = make_map(number)
        assert tiles.shape == (80, 80)
        inner = tiles[9:71, 9:71]
        outside = tiles.copy()
        outside[9:71, 9:71] = LAVA
        assert (outside == LAVA).all()
        assert all(
            (inner[edge] == GRASS).all() for edge in (0, -1, (slice(None), 0), (slice(None), -1))
        )
        shares.append([(inner == kind).mean() for kind in (LAKE, GRASS, FOREST, STONE)])
    assert not np.array_equal(make_map(0), make_map(23))
    for share, (low, high) in zip(
        np.mean(shares, axis=0),
        [(0.05, 0.1), (0.44, 0.53), (0.24, 0.29), (0.12, 0.24)],
        strict=True,
    ):
        assert low < share < high
    large = make_map(0, 144, 9, True)
    assert (large[72, 72], large[75, 68], large[9, 40], large[8, 40]) == (LAKE, GRASS, GRASS, LAVA)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agents": 10}, "multiple of 8 populations"),
        ({"agents": 0}, "agents"),
        ({"regrowth": 1.5}, "regrowth"),
        ({"foraging": 3}, "foraging"),
        ({"map": "smal"}, "did you mean 'small'"),
        ({"regrwth": 0.1}, "did you mean 'regrowth'"),
        ({"tiles": [[2]]}, "tiles are no map"),
        ({"tiles": np.full((40, 40), 2)}, "too near to the edge"),
        ({"tiles": np.pad([[7]], 9)}, "unknown number"),
        ({"tiles": np.pad([[5]], 9)}, "no room for newcomers"),
        ({"tiles": np.pad([[2, 5]], 9), "spawns": [(9, 10)]}, "no room for newcomers"),
        ({"tiles": np.pad([[2]], 9), "spawns": [(99, 9)]}, "spawns are no cells"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingError, match=message):
        MmoRows(**settings)
