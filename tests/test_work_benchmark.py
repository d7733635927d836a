"""Players of the tables of real work: the assignment of robots, and streams that all play."""

import numpy as np
import pytest
from ragged_envs.industry.job_shop import JobShopRows
from ragged_envs.industry.routing_scripts import savings
from ragged_envs.industry.vehicle_routing import VehicleRoutingRows, usual_capacity
from ragged_envs.industry.warehouse import Warehouse

from entity_env import Observation, SelectEntityActionMask


def test_robots_are_assigned_at_the_least_total_cost():
    """Two robots, items A and B on the ways of both. The asked robot is nearer to A, 2 against 3.

    The other one is at A: 0, and 2 from B. A for the asked one costs 2 + 2, B 3 + 0: it takes B.
    """
    pytest.importorskip("scipy")
    from benchmarks.work.warehouse import hungarian

    env = Warehouse(robots=2)
    seen = env.reset()
    item = seen.features["Item"][0]
    ids = {**seen.ids, "Robot": [("Robot", 0), ("Robot", 1)], "Item": [("Item", 0), ("Item", 1)]}
    # Positions are in tens of cells, ways in twenties: 4 tens are 2 on the scale of ways.
    robots = [[0, 0, 1, 0, 1, 1, 0], [9, 0, 0, 0, 1, 1, 0]]
    items = [[9, 0, 2.0, *item[3:]], [9, 4, 3.0, *item[3:]]]
    assert len(seen.features["Robot"][0]) == 7
    features = {**seen.features, "Robot": robots, "Item": items}
    mask = SelectEntityActionMask(actor_ids=[("Robot", 0)], actee_ids=[("Item", 0), ("Item", 1)])
    seen = Observation(features=features, ids=ids, actions={"Task": mask})
    assert hungarian(seen)["Task"].actees == [("Item", 1)]
    robots[1][4] = 0  # the other one has no room
    assert hungarian(seen)["Task"].actees == [("Item", 0)]


def test_the_symmetries_of_the_square():
    """Eight pictures of a point, and distances to another one that stay."""
    from benchmarks.work.routing import turned

    points = np.array([[0.1, 0.3], [0.5, 0.9]])
    seen = [turned(points, symmetry) for symmetry in range(8)]
    assert {tuple(np.round(own[0], 6)) for own in seen} == {
        (x, y) for a, b in ((0.1, 0.3), (0.3, 0.1)) for x in (a, 1 - a) for y in (b, 1 - b)
    }
    for own in seen:
        assert np.hypot(*(own[0] - own[1])) == pytest.approx(np.hypot(0.4, 0.6))


def test_the_reference_of_routing_solves_what_can_be_seen():
    """Two pairs of customers, one on either side of the depot; a vehicle takes two."""
    pytest.importorskip("pyvrp")
    from benchmarks.work.routing import _pyvrp

    places = np.array([[0.1, 0.4], [0.9, 0.6], [0.1, 0.6], [0.9, 0.4]])
    cost = _pyvrp(np.array([0.5, 0.5]), places, np.array([1, 1, 1, 1]), 2, 0.1)
    assert cost == pytest.approx(2 * (2 * np.hypot(0.4, 0.1) + 0.2), abs=1e-3)


def test_the_turns_of_customers_are_those_of_the_savings_algorithm():
    from benchmarks.work.play import values_by
    from benchmarks.work.routing import _savings

    rng = np.random.default_rng(5)
    places, depots, demands = (
        rng.random((3, 14, 2)),
        rng.random((3, 2)),
        rng.integers(1, 10, (3, 14)),
    )
    rows = VehicleRoutingRows(3, customers=14)
    rows.interpret(resets=True)
    rows.put_instances(places, demands, depots)
    each = zip(depots, places, demands, strict=True)
    expected = [_savings(*one, usual_capacity(14)) for one in each]
    assert values_by(savings, rows, "cost") == pytest.approx(expected)


def test_streams_are_the_same_for_every_player():
    settings = {"arrivals": True, "jobs": 6, "machines": 3}
    one, other = (JobShopRows(5, seed=9, **settings) for _ in range(2))
    for rows in (one, other):
        rows.interpret()
        rows.reset()
    states = [[rows.save_game(row) for row in range(5)] for rows in (one, other)]
    assert states[0] == states[1]
    assert len({tuple(np.ravel(state["durations"])) for state in states[0]}) == 5
