"""Vehicle routing: rules by hand, instances from files."""

import json
import math
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from ragged_envs.industry.routing_instances import RoutingWarning, find_instance
from ragged_envs.industry.routing_scripts import nearest_customer, savings
from ragged_envs.industry.vehicle_routing import (
    CUSTOMER,
    VehicleRouting,
    VehicleRoutingRows,
    usual_capacity,
)

from entity_env import SelectEntityAction
from entity_env.batching.ragged import RaggedBufferI64
from entity_env.errors import ActionError, EntityEnvError, SettingError, StateError
from entity_env.play import random_policy

DEPOT = "depot"


def go(env, **targets):
    """``go(env, v0=3)`` sends vehicle 0 to customer 3, ``v1=DEPOT`` the other one home."""
    here = env.fields()["here"]
    actors = [("Vehicle", int(name[1:])) for name in targets]
    actees = [("Depot", 0) if t == DEPOT else ("Customer", here.index(t)) for t in targets.values()]
    return {"Go": SelectEntityAction(actors=actors, actees=actees)}


def square(vehicles=1, demand=(4, 4, 4, 4), known=(0.0,) * 4, closes=(None,) * 4):
    """A depot in a corner of a rectangle of 0.6 by 0.8; vehicles carry 10."""
    env = VehicleRouting(customers=4, vehicles=vehicles, capacity=10, windows=any(closes))
    places = np.array([[[0.6, 0.0], [0.6, 0.8], [0.0, 0.8], [0.0, 0.4]]])
    windows = np.array([[[0.0, close or math.inf] for close in closes]])
    env._rows.put_instances(
        places, np.array([demand]), np.zeros((1, 2)), known=np.array([known]), windows=windows
    )
    return env, env.reset()


def options(env, seen):
    mask, here = seen.actions["Go"], env.fields()["here"]
    named = [DEPOT if kind == "Depot" else here[i] for kind, i in mask.actee_ids]
    return [
        sorted_options(own for own, ok in zip(named, row, strict=True) if ok) for row in mask.mask
    ]


def sorted_options(own):
    return sorted(own, key=lambda one: -1 if one == DEPOT else one)


def test_a_tour_by_hand():
    """0 -> customer 0 (0.6) -> 1 (0.8): 8 of 10 are gone, and it drives home by itself (1.0).

    Then 2 (0.8) and 3 (0.4), and home (0.4): 4.0 in all. The estimate of the cost is 0.7 * sqrt(4)
    + 2 * (0.6 + 1.0 + 0.8 + 0.4) * 4 / 10 = 3.64, and the first reward -10 * 0.6 / 3.64.
    """
    env, seen = square()
    assert options(env, seen) == [[0, 1, 2, 3]]  # the depot is where it is
    seen = env.act(go(env, v0=0))
    assert options(env, seen) == [[DEPOT, 1, 2, 3]]
    assert seen.reward == pytest.approx(-6 / 3.64)
    seen = env.act(go(env, v0=1))
    assert env.fields()["driven"] == pytest.approx(0.6 + 0.8 + 1.0)
    assert options(env, seen) == [[2, 3]]
    env.act(go(env, v0=2))
    seen = env.act(go(env, v0=3))
    assert seen.done
    assert seen.metrics == {"cost": pytest.approx(4.0), "missed": 0}


def test_two_that_choose_the_same_customer():
    """The first goes; the other is asked again at the same moment, and may have waited before."""
    env, seen = square(vehicles=2)
    assert options(env, seen) == [[0, 1, 2, 3], [DEPOT, 0, 1, 2, 3]]
    seen = env.act(go(env, v0=0, v1=0))
    assert env.fields()["now"] == 0
    assert seen.actions["Go"].actor_ids == [("Vehicle", 1)]
    assert options(env, seen) == [[DEPOT, 1, 2, 3]]  # to wait is possible: another one drives
    seen = env.act(go(env, v1=DEPOT))
    assert env.fields()["now"] == pytest.approx(0.6)
    assert [actor[1] for actor in seen.actions["Go"].actor_ids] == [0, 1]
    assert env.fields()["driven"] == pytest.approx(0.6)


def test_windows_that_cannot_be_reached_are_closed_and_missed_customers_cost_two():
    """Customer 1 is 1.0 away and closes at 0.9; 2 is 0.8 away and closes at 0.8."""
    env, seen = square(closes=(5.0, 0.9, 0.8, 5.0))
    assert options(env, seen) == [[0, 2, 3]]
    seen = env.act(go(env, v0=3))  # 0.4; then 2 is 0.4 away
    assert options(env, seen) == [[DEPOT, 0, 2]]
    seen = env.act(go(env, v0=0))  # sqrt(0.36 + 0.16)
    assert seen.done
    way = 0.4 + math.hypot(0.6, 0.4) + 0.6
    assert seen.metrics == {"cost": pytest.approx(way + 4), "missed": 2}


def test_requests_are_not_seen_before_they_come():
    env, seen = square(known=(0.0, 3.0, 3.0, 3.0))
    assert options(env, seen) == [[0]]
    assert seen.features["Day"][0][3] == pytest.approx(0.3)
    seen = env.act(go(env, v0=0))  # home by itself, and then there is nothing to do until 3
    assert env.fields()["now"] == 3
    assert env.fields()["driven"] == pytest.approx(1.2)
    assert options(env, seen) == [[1, 2, 3]]


def test_rewards_add_up_to_the_cost():
    env = VehicleRouting(customers=9, vehicles=2, windows=True)
    env.seed(1)
    seen, total = env.reset(), 0.0
    while not seen.done:
        seen = env.act(nearest_customer(seen))
        total += seen.reward
    assert total == pytest.approx(-10 * seen.metrics["cost"] / env.fields()["scale"])


def test_given_instances_are_played_again_and_again():
    rows = VehicleRoutingRows(2, customers=3, copies=2)
    places = np.arange(12).reshape(2, 3, 2) / 12
    rows.put_instances(places, np.full((2, 3), 5), np.zeros((2, 2)))
    rows.interpret()
    obs, policy = rows.reset(), random_policy(0)
    x = CUSTOMER.index("x")
    ends = 0
    while ends < 4:
        obs = rows.reset() if obs.done.any() else rows.act(policy(obs))
        ends += int(obs.done.sum())
    obs = rows.reset()
    assert_allclose(obs.features["Customer"][1].as_array()[:, x], places[1, :, 0], rtol=1e-6)


def test_copies_begin_at_the_customers_near_to_the_depot():
    """Ways of 0.6, 1.0, 0.8, 0.4 from the depot: customer 3 is nearest, then 0, 2, 1; 3 again.

    The first reward pays that way, too.
    """
    rows = VehicleRoutingRows(6, customers=4, capacity=10, copies=6, starts=True)
    places = np.array([[[0.6, 0.0], [0.6, 0.8], [0.0, 0.8], [0.0, 0.4]]])
    rows.put_instances(places, np.array([[4, 4, 4, 4]]), np.zeros((1, 2)))
    rows.interpret()
    obs = rows.reset()
    assert [rows.tours(row) for row in range(6)] == [
        [[] if stop is None else [[stop]]] for stop in (None, "4", "1", "3", "2", "4")
    ]
    # Behind the vehicle and the depot: the first customer who is left.
    obs = rows.act({"Go": RaggedBufferI64.from_array(np.full((6, 1, 1), 2))})
    assert [rows.tours(row)[0][0][-1] for row in range(6)] == ["1", "1", "2", "1", "1", "1"]
    # Two customers fill a vehicle, which then drives home.
    ways = (0.6, 0.4 + math.hypot(0.6, 0.4) + 0.6, 0.6 + 0.8 + 1.0)
    assert_allclose(obs.reward[:3], [-10 * way / 3.64 for way in ways], rtol=1e-6)


def turns(env, seen):
    """Return the customers whose turn it is, and the depot."""
    depot = [DEPOT] if seen.features["Depot"][0][-1] else []
    rows = zip(env.fields()["here"], seen.features["Customer"], strict=False)
    return depot + [i for i, row in rows if row[-1]]


def test_whose_turn_it_is_by_the_savings():
    """Customers 1 and 2 save 1.0 + 0.8 - 0.6 = 1.2, then 0 and 1, 2 and 3 both 0.8.

    Ten fit: 1, 2 and 3 are a tour of nine, for 0 with five a vehicle drives alone.
    """
    env, seen = square(demand=(5, 3, 3, 3))
    assert turns(env, seen) == [0, 1, 3]
    seen = env.act(go(env, v0=0))
    assert turns(env, seen) == [DEPOT]
    seen = env.act(go(env, v0=DEPOT))
    assert turns(env, seen) == [1, 3]
    seen = env.act(go(env, v0=3))
    assert turns(env, seen) == [2]
    assert savings(seen)["Go"].actees == [("Customer", 1)]  # 1 and 2 are left


def test_the_usual_capacities():
    assert [usual_capacity(n) for n in (10, 20, 50, 75, 100, 500)] == [20, 30, 40, 45, 50, 50]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"customers": 0}, "invalid customers"),
        ({"capacity": 5}, "too small for a customer"),
        ({"requests": 1.5}, "requests is out of range"),
        ({"vehicles": (3, 2)}, "the smaller one first"),
        ({"day": 0}, "day is out of range"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(SettingError, match=message):
        VehicleRouting(**settings)


def test_a_vehicle_cannot_go_where_it_cannot():
    env, _ = square()
    with pytest.raises(ActionError, match="cannot be selected"):
        env.act({"Go": SelectEntityAction(actors=[("Vehicle", 0)], actees=[("Depot", 0)])})
    with pytest.raises(EntityEnvError):
        env.act(go(env, v1=0))


# ---- instances from files ------------------------------------------------------------------------

VRP = """NAME : three
COMMENT : (three places beside a depot)
TYPE : CVRP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 10
NODE_COORD_SECTION
1 0 0
2 30 40
3 0 10.5
4 -20 0
DEMAND_SECTION
1 0
2 5
3 4
4 6
DEPOT_SECTION
 1
 -1
EOF
"""
TABLE = """name,x,y,demand,opens,closes,service
yard,0,0,0,0,110,0
Ann,30,40,5,0,60,5
Bob,0,10.5,4,70,90,1
"""
SOLOMON = """S3

VEHICLE
NUMBER     CAPACITY
  2         200

CUSTOMER
CUST NO.  XCOORD.   YCOORD.    DEMAND   READY TIME  DUE DATE   SERVICE   TIME

    0      0         0          0          0       100          0
    1      10        11         10         20       50         10
    2      -4        0          20         0        90         10
"""


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def play(env, *stops):
    seen = env.reset()
    for stop in stops:
        seen = env.act(go(env, v0=stop))
    return seen


def test_distances_of_cvrplib_are_whole_numbers(tmp_path):
    """0 -> 1: 50; 1 -> 2: sqrt(30^2 + 29.5^2) = 42.07, 42; home 10.5, 11: 103. 0 -> 3 -> 0: 40."""
    env = VehicleRouting(instance=write(tmp_path, "three.vrp", VRP))
    seen = play(env, 0, 1, 2)
    assert seen.done
    assert seen.metrics == {"cost": 143.0, "missed": 0.0}
    assert env.tours() == [[["1", "2"], ["3"]]]
    places = np.asarray(env.reset().features["Customer"])[:, :2]
    assert (places.min(), places.max()) == (0, 1), "in the unit square"
    assert env.render().shape[2] == 3


@pytest.mark.parametrize(
    ("form", "listed"),
    [
        ("FULL_MATRIX", "0 7 8 9 7 0 5 4 8 5 0 3 9 4 3 0"),
        ("LOWER_ROW", "7 8 5 9 4 3"),
        ("UPPER_COL", "7 8 5 9 4 3"),
        ("UPPER_ROW", "7 8 9 5 4 3"),
        ("LOWER_COL", "7 8 9 5 4 3"),
        ("LOWER_DIAG_ROW", "0 7 0 8 5 0 9 4 3 0"),
        ("UPPER_DIAG_COL", "0 7 0 8 5 0 9 4 3 0"),
        ("UPPER_DIAG_ROW", "0 7 8 9 0 5 4 0 3 0"),
        ("LOWER_DIAG_COL", "0 7 8 9 0 5 4 0 3 0"),
    ],
)
def test_listed_distances(tmp_path, form, listed):
    head, rest = VRP.split("NODE_COORD_SECTION")
    head = head.replace("EUC_2D", f"EXPLICIT\nEDGE_WEIGHT_FORMAT: {form}")
    text = f"{head}EDGE_WEIGHT_SECTION\n{listed}\nDEMAND_SECTION{rest.split('DEMAND_SECTION')[1]}"
    env = VehicleRouting(instance=write(tmp_path, "listed.vrp", text))
    assert play(env, 0, 1, 2).metrics["cost"] == 7 + 5 + 8 + 2 * 9
    with pytest.raises(SettingError, match="EDGE_WEIGHT_SECTION has the wrong length"):
        find_instance(write(tmp_path, "short.vrp", text.replace(listed, listed[:-2])))


def test_a_table_of_ones_own(tmp_path):
    """Ann is 50 away, served from 50 to 55; Bob is 42.07 on, and 97.07 is too late."""
    path = write(tmp_path, "mine.CSV", TABLE)
    env = VehicleRouting(instance=path, capacity=9)
    seen = env.reset()
    assert options(env, seen) == [[0, 1]]
    seen = play(env, 0)
    assert seen.done
    assert seen.metrics == {"cost": pytest.approx(100 + 2 * 40), "missed": 1}  # twice the extent
    assert env.tours() == [[["Ann"]]]
    late = TABLE.replace("70,90,1", "70,99,1")  # 99 + 1 + 10.5 is behind 110
    assert find_instance(write(tmp_path, "late.csv", late), 9).windows[1].tolist() == [70, 98.5]
    with pytest.raises(SettingError, match=r"mine.CSV has no capacity of a vehicle"):
        find_instance(path)


def test_solomons_form(tmp_path):
    """sqrt(221) = 14.86, cut off to 14.8; served from 20 to 30. To 2: sqrt(317) = 17.80; 4 home."""
    path = write(tmp_path, "s3.txt", SOLOMON)
    env = VehicleRouting(instance=path, vehicles=1)
    play(env, 0)
    assert env.fields()["now"] == 30
    seen = env.act(go(env, v0=1))
    assert seen.metrics == {"cost": pytest.approx(14.8 + 17.8 + 4), "missed": 0}
    assert find_instance(path).vehicles == 2


@pytest.mark.parametrize(
    "word", [".5", "-.25", "1e-005", "1.5E+003", "0.1000000000000000055511151", "1_0"]
)
def test_numbers_as_python_writes_them(tmp_path, word):
    table = f"x,y,demand,service\n0,0,0,0\n{word},1,2,0.50\n"
    assert find_instance(write(tmp_path, "a.csv", table), 9).places[0, 0] == float(word)
    kept = {
        "file": "b.txt",
        "text": SOLOMON.replace("1      10 ", f"1      {word} ").replace(" 100 ", " 9e5 "),
    }
    assert find_instance(kept).places[0, 0] == float(word)
    listed = VRP.replace("3 0 10.5", f"3 {word} 10.5")
    with pytest.warns(RoutingWarning):
        assert find_instance(write(tmp_path, "c.vrp", listed)).places[1, 0] == float(word)


def test_files_that_are_feasible_exactly_are_feasible(tmp_path):
    """Customers on a line, each served exactly when it closes; the last one reaches the depot."""
    draw = np.random.default_rng(0)
    for number in range(30):
        is_table, now, at = number % 2 == 0, Decimal(0), Decimal(0)
        rows = []
        for _ in range(5):
            step, service, waits = (Decimal(int(n)).scaleb(-1) for n in draw.integers(1, 40, 3))
            at, now = at + step, now + step
            closes = now if draw.random() < 0.5 else now + waits
            now = opens = closes if draw.random() < 0.5 else now
            rows.append((at, 0, 1, opens, closes, service))
            now += service
        rows = [(0, 0, 0, 0, now + at, 0), *rows]
        if is_table:
            lines = ["x,y,demand,opens,closes,service", *(",".join(map(str, row)) for row in rows)]
        else:
            lines = SOLOMON.split("    0      0")[0].splitlines()
            lines += [" ".join(map(str, (i, *row))) for i, row in enumerate(rows)]
        path = write(tmp_path, "a.csv" if is_table else "a.txt", "\n".join(lines))
        env = VehicleRouting(instance=path, capacity=9, vehicles=1)
        seen = play(env, 0)
        while not seen.done:
            seen = env.act(go(env, v0=min(one for one in options(env, seen)[0] if one != DEPOT)))
        assert seen.metrics == {"cost": pytest.approx(float(2 * at)), "missed": 0}, number


def test_one_later_than_the_tolerance_is_refused(tmp_path):
    """Extents of 10 and a day of 30: a millionth of 10 may be missing, no more."""
    table = "x,y,demand,opens,closes,service\n0,0,0,0,30,0\n10,0,1,20.00000{},40,0\n"
    find_instance(write(tmp_path, "a.csv", table.format(9)), 5)
    with pytest.raises(SettingError, match="cannot be served in time"):
        find_instance(
            write(tmp_path, "a.csv", table.format("2").replace("20.000002", "20.00002")), 5
        )


UNIT = VRP.replace("2 30 40", "2 0.3 0.4").replace("10.5", "0.4").replace("-20", "0.3")


@pytest.mark.parametrize(
    ("text", "distances", "cost"),
    [
        (VRP, "usual", 50 + 42 + 11 + 40),
        (VRP, "exact", 50 + math.hypot(30, 29.5) + 10.5 + 40),
        (UNIT, "rounded", 1 + 0 + 0 + 0),  # 0.5 is rounded up, 0.3 and 0.4 down
        (UNIT, "exact", 0.5 + 0.3 + 0.4 + 0.6),
        (SOLOMON, "rounded", 15 + 18 + 4),
        (SOLOMON, "exact", math.hypot(10, 11) + math.hypot(14, 11) + 4),
    ],
)
def test_distances_are_rounded_or_exact(tmp_path, recwarn, text, distances, cost):
    path = write(tmp_path, "a.txt" if text == SOLOMON else "a.vrp", text)
    env = VehicleRouting(instance=path, vehicles=1, distances=distances)
    stops = (0, 1) if text == SOLOMON else (0, 1, 2)
    assert play(env, *stops).metrics["cost"] == pytest.approx(cost)
    assert len(recwarn) == (distances == "usual")  # three.vrp has a coordinate of 10.5


@pytest.mark.parametrize(
    ("text", "is_lossy"),
    [
        (UNIT, True),
        (VRP.replace("10.5", "10"), False),
        (VRP.replace("10.5", "10").replace("(three", "(Best value: 1618.36; three"), True),
        (VRP.replace("10.5", "10").replace("(three", "(Optimal value: 784.0, three"), False),
        (SOLOMON.replace("10        11", "10.5 11"), False),
    ],
)
def test_a_warning_where_rounding_loses_decimals(tmp_path, text, is_lossy):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        find_instance(write(tmp_path, "a.vrp", text))
    assert [one.category for one in caught] == [RoutingWarning] * is_lossy


def test_a_distance_of_so_many_tenths_is_not_rounded_to_one_less(tmp_path):
    """2.3 * 10 = 22.999999999999996 in floating point."""
    path = write(tmp_path, "a.txt", SOLOMON.replace("10        11", "2.3        0"))
    env = VehicleRouting(instance=path, vehicles=1)
    play(env, 0)
    assert env.fields()["driven"] == pytest.approx(2.3)


def test_an_instance_that_is_read_takes_another_capacity_and_no_other_distances(tmp_path):
    read = find_instance(write(tmp_path, "a.vrp", VRP), distances="exact")
    assert find_instance(read) is read
    assert find_instance(read, capacity=9).capacity == 9
    assert VehicleRouting(instance=read, capacity=9).fields()["room"] == 9
    with pytest.raises(SettingError, match="customer 3: more demand than a vehicle carries"):
        find_instance(read, capacity=5)
    for given, distances in ((read, "rounded"), (write(tmp_path, "a.vrp", VRP), "euclidean")):
        with pytest.raises(SettingError, match="distances"):
            find_instance(given, distances=distances)


@pytest.mark.parametrize("form", ["mark", "wide", "carriage returns"])
def test_text_in_other_forms(tmp_path, form):
    for name, text in (("a.vrp", VRP), ("b.csv", TABLE), ("c.txt", SOLOMON)):
        data = {
            "mark": b"\xef\xbb\xbf" + text.encode(),
            "wide": b"\xff\xfe" + text.encode("utf-16-le"),
            "carriage returns": text.replace("\n", "\r").encode(),
        }[form]
        one = find_instance(write(tmp_path, name, data), 30)
        assert len(one.demand) == (3 if name == "a.vrp" else 2)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("a.vrp", "2 5\n", "2 11\n", "line 14: more demand than a vehicle carries"),
        ("a.vrp", "2 5\n", "2 5.5\n", "line 14: demand is '5.5'"),
        ("a.vrp", "2 5\n", "2 -5\n", "line 14: demand is '-5'"),
        ("a.vrp", "2 5\n", "", "DEMAND_SECTION has the wrong length"),
        ("a.vrp", "2 5\n", "3 5\n", "line 15: no number of a place"),
        ("a.vrp", "2 30 40", "2 30", "line 9: the wrong number of values"),
        ("a.vrp", "2 30 40", "2 nan 40", "line 9: coordinate is 'nan'"),
        ("a.vrp", "2 30 40", "2 1e99 40", "line 9: coordinate is '1e99'"),
        ("a.vrp", "DIMENSION : 4", "DIMENSION : 999999999", "line 4: DIMENSION is '999999999'"),
        ("a.vrp", "DIMENSION : 4", "DIMENSION : 6000", "line 4: too many places"),
        ("a.vrp", "DIMENSION : 4", "DIMENSION : 1", "line 4: DIMENSION is '1'"),
        ("a.vrp", "EUC_2D", "GEO", "line 5: EDGE_WEIGHT_TYPE is 'GEO'"),
        ("a.vrp", "CVRP\n", "ACVRP\n", "line 3: TYPE is 'ACVRP'"),
        ("a.vrp", "CAPACITY : 10", "CAPACITY : ten", "line 6: CAPACITY is 'ten'"),
        ("a.vrp", "CAPACITY : 10", "DISTANCE : 10", "line 6: 'DISTANCE' is not known"),
        ("a.vrp", "CAPACITY : 10\n", "", "no CAPACITY"),
        ("a.vrp", " 1\n -1", " 1\n 2\n -1", "line 18: no depot that the game has"),
        ("a.vrp", "1 0\n2 5", "1 3\n2 5", "line 13: the depot has a demand"),
        ("a.vrp", VRP, "", "no TYPE"),
        ("b.csv", "demand", "weight", "line 1: no column 'demand'"),
        ("b.csv", "30,40,5", "30,40,5.5", "line 3: demand is '5.5'"),
        ("b.csv", "30,40,5", "30,40,", "line 3: demand is ''"),
        ("b.csv", "30,40,5", "30,40,51", "line 3: more demand"),
        ("b.csv", "0,60,5", "55,30,5", "line 3: a customer cannot be served in time"),
        ("b.csv", "0,60,5", "0,60", "line 3: the wrong number of values"),
        ("b.csv", "30", "9" * 5000, "line 3"),
        ("b.csv", "30", "9" * 200_000, "line 3"),
        ("b.csv", "\nAnn,30,40,5,0,60,5\nBob,0,10.5,4,70,90,1", "", "no size of an instance"),
        ("c.txt", "  2         200", "  2", "line 5: the wrong number of values"),
        ("c.txt", "10        11         10", "10  11", "line 11: the wrong number of values"),
        ("c.txt", "20       50 ", "20       10 ", "line 11: a customer cannot be served"),
    ],
)
def test_damaged_files_are_refused_with_their_line(tmp_path, name, old, new, message):
    text = {"a.vrp": VRP, "b.csv": TABLE, "c.txt": SOLOMON}[name]
    assert old in text
    path = write(tmp_path, name, text.replace(old, new, 1))
    with pytest.raises(SettingError, match=message) as caught:
        find_instance(path, 9 if name == "b.csv" else None)
    assert len(str(caught.value)) < 1000


def test_instances_and_settings(tmp_path):
    path = write(tmp_path, "three.vrp", VRP)
    with pytest.raises(SettingError, match="requests"):
        VehicleRouting(instance=path, requests=0.5)
    with pytest.raises(SettingError, match="there is no file"):
        VehicleRouting(instance=str(tmp_path / "tree.vrp"))
    kept = VehicleRoutingRows.kept_settings({"instance": path})
    Path(path).unlink()
    rows = VehicleRoutingRows(2, **kept)
    rows.interpret()
    rows.reset()
    state = json.loads(json.dumps(rows.get_state()))
    rows.set_state(state)
    state[1]["env"]["x"][0] += 1
    with pytest.raises(StateError, match="another instance"):
        rows.set_state(state)


_ABOVE = Path(__file__).resolve().parents
PUBLISHED = next(
    (one for above in _ABOVE if (one := above / "shared" / "data" / "routing").is_dir()), _ABOVE[0]
)


@pytest.mark.skipif(_ABOVE[0] == PUBLISHED, reason="no published instances")
@pytest.mark.parametrize(
    "name",
    [
        *("A-n32-k5", "E-n13-k4", "P-n16-k8"),
        *(pytest.param(name, marks=pytest.mark.platforms) for name in ("C101", "X-n101-k25")),
    ],
)
def test_published_routes_cost_what_is_published(name):
    (path,) = {*PUBLISHED.glob(f"{name}.*")} - {PUBLISHED / f"{name}.sol"}
    lines = (PUBLISHED / f"{name}.sol").read_text().splitlines()
    routes = [line.split(":")[1].split() for line in lines if line.startswith("Route")]
    (cost,) = (float(line.split()[1]) for line in lines if line.lower().startswith("cost"))
    env = VehicleRouting(instance=str(path))
    seen, left, own = env.reset(), [*routes], {}
    while not seen.done:
        parked, targets = env.fields()["parked"], {}
        for _, vehicle in seen.actions["Go"].actor_ids:
            if not own.get(vehicle) and left and parked[vehicle]:
                own[vehicle] = left.pop(0)[:]
            targets[f"v{vehicle}"] = int(own[vehicle].pop(0)) - 1 if own.get(vehicle) else DEPOT
        seen = env.act(go(env, **targets))
    assert seen.metrics == {"cost": pytest.approx(cost), "missed": 0}
    assert sorted(tour for each in env.tours() for tour in each) == sorted(routes)
