"""Vehicle routing: rules by hand, and the compiled rows against the readable game."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from ragged_envs.errors import EnvConfigError
from ragged_envs.industry.routing_rules import CUSTOMER, usual_capacity
from ragged_envs.industry.vehicle_routing import DEPOT, VehicleRouting
from ragged_envs.industry.vehicle_routing_rows import VehicleRoutingRows

from entity_env import SelectEntityAction
from entity_env.errors import ActorError, StateError
from entity_env.play import random_policy


def go(**targets):
    """``go(v0=3)`` sends vehicle 0 to customer 3, ``v1=DEPOT`` the other one home."""
    actors = [("Vehicle", int(name[1:])) for name in targets]
    actees = [t if t == DEPOT else ("Customer", t) for t in targets.values()]
    return {"Go": SelectEntityAction(actors=actors, actees=actees)}


def square(vehicles=1, capacity=10, demand=(4, 4, 4, 4), known=(0.0,) * 4, closes=(None,) * 4):
    """A depot in the middle of the lower side of a square of side 0.6 and 0.8."""
    env = VehicleRouting(customers=4, vehicles=vehicles, windows=any(closes))
    env.reset()
    state = env.get_state()
    state |= {
        "depot": [0.0, 0.0], "places": [[0.6, 0.0], [0.6, 0.8], [0.0, 0.8], [0.0, 0.4]],
        "demand": list(demand), "capacity": capacity, "load": [capacity] * vehicles,
        "known": list(known), "window": [[0.0, close] for close in closes],
        "at": [[0.0, 0.0]] * vehicles, "stops": [[[0.0, 0.0]]] * vehicles, "state": [0] * 4,
        "scale": 10.0, "now": 0.0, "last": 0.0,
    }  # fmt: skip
    return env, env.set_state(state)


def options(seen):
    mask = seen.actions["Go"]
    return [
        [
            actee if actee == DEPOT else actee[1]
            for actee, ok in zip(mask.actee_ids, row, strict=True)
            if ok
        ]
        for row in mask.mask
    ]


def test_a_tour_by_hand():
    """0 -> customer 0 (0.6) -> 1 (0.8): 8 of 10 are gone, and it drives home by itself (1.0).

    Then 2 (0.8) and 3 (0.4), and home (0.4): 4.0 in all, and the reward -10 * 4 / 10.
    """
    env, seen = square()
    assert options(seen) == [[0, 1, 2, 3]]  # the depot is where it is
    seen = env.act(go(v0=0))
    assert options(seen) == [[DEPOT, 1, 2, 3]]
    assert seen.reward == pytest.approx(-0.6)
    seen = env.act(go(v0=1))
    assert env.driven == pytest.approx(0.6 + 0.8 + 1.0)
    assert options(seen) == [[2, 3]]
    env.act(go(v0=2))
    seen = env.act(go(v0=3))
    assert seen.done
    assert seen.metrics == {"cost": pytest.approx(4.0), "missed": 0}


def test_two_that_choose_the_same_customer():
    """The first goes; the other is asked again at the same moment."""
    env, seen = square(vehicles=2)
    assert options(seen) == [[0, 1, 2, 3]] * 2
    seen = env.act(go(v0=0, v1=0))
    assert env.now == 0
    assert seen.actions["Go"].actor_ids == [("Vehicle", 1)]
    assert options(seen) == [[DEPOT, 1, 2, 3]]  # to wait is possible: another one drives
    seen = env.act(go(v1=DEPOT))
    assert env.now == pytest.approx(0.6)
    assert [actor[1] for actor in seen.actions["Go"].actor_ids] == [0, 1]
    assert env.driven == pytest.approx(0.6)


def test_windows_that_cannot_be_reached_are_closed_and_missed_customers_cost_two():
    """Customer 1 is 1.0 away and closes at 0.9; 2 is 0.8 away and closes at 0.8."""
    env, seen = square(closes=(5.0, 0.9, 0.8, 5.0))
    assert options(seen) == [[0, 2, 3]]
    seen = env.act(go(v0=3))  # 0.4; then 2 is 0.4 away
    assert options(seen) == [[DEPOT, 0, 2]]
    seen = env.act(go(v0=0))  # sqrt(0.36 + 0.16)
    assert seen.done
    way = 0.4 + math.hypot(0.6, 0.4) + 0.6
    assert seen.metrics == {"cost": pytest.approx(way + 4), "missed": 2}


def test_requests_are_not_seen_before_they_come():
    env, seen = square(known=(0.0, 3.0, 3.0, 3.0))
    assert options(seen) == [[0]]
    assert seen.features["Day"][0][3] == pytest.approx(0.3)
    seen = env.act(go(v0=0))  # home by itself, and then there is nothing to do until 3
    assert env.now == 3
    assert env.driven == pytest.approx(1.2)
    assert options(seen) == [[1, 2, 3]]


SETTINGS = [
    {"customers": (1, 12)},
    {"customers": (3, 12), "vehicles": (1, 4), "windows": True, "requests": 0.5},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_compiled_rows_play_the_same_game(settings):
    rows = VehicleRoutingRows(5, seed=3, **settings)
    obs, policy = rows.reset(), random_policy(seed=4)
    alone = [VehicleRouting(**settings) for _ in range(5)]
    seen = [env.set_state(rows.as_alone(row)) for row, env in enumerate(alone)]
    for _ in range(200):
        actions = policy(obs)
        for row in range(5):
            for name, own in obs.features.items():
                expected = np.array(seen[row].features[name], np.float32).reshape(-1, own.size2())
                assert_allclose(own[row].as_array(), expected, rtol=1e-5, atol=1e-6)
        each, at = [], 0
        chosen = actions["Go"].as_array().reshape(-1)
        for row in range(5):
            asked = seen[row].actions["Go"].actor_ids
            assert obs.action_masks["Go"].actors.size1(row) == len(asked)
            ids = [*seen[row].ids["Vehicle"], DEPOT, *seen[row].ids["Customer"]]
            actees = [ids[i] for i in chosen[at : at + len(asked)]]
            at += len(asked)
            each.append({"Go": SelectEntityAction(actors=list(asked), actees=actees)})
        obs = rows.act(actions)
        for row, env in enumerate(alone):
            seen[row] = env.act(each[row])
            assert seen[row].done == obs.done[row]
            assert seen[row].reward == pytest.approx(float(obs.reward[row]), abs=1e-5)
            if seen[row].done:
                for name, value in seen[row].metrics.items():
                    assert value == pytest.approx(float(obs.metrics[name][row]))
                seen[row] = env.set_state(rows.as_alone(row))


def test_rewards_add_up_to_the_cost():
    env = VehicleRouting(customers=9, vehicles=2, windows=True)
    env.seed(1)
    seen, total = env.reset(), 0.0
    while not seen.done:
        ids = [option[0] for option in options(seen)]
        actors = seen.actions["Go"].actor_ids
        actees = [t if t == DEPOT else ("Customer", t) for t in ids]
        seen = env.act({"Go": SelectEntityAction(actors=actors, actees=actees)})
        total += seen.reward
    assert total == pytest.approx(-10 * seen.metrics["cost"] / env.scale)


def test_given_instances_are_played_again_and_again():
    rows = VehicleRoutingRows(2, customers=3, copies=2)
    places = np.arange(12).reshape(2, 3, 2) / 12
    rows.put_instances(places, np.full((2, 3), 5), np.zeros((2, 2)))
    obs, policy = rows.reset(), random_policy(0)
    x = CUSTOMER.index("x")
    ends = 0
    while ends < 4:
        obs = rows.act(policy(obs))
        ends += int(obs.done.sum())
    obs = rows.reset()
    assert_allclose(obs.features["Customer"][1].as_array()[:, x], places[1, :, 0], rtol=1e-6)


def test_the_usual_capacities():
    assert [usual_capacity(n) for n in (10, 20, 50, 75, 100, 500)] == [20, 30, 40, 45, 50, 50]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"customers": 0}, "invalid parameter customers"),
        ({"capacity": 5}, "too small for a customer"),
        ({"requests": 1.5}, "invalid parameter requests"),
        ({"vehicles": (3, 2)}, "the smaller one first"),
        ({"day": 0}, "invalid parameter day"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(EnvConfigError, match=message):
        VehicleRouting(**settings)


def test_a_vehicle_cannot_go_where_it_cannot():
    env, _ = square()
    with pytest.raises(ActorError, match="cannot go there"):
        env.act(go(v0=DEPOT))
    with pytest.raises(ActorError, match="not taken by the vehicles that are asked"):
        env.act(go(v1=0))
    with pytest.raises(StateError):
        env.set_state({"depot": 3})
