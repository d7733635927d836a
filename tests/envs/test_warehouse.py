"""Warehouses: the layout, rules by hand, and the compiled rows against the readable game."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from ragged_envs.errors import EnvConfigError
from ragged_envs.industry.warehouse import WAITING, Warehouse
from ragged_envs.industry.warehouse_rows import WarehouseRows
from ragged_envs.industry.warehouse_rules import make_layout
from ragged_envs.industry.warehouse_scripts import nearest_task

from entity_env import SelectEntityAction
from entity_env.errors import ActorError, StateError
from entity_env.play import random_policy
from entity_env.rows.random_numbers import random_int, seeded_streams

SMALL = {"aisles": 2, "shelves": 3, "stations": 1, "chargers": 1, "lines": 1, "waiting": 2}


def task(robot, kind, number):
    return {"Task": SelectEntityAction(actors=[("Robot", robot)], actees=[(kind, number)])}


def test_aisles_are_one_way():
    """Two aisles of three cells at x = 0 (up) and x = 4 (down), ways across at y = 1 and 5.

    From the foot of the first aisle (0, 1) to (4, 3): up 4, across 4, down 2. Back to (0, 1): down
    2, across 4.
    """
    layout = make_layout(2, 3, 1, 1)
    number = {tuple(cell): i for i, cell in enumerate(layout.cells.tolist())}
    assert (layout.width, layout.height, len(number)) == (5, 7, 5 + 5 + 6 + 2)
    assert layout.ways[number[0, 1], number[4, 3]] == 4 + 4 + 2
    assert layout.ways[number[4, 3], number[0, 1]] == 2 + 4
    assert sorted(layout.cells[layout.shelves].tolist()) == [
        [x, y] for x in (0, 4) for y in (2, 3, 4)
    ]
    assert layout.cells[layout.stations].tolist() == [[2, 0]]
    assert layout.cells[layout.chargers].tolist() == [[2, 6]]


def one_robot(**settings):
    """One robot at the station (2, 0), an item at (0, 3) and one at (4, 2)."""
    env = Warehouse(robots=1, **{**SMALL, **settings})
    env.reset()
    state = env.get_state()
    number = {tuple(cell): i for i, cell in enumerate(env.cells)}
    state["item"] = [[number[0, 3], 0, WAITING], [number[4, 2], 1, WAITING]]
    return env, env.set_state(state), number


def test_a_task_by_hand():
    """(2, 0) to (0, 3): up 1, left 2, up 2: 5 ticks; from there over the top to the station:

    up 2, right 4, down 4 to (4, 1), left 2, down 1: 13. In all 18 ticks and 18 of the battery.
    """
    env, seen, _ = one_robot()
    assert seen.features["Item"][0][2] == pytest.approx(5 / 20)
    assert seen.features["Item"][0][3] == pytest.approx(13 / 20)
    assert sorted(seen.actions["Task"].actee_ids) == [("Item", 0), ("Item", 1)]
    seen = env.act(task(0, "Item", 0))
    assert (env.tick, env.load) == (5, [[0]])
    # There is room for one more; and what is carried can be handed over.
    assert sorted(seen.actions["Task"].actee_ids) == [("Item", 1), ("Station", 0)]
    seen = env.act(task(0, "Station", 0))
    assert (env.tick, env.battery, seen.reward) == (18, [400 - 18], pytest.approx(0.1))
    assert (env.handed, env.complete) == (1, 1)
    assert sum(item[2] == WAITING for item in env.item) == 2  # another order has come


def test_a_battery_that_would_not_last_leaves_only_the_charger():
    """Longest way 13 and more: with less than the way and two of them an item is not offered."""
    env, seen, _ = one_robot()
    longest = env.settings.longest
    for battery, offered in ((5 + 2 * longest, True), (4 + 2 * longest, False)):
        state = env.get_state() | {"battery": [battery]}
        seen = env.set_state(state)
        assert (("Item", 0) in seen.actions["Task"].actee_ids) is offered
        assert ("Charger", 0) in seen.actions["Task"].actee_ids  # below half of it
    way = env.layout.ways[env.cell[0], env.chargers[0]]
    seen = env.act(task(0, "Charger", 0))
    assert (env.tick, env.battery) == (way + 40, [400])


def test_robots_wait_for_each_other_and_rings_move_on():
    env = Warehouse(robots=3, **SMALL)
    env.reset()
    number = {tuple(cell): i for i, cell in enumerate(env.cells)}
    # In the aisle that leads up: the one behind cannot overtake, and moves when there is room.
    env.cell = [number[0, 2], number[0, 3], number[2, 0]]
    env.goal = [number[0, 4], -1, -1]
    env._drive()
    assert env.cell[0] == number[0, 2]
    env.goal = [number[0, 4], number[1, 5], -1]
    env._drive()
    assert env.cell[:2] == [number[0, 3], number[0, 4]]
    # Head on along the way across: they change places.
    env.cell[:2] = [number[1, 1], number[2, 1]]
    env.goal = [number[3, 1], number[0, 1], -1]
    env._drive()
    assert env.cell[:2] == [number[2, 1], number[1, 1]]


SETTINGS = [
    {"ticks": 150, "battery": 150, "charge": 5},
    {**SMALL, "robots": (3, 9), "room": 1, "ticks": 90, "lines": (1, 3), "battery": 60},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_compiled_rows_play_the_same_game(settings):
    rows = WarehouseRows(4, seed=3, **settings)
    streams = seeded_streams(3, 4)
    alone = []
    for row in range(4):
        env = Warehouse(**settings)
        env.draw = lambda least, most, row=row: random_int(streams, row, least, most)
        alone.append(env)
    obs, policy = rows.reset(), random_policy(seed=4)
    seen = [env.reset() for env in alone]
    ends = 0
    for _ in range(300):
        actions = policy(obs)
        chosen = actions["Task"].as_array().reshape(-1)
        for row in range(4):
            for name, own in obs.features.items():
                expected = np.array(seen[row].features[name], np.float32).reshape(-1, own.size2())
                assert_allclose(own[row].as_array(), expected, rtol=1e-6, err_msg=name)
        obs = rows.act(actions)
        for row, env in enumerate(alone):
            last = seen[row]
            ids = [one for own in last.ids.values() for one in own]
            robot = last.actions["Task"].actor_ids[0]
            seen[row] = env.act(
                {"Task": SelectEntityAction(actors=[robot], actees=[ids[chosen[row]]])}
            )
            assert seen[row].reward == pytest.approx(float(obs.reward[row]))
            assert seen[row].done == obs.done[row]
            # Nobody is where another one is, but at stations and chargers.
            alone_in = [cell for cell in env.cell if cell not in env.shared]
            assert len(set(alone_in)) == len(alone_in)
            assert min(env.battery) >= 0
            if seen[row].done:
                ends += 1
                assert seen[row].metrics["throughput"] == pytest.approx(
                    float(obs.metrics["throughput"][row])
                )
                seen[row] = env.reset()
    assert ends > 4


def test_the_nearest_task_beats_random_play():
    rates = {}
    for name in ("nearest", "random"):
        env = Warehouse(robots=4, ticks=600)
        env.seed(1)
        rng = np.random.default_rng(0)
        seen = env.reset()
        while not seen.done:
            options = seen.actions["Task"].actee_ids
            drawn = options[rng.integers(len(options))]
            robot = seen.actions["Task"].actor_ids[0][1]
            seen = env.act(nearest_task(seen) if name == "nearest" else task(robot, *drawn))
        rates[name] = seen.metrics["throughput"]
    assert rates["nearest"] > 1.2 * rates["random"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"robots": 0}, "invalid parameter robots"),
        ({"stations": 12}, "no room for so many stations"),
        ({"battery": 50}, "does not last"),
        ({"aisles": 1}, "invalid parameter aisles"),
        ({"lines": (3, 2)}, "the smaller one first"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(EnvConfigError, match=message):
        Warehouse(**settings)


def test_what_cannot_be_done_is_refused():
    env, _, _ = one_robot()
    with pytest.raises(ActorError, match="cannot be selected"):
        env.act(task(0, "Station", 0))
    with pytest.raises(StateError):
        env.set_state({"cell": 3})


def test_pictures_show_what_robots_carry():
    rows, policy = WarehouseRows(1, seed=2), random_policy(0)
    rows.interpret()
    obs, orange = rows.reset(), (226, 106, 24)

    def drawn():
        picture = rows.draw_row(0, cell=30)
        assert picture.shape[1:] == (11 * 30, 3), "as wide as four aisles"
        return int((picture[: 13 * 30] == orange).all(2).sum())

    assert drawn() > 0, "items that wait"
    while not any(rows.get_state()[0]["env"]["loaded"]):
        obs = rows.act(policy(obs))
    before = drawn()
    rows._fields["loaded"][:] = 0
    assert drawn() < before
    with pytest.raises(EnvConfigError, match="cell"):
        rows.draw_row(0, cell=1)
