"""Pictures of the massively multiplayer world, and the measures of its experiments, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mmo_support import SMALL_WORLD
from ragged_envs.mmo.body import LIVING
from ragged_envs.mmo.overlays import (
    draw_map,
    population_colours,
    values_over_map,
    with_heat,
    with_populations,
    with_visits,
)
from ragged_envs.mmo.terrain import FOREST, GRASS, LAKE, LAVA, SCRUB, STONE, TILES
from ragged_envs.mmo.world import Mmo, MmoRows

from benchmarks.mmo_findings import (
    Visits,
    exploration,
    interval,
    mutual_information,
    niches,
    reachable,
    watch,
)
from entity_env.errors import SettingError
from entity_env.play import random_policy
from entity_env.seats.table_rows import TableRows


def test_values_are_those_of_a_newcomer_on_each_tile():
    rows = MmoRows(18, 0, **SMALL_WORLD)  # three worlds: the tiles take several passes
    rows.interpret()
    middle = SMALL_WORLD["radius"]

    def kind_below(obs):
        assert obs.num_frames == 3
        assert "Agent" not in obs.features or not len(obs.features["Agent"].as_array())
        own = obs.features["Self"].as_array()
        assert (own[:, 0] == 1).all(), "seat 3 is of population 1"
        assert (own[:, 3:6] == 0.5).all(), "food, water and health are full"
        tiles = obs.features["Tile"].as_array().reshape(3, 2 * middle + 1, -1)
        return tiles[:, middle, middle]

    found = values_over_map(rows, kind_below, seat=3)
    tiles = np.array(SMALL_WORLD["tiles"])
    is_open = np.isin(tiles, (GRASS, FOREST))
    assert np.array_equal(found[is_open], tiles[is_open])
    assert np.isnan(found[~is_open]).all()


def test_a_world_is_drawn_with_overlays():
    world = Mmo(**SMALL_WORLD)
    table, policy, visits = TableRows(world, 0), random_policy(0), np.zeros((2, 12, 14))
    obs = table.reset()
    for tick in range(21):
        obs = table.act(policy(obs)) if tick else obs
        seats = np.flatnonzero(np.array(world.fields()["agents"])[:, LIVING])
        np.add.at(visits, (seats % 2, *world._rows.places(seats).T), 1)
    tiles = draw_map(world.fields()["tiles"])
    free = np.ones(visits[0].shape, bool)
    free[tuple(world._rows.places(seats).T)] = False
    free = free.repeat(8, axis=0).repeat(8, axis=1)
    for overlay, expected in (
        ("", tiles),
        ("visits", with_visits(tiles, visits)),
        ("populations", with_populations(tiles, visits)),
    ):
        assert np.array_equal(world.render(overlay)[free], expected[free])
    land = np.isin(world.fields()["tiles"], (GRASS, SCRUB, FOREST))

    worth = world.render("values", lambda obs: np.arange(obs.num_frames))
    changed = (worth != tiles).any(axis=2)[free].reshape(-1)
    assert np.array_equal(changed, land.repeat(8, axis=0).repeat(8, axis=1)[free])
    for wrong in ({"overlay": "visit"}, {"overlay": "values"}):
        with pytest.raises(SettingError, match="no such overlay"):
            world.render(**wrong)


def test_colours_of_amounts_and_populations():
    tiles = np.array([[LAVA, GRASS], [LAKE, FOREST]])
    plain = draw_map(tiles, cell=2)
    assert plain.shape == (4, 4, 3)
    assert plain[0, 0].tolist() == [207, 82, 46]
    warm = with_heat(plain, [[np.nan, 1.0], [2.0, 3.0]])
    assert np.array_equal(warm[:2, :2], plain[:2, :2])
    # 0.2 of the map and 0.8 of the coldest, the middle and the hottest colour.
    assert warm[0, 2].tolist() == [69, 81, 141]  # 0.2 * (150, 190, 110) + 0.8 * (49, 54, 149)
    assert warm[2, 2].tolist() == [215, 201, 53]  # 0.2 * (56, 122, 62) + 0.8 * (255, 221, 51)
    who = with_populations(plain, [[[0, 4], [0, 0]], [[0, 0], [1, 0]]])
    first, second = population_colours(2).astype(float)
    assert np.allclose(who[0, 2], 0.2 * plain[0, 2] + 0.8 * first, atol=0.5)
    # 0.5 + 0.3 * sqrt(1 / 4)
    assert np.allclose(who[2, 0], 0.35 * plain[2, 0] + 0.65 * second, atol=0.5)
    assert np.array_equal(who[2, 2], plain[2, 2])


def test_visited_land_looks_like_no_other_terrain():
    kinds = range(len(TILES))
    land, terrain = (GRASS, SCRUB, FOREST), draw_map([kinds], cell=1)[0].astype(float)
    visits = np.unique(np.geomspace(1, 1000, 60).astype(int))
    map_of_land = np.repeat([land], len(visits), axis=0)
    amounts = np.repeat(visits[:, None], len(land), axis=1).astype(float)
    for populations in (1, 2, 4, 8):
        # Each tile is visited by two populations, as often or twice as often by the first.
        by = np.zeros((populations, *amounts.shape))
        for first in range(populations):
            by[first], by[first - 1] = amounts, amounts / 2
            plain = draw_map(map_of_land, cell=1)
            visited = with_visits(plain, by)
            assert np.linalg.norm(visited[:, :, None] - terrain, axis=-1).min() > 35
            # 0 is the same colour, 86 grass beside stone.
            populated = with_populations(plain, by)
            assert np.linalg.norm(populated - terrain[STONE], axis=-1).min() > 50
            by[:] = 0


def test_information_of_population_and_place():
    labels, apart = np.array([0, 0, 1, 1]), np.array([0, 0, 5, 5])
    assert math.isclose(mutual_information(labels, apart), math.log(2))
    assert math.isclose(mutual_information(labels, np.array([0, 5, 0, 5])), 0.0, abs_tol=1e-12)
    # Seats 0 and 1 live in squares of their own: 6 lives of 2 steps each.
    lives = np.repeat(np.arange(6), 2)
    seats = lives % 2
    places = np.column_stack([8 * seats, np.zeros_like(seats)])
    found, shuffled = niches(Visits(lives, seats, places), populations=2)
    assert math.isclose(found, math.log(2))
    # Of 20 ways to label 3 lives of 6, 2 keep the squares apart, and 18 mix them 2 to 1, with
    # ln 2 + (2 ln (2 / 3) + ln (1 / 3)) / 3 = 0.057 nats.
    mixed = math.log(2) + (2 * math.log(2 / 3) + math.log(1 / 3)) / 3
    assert abs(shuffled - (0.1 * math.log(2) + 0.9 * mixed)) < 0.1


def test_exploration_by_hand():
    tiles = np.array([[LAVA, GRASS, LAKE], [GRASS, FOREST, LAKE], [LAKE, LAKE, GRASS]])
    can_be = reachable(np.pad(tiles, 1), [(1, 2)])
    assert can_be.sum() == 3, "the last one is behind water"
    # Life 0 walks two tiles down, and life 1 stays.
    places = np.array([(1, 2), (2, 2), (2, 2), (2, 1), (2, 2)])
    seen = Visits(np.array([0, 0, 1, 0, 1]), np.zeros(5, int), places)
    assert exploration(seen, can_be) == (1.0, (3 + 1) / 2, (1 + 0) / 2, 5 / 2)
    assert interval([1.0, 1.0, 1.0]) == "  1.000 [1.000, 1.000]"


def test_watching_gives_each_life_a_number():
    rows = MmoRows(24, 0, **SMALL_WORLD)  # four worlds, two of each of two "maps"
    rows.interpret()
    seen, other = watch(random_policy(0), rows, rows.reset(), 2, 240)
    assert not set(seen.lives) & set(other.lives)
    assert len(seen.lives) == len(seen.places) == 240
    for life in np.unique(seen.lives):
        assert len(set(seen.seats[seen.lives == life])) == 1
    tiles = np.array(SMALL_WORLD["tiles"])[tuple(seen.places.T)]
    assert not np.isin(tiles, (LAKE, STONE)).any()
    assert (tiles == LAVA).any(), "who walks at random dies of it"
