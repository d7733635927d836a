"""Whole schedules: the best of several tries, half of them backwards."""

from collections import defaultdict

import numpy as np
import pytest
from ragged_envs.industry.job_shop import JobShop, JobShopRows
from ragged_envs.industry.job_shop_instances import Instance, read_table
from ragged_envs.industry.job_shop_schedules import best_schedule, best_tries
from support.rows import interpret_all

from entity_env import SelectEntityAction
from entity_env.batching.ragged import frame
from entity_env.errors import SettingError
from entity_env.play import random_policy

LATECOMER = Instance.of(
    [[100], [10, 10, 100]], [[0], [1, 0, 1]], 2, jobs=["long", "late"], machine_names=["a", "b"]
)
TIMES = np.random.default_rng(3).integers(1, 30, (5, 4, 3))
FLEXIBLE = Instance.of(TIMES.min(2).tolist(), TIMES.argmin(2).tolist(), 3, times=TIMES.tolist())
DRAWN = np.random.default_rng(1)
COUNTS = DRAWN.integers(2, 6, 7)
AGAIN = Instance.of(
    [DRAWN.integers(0, 9, count).tolist() for count in COUNTS],
    [DRAWN.integers(0, 3, count).tolist() for count in COUNTS],
    3,
)
"""Jobs of any length that come back to machines, and operations of no time."""


@pytest.fixture(autouse=True)
def _in_python(monkeypatch):
    interpret_all(monkeypatch, JobShopRows, resets=True)


class First:
    """Whoever is first among the choices."""

    def act_rows(self, obs):
        own = obs.action_masks["Dispatch"]
        first = [
            frame(own.actees, row).ravel()[frame(own.mask, row).ravel()][0]
            for row in range(obs.num_frames)
        ]
        return {"Dispatch": type(own.actees).from_array(np.array(first).reshape(-1, 1, 1))}


class Random:
    """A player at random."""

    def __init__(self, seed):
        self.act_rows = random_policy(seed)


def test_backwards_another_schedule_is_found():
    """Forwards, "long" begins at 0, and "late" is on machine a from 100 to 110, and done at 210.

    Backwards "late" is on b for 100, on a until 110 and on b until 120, and "long" on a from 0 to
    100. Turned around: "late" on b until 10, on a until 20, on b until 120; "long" from 20 to 120.
    """
    turned = LATECOMER.backwards()
    assert turned.durations.tolist() == [[100, 0, 0], [100, 10, 10]]
    assert turned.machines.tolist() == [[0, -1, -1], [1, 0, 1]]
    assert best_schedule(First(), LATECOMER, tries=1).makespan == 210
    found = best_schedule(First(), LATECOMER)
    assert (found.makespan, found.tardiness, found.is_backwards) == (120, 0, True)
    assert [tuple(own.values()) for own in found.operations] == [
        ("late", "b", 0, 10), ("late", "a", 10, 20), ("long", "a", 20, 120), ("late", "b", 20, 120),
    ]  # fmt: skip
    assert found.chart().shape[2] == 3
    shop = JobShop(instance=LATECOMER, backwards=True)
    seen = shop.reset()
    while not seen.done:
        place = seen.actions["Dispatch"].actee_ids[:1]
        seen = shop.act({"Dispatch": SelectEntityAction([("Clock", 0)], place)})
    assert seen.metrics["makespan"] == 120
    assert shop.schedule() == found.operations


@pytest.mark.parametrize("dated", [{"due": [9]}, {"release": [1]}, {}])
def test_only_given_jobs_without_dates_are_scheduled_backwards(dated):
    one = Instance.of([[3]], [[0]], 1, **dated) if dated else None
    with pytest.raises(SettingError, match="backwards"):
        JobShop(instance=one, backwards=True)


def test_several_instances_are_scheduled_as_each_alone():
    """The third one has a release time, and so no schedule backwards: "long" is first, until 110.

    "late" is on a until 120 and on b until 220.
    """
    released = Instance.of([[100], [10, 10, 100]], [[0], [1, 0, 1]], 2, release=[10, 0])
    each = [LATECOMER, AGAIN, released]
    found = best_tries(First(), each, tries=3)
    assert [(one.cost, one.is_backwards) for one in found[::2]] == [(120, True), (220, False)]
    for one, instance in zip(found, each, strict=True):
        alone = best_schedule(First(), instance, tries=3)
        assert (one.cost, one.is_backwards) == (alone.makespan, alone.is_backwards)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("one", [AGAIN, FLEXIBLE])
def test_schedules_of_both_directions_are_schedules(one, backwards):
    """Every operation once, in the order of its job, at one machine that can do it, as long."""
    rows, policy = JobShopRows(1, instance=one, backwards=backwards), random_policy(seed=1)
    rows.interpret()
    for _ in range(12):
        obs = rows.reset()
        while not obs.done[0]:
            obs = rows.act(policy(obs))
        free, op = defaultdict(int), defaultdict(int)
        for bar in sorted(rows.schedule(0), key=lambda bar: (bar["start"], bar["end"])):
            job, machine = int(bar["job"]), int(bar["machine"])
            place = job, op[job]
            if one.times is None:
                assert machine == one.machines[place]
                assert bar["end"] - bar["start"] == one.durations[place]
            else:
                assert bar["end"] - bar["start"] == one.times[(*place, machine)]
            assert bar["start"] >= max(free["job", job], free["machine", machine])
            free["job", job] = free["machine", machine] = bar["end"]
            op[job] += 1
        assert [op[job] for job in range(len(one.durations))] == (one.machines >= 0).sum(1).tolist()


def test_with_due_dates_all_tries_are_forwards_and_the_least_tardiness_counts():
    """Long first: the short one is done at 5, 3 late of weight 3. Else the other is 1 late."""
    text = "job,machine,duration,due,weight\nlong,saw,4,4,1\nshort,saw,1,2,3\n"
    one = read_table(text, "")
    found = best_schedule(First(), one, tries=4)
    assert (found.is_backwards, found.makespan, found.tardiness) == (False, 5, 3 * 3 / 4)
    assert best_schedule(Random(1), one, tries=8).tardiness == 1 / 4


def test_a_schedule_goes_on_from_any_moment():
    begin = {"now": 10, "op": [0, 1], "job_free": [0, 10], "machine_free": [0, 10]}
    found = best_schedule(First(), LATECOMER, begin=begin)
    assert not found.is_backwards
    assert [tuple(own.values()) for own in found.operations] == [
        ("long", "a", 10, 110), ("late", "a", 110, 120), ("late", "b", 120, 220),
    ]  # fmt: skip
