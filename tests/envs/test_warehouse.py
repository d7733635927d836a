"""Warehouses: the layout, rules by hand, how episodes begin, and pictures."""

from types import SimpleNamespace

import numpy as np
import pytest
from ragged_envs.industry.warehouse import Warehouse, WarehouseRows, _drive
from ragged_envs.industry.warehouse_rules import WAITING, make_floor_plan
from ragged_envs.industry.warehouse_scripts import nearest_task

from entity_env import SelectEntityAction
from entity_env.errors import ActionError, SettingError, StateError
from entity_env.play import random_policy
from entity_env.rows.jit import interpreted

SMALL = {"aisles": 2, "shelves": 3, "stations": 1, "chargers": 1, "lines": 1, "waiting": 2}


def task(robot, kind, number):
    return {"Task": SelectEntityAction(actors=[("Robot", robot)], actees=[(kind, number)])}


def test_aisles_are_one_way():
    """Two aisles of three cells at x = 0 (up) and x = 4 (down), ways across at y = 1 and 5.

    From the foot of the first aisle (0, 1) to (4, 3): up 4, across 4, down 2. Back to (0, 1): down
    2, across 4.
    """
    plan = make_floor_plan(2, 3, 1, 1)
    number = {tuple(cell): i for i, cell in enumerate(plan.cells.tolist())}
    assert (plan.width, plan.height, len(number)) == (5, 7, 5 + 5 + 6 + 2)
    assert plan.ways[number[0, 1], number[4, 3]] == 4 + 4 + 2
    assert plan.ways[number[4, 3], number[0, 1]] == 2 + 4
    assert sorted(plan.cells[plan.shelves].tolist()) == [[x, y] for x in (0, 4) for y in (2, 3, 4)]
    assert plan.cells[plan.stations].tolist() == [[2, 0]]
    assert plan.cells[plan.chargers].tolist() == [[2, 6]]


def one_robot():
    """One robot at the station (2, 0), an item at (0, 3) and one at (4, 2)."""
    env = Warehouse(robots=1, **SMALL)
    env.reset()
    number = numbers(env)
    item = [[number[0, 3], 0, WAITING], [number[4, 2], 1, WAITING]]
    return env, changed(env, item=item)


def numbers(env):
    """Return the number of the cell at (x, y)."""
    return {tuple(cell): i for i, cell in enumerate(env._rows.plan.cells.tolist())}


def changed(env, **fields):
    """Let the game go on from its state with other fields."""
    state = env.get_state()
    state["rows"][0]["env"] |= fields
    return env.set_state(state)


def options(env, seen):
    """Return the tasks of the robot that is asked; items by their numbers, not their places."""
    shown = env.fields()["shown"]
    actees = seen.actions["Task"].actee_ids
    return [(kind, shown[i] if kind == "Item" else i) for kind, i in actees]


def test_a_task_by_hand():
    """(2, 0) to (0, 3): up 1, left 2, up 2: 5 ticks; from there over the top to the station:

    up 2, right 4, down 4 to (4, 1), left 2, down 1: 13. In all 18 ticks and 18 of the battery.
    """
    env, seen = one_robot()
    assert seen.features["Item"][0][2] == pytest.approx(5 / 20)
    assert seen.features["Item"][0][3] == pytest.approx(13 / 20)
    assert options(env, seen) == [("Item", 0), ("Item", 1)]
    seen = env.act(task(0, "Item", 0))
    own = env.fields()
    assert (own["tick"], own["loaded"], own["load"][0][0]) == (5, [1], 0)
    # There is room for one more; and what is carried can be handed over.
    assert options(env, seen) == [("Item", 1), ("Station", 0)]
    seen = env.act(task(0, "Station", 0))
    own = env.fields()
    assert (own["tick"], own["battery"], seen.reward) == (18, [400 - 18], pytest.approx(0.1))
    assert (own["handed"], own["orders"]) == (1, 1)
    assert sum(item[2] == WAITING for item in own["item"]) == 2  # another order has come


def test_a_battery_that_would_not_last_leaves_only_the_charger():
    """Longest way 13 and more: with less than the way and two of them an item is not offered."""
    env, seen = one_robot()
    plan, longest = env._rows.plan, env.fields()["longest"]
    for battery, offered in ((5 + 2 * longest, True), (4 + 2 * longest, False)):
        seen = changed(env, battery=[battery])
        assert (("Item", 0) in options(env, seen)) is offered
        assert ("Charger", 0) in options(env, seen)  # below half of it
    way = plan.ways[plan.stations[0], plan.chargers[0]]
    env.act(task(0, "Charger", 0))
    assert (env.fields()["tick"], env.fields()["battery"]) == (way + 40, [400])


def test_robots_wait_for_each_other_and_make_room():
    env = Warehouse(robots=4, **SMALL)
    env.reset()
    number, rows = numbers(env), env._rows
    g = SimpleNamespace(**rows._fields, **rows._game.settings)

    def driven(cells, goals):
        """Return the cells of robots after one tick."""
        g.cell[0] = number[2, 0]  # whoever is not named stands at the station
        g.cell[0, : len(cells)] = [number[cell] for cell in cells]
        g.goal[0], g.since[0] = -1, 0
        g.goal[0, : len(goals)] = [number[goal] if goal else -1 for goal in goals]
        interpreted(_drive)(g, 0)
        at = {i: cell for cell, i in number.items()}
        return [at[i] for i in g.cell[0, : len(cells)].tolist()]

    # In the aisle that leads up: one cannot overtake, and one without a goal makes room.
    assert driven([(0, 2), (0, 3)], [(0, 4), (1, 5)]) == [(0, 3), (0, 4)]
    assert driven([(0, 2), (0, 3)], [(0, 4)]) == [(0, 3), (0, 4)]
    assert driven([(0, 2), (0, 3), (0, 4)], [(0, 4)]) == [(0, 3), (0, 4), (0, 5)]
    # Head on along the way across: the second one goes back, to the right, the first of equals.
    assert driven([(1, 1), (2, 1)], [(3, 1), (0, 1)]) == [(2, 1), (3, 1)]
    # Through the door of the station: whoever comes in first, the other one waits inside.
    assert driven([(2, 1), (2, 0)], [(2, 0), (0, 1)]) == [(2, 0), (2, 0)]
    # Three behind each other and one that comes: all of them go back.
    assert driven([(0, 1), (1, 1), (2, 1), (3, 1)], [(4, 1), (0, 1), (0, 1), (0, 1)]) == [
        (1, 1), (2, 1), (3, 1), (4, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [2, 8, 12])
def test_nobody_drives_through_another_one_and_all_arrive(count):
    """Robots go from one goal that is drawn to the next, in a warehouse of 18 cells."""
    env = Warehouse(robots=count, **SMALL)
    env.reset()
    rows, rng = env._rows, np.random.default_rng(count)
    g = SimpleNamespace(**rows._fields, **rows._game.settings)
    drive, arrived = interpreted(_drive), np.zeros(count, int)
    goals = [*rows.plan.shelves, *rows.plan.stations, *rows.plan.chargers]
    for _ in range(300):
        g.goal[0] = np.where(g.goal[0] < 0, rng.choice(goals, count), g.goal[0])
        before = g.cell[0].copy()
        drive(g, 0)
        cells = g.cell[0]
        for one in range(count):
            assert cells[one] == before[one] or cells[one] in rows.plan.next[before[one]]
            for other in range(one):
                assert cells[one] != cells[other] or g.shared[0, cells[one]]
                ways = (before[one], cells[one]), (cells[other], before[other])
                assert ways[0] != ways[1] or cells[one] == before[one]
        arrived += cells == g.goal[0]
        g.goal[0][cells == g.goal[0]] = -1
    assert arrived.min() >= 25


SETTINGS = [
    {"ticks": 150, "battery": 150, "charge": 5},
    {**SMALL, "robots": (3, 9), "room": 1, "ticks": 90, "lines": (1, 3), "battery": 60},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_robots_are_never_in_one_cell_and_episodes_begin_anew(settings):
    rows, policy = WarehouseRows(2, seed=3, **settings), random_policy(seed=4)
    rows.interpret()
    own, given = rows._fields, rows._game.settings
    homes, ends = [*rows.plan.stations, *rows.plan.chargers], 0
    while ends < 4:
        obs = rows.reset()
        for row in range(2):
            count = own["robots"][row]
            begin = [homes[i % len(homes)] for i in range(count)]
            assert own["cell"][row, :count].tolist() == begin
            assert (own["battery"][row, :count] == given["full"]).all()
            assert obs.features["Robot"][row].as_array()[:, 3].tolist() == [0] * count
            assert (own["goal"][row, :count] == -1).all()
            assert (own["charged"][row, :count] == -1).all()
            assert own["tick"][row] == own["handed"][row] == own["orders"][row] == 0
            lines = own["order"][row, :, 1]
            assert given["least_lines"] <= lines.min() <= lines.max() <= given["most_lines"]
            assert (own["item"][row, :, 2] == WAITING).sum() == lines.sum()
            assert not own["order"][row, :, 2].any()
        while not obs.done.any():
            obs = rows.act(policy(obs))
            for row in range(2):
                cells = own["cell"][row, : own["robots"][row]]
                inside = cells[own["shared"][row, cells] == 0]
                assert len(set(inside.tolist())) == len(inside)
                assert own["battery"][row, : len(cells)].min() >= 0
        ends += obs.done.sum()


def test_the_nearest_task_beats_random_play():
    rates = {}
    for name in ("nearest", "random"):
        env = Warehouse(robots=4, ticks=600)
        env.seed(1)
        rng = np.random.default_rng(0)
        seen = env.reset()
        while not seen.done:
            actees = seen.actions["Task"].actee_ids
            drawn = actees[rng.integers(len(actees))]
            robot = seen.actions["Task"].actor_ids[0][1]
            seen = env.act(nearest_task(seen) if name == "nearest" else task(robot, *drawn))
        rates[name] = seen.metrics["throughput"]
    assert rates["nearest"] > 1.2 * rates["random"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"robots": 0}, "invalid robots"),
        ({"stations": 12}, "no room for so many stations"),
        ({"battery": 50}, "does not last"),
        ({"aisles": 1}, "invalid aisles"),
        ({"lines": (3, 2)}, "the smaller one first"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(SettingError, match=message):
        Warehouse(**settings)


def test_what_cannot_be_done_is_refused():
    env, _ = one_robot()
    with pytest.raises(ActionError, match="cannot be selected"):
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
    with pytest.raises(SettingError, match="cell"):
        rows.draw_row(0, cell=1)
