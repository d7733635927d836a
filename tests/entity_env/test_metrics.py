"""Summaries that merge, and the running episode of one row."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_envs import Chain

from entity_env import Metric
from entity_env.batching.frame_reader import FrameReader
from entity_env.errors import DAMAGES
from entity_env.metrics import EpisodeTracker, EpisodeTrackers, merge_columns, metric_columns


def test_a_metric_is_count_sum_least_and_greatest():
    metric = Metric.of(np.array([3.0, -1.0, 4.0]))
    assert metric == Metric(count=3, sum=6.0, min=-1.0, max=4.0)
    assert metric.mean == 2.0


def test_nan_entries_are_left_out():
    assert Metric.of(np.array([np.nan, 5.0, np.nan])) == Metric(1, 5.0, 5.0, 5.0)


def test_a_metric_of_nothing_has_no_mean_and_changes_nothing():
    none = Metric.of(np.array([np.nan]))
    assert none == Metric() == Metric.of(np.array([]))
    assert math.isnan(none.mean)
    some = Metric(2, 5.0, 1.0, 4.0)
    assert none.merge(some) == some.merge(none) == some


numbers = st.lists(st.integers(-1000, 1000).map(float), max_size=8)


@given(numbers, numbers)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_merging_summaries_is_the_summary_of_all_numbers(left, right):
    merged = Metric.of(np.array(left)).merge(Metric.of(np.array(right)))
    assert merged == Metric.of(np.array(left + right))


def frames(length=3):
    env = Chain(length)
    reader = FrameReader(env.obs_space(), env.action_space())
    return [reader.read(env.reset()), *(reader.read(env.act({})) for _ in range(length))]


def test_an_episode_sums_its_rewards_and_keeps_the_last_of_each_metric():
    tracker = EpisodeTracker()
    first, *rest = frames(3)
    tracker.begin(first.metrics)
    for frame in rest:
        tracker.add(frame.reward, frame.metrics)
    # 1 + 2 + 3; 0, 2, 4 and 6 for twice.
    expected = {"episodic_reward": 6.0, "episodic_length": 3.0, "twice": 6.0}
    expected |= {"twice.mean": 3.0, "twice.min": 0.0, "twice.max": 6.0}
    expected |= {"twice.sum": 12.0, "twice.count": 4.0}
    assert tracker.summary() == expected
    tracker.begin(first.metrics)
    assert tracker.summary() == {"episodic_reward": 0.0, "episodic_length": 0.0, "twice": 0.0}


def test_a_tracker_continues_from_its_state_which_does_not_change():
    first, *rest = frames(3)
    tracker = EpisodeTracker()
    tracker.begin(first.metrics)
    tracker.add(rest[0].reward, rest[0].metrics)
    state = tracker.get_state()
    text = json.dumps(state)
    tracker.add(rest[1].reward, rest[1].metrics)
    assert json.dumps(state) == text
    other = EpisodeTracker()
    other.set_state(json.loads(text))
    other.add(rest[1].reward, rest[1].metrics)
    assert other.summary() == tracker.summary()
    assert json.dumps(state) == text


def test_what_an_environment_gives_itself_is_not_overwritten():
    tracker = EpisodeTracker()
    tracker.begin({})
    for energy in (2.0, 4.0, 9.0):
        tracker.add(0.0, {"energy": energy, "energy.mean": 7.0})
    summary = tracker.summary()
    assert summary["energy.mean"] == 7.0
    assert (summary["energy"], summary["energy.sum"], summary["energy.count"]) == (9.0, 15.0, 3.0)


def test_a_metric_that_is_given_once_is_one_number():
    tracker = EpisodeTracker()
    tracker.begin({})
    tracker.add(1.0, {})
    tracker.add(1.0, {"win": 1.0})
    assert tracker.summary() == {"win": 1.0, "episodic_reward": 2.0, "episodic_length": 2.0}


def test_episodes_that_give_a_metric_once_count_in_its_mean_over_steps():
    trackers = [EpisodeTracker() for _ in range(3)]
    trackers[0].begin({"speed": 1.0})
    trackers[0].add(0.0, {"speed": 3.0})
    trackers[1].begin({"speed": 8.0})
    trackers[2].begin({})
    steps = [metric_columns([t.summary(), None]) for t in trackers]
    merged = merge_columns(steps, 2)
    # Last values 3 and 8; means 2 and 8; sums 4 and 8; counts 2 and 1.
    assert merged["speed"] == Metric(2, 11.0, 3.0, 8.0)
    assert merged["speed.mean"] == Metric(2, 10.0, 2.0, 8.0)
    assert merged["speed.min"] == Metric(2, 9.0, 1.0, 8.0)
    assert merged["speed.sum"] == Metric(2, 12.0, 4.0, 8.0)
    assert merged["speed.count"] == Metric(2, 3.0, 1.0, 2.0)
    assert merged["episodic_length"].count == 3
    assert merge_columns([], 2) == {}


def test_rows_are_followed_together_as_each_alone():
    rows, alone = EpisodeTrackers(2), [EpisodeTracker(), EpisodeTracker()]
    steps = [([0.1, -2.0], [{}, {}]), ([0.2, 0.5], [{"speed": 1.0}, {}]), ([0.3, 0.0], [{}] * 2)]
    for rewards, metrics in steps:
        rows.add(np.array(rewards), metrics)
        for tracker, reward, own in zip(alone, rewards, metrics, strict=True):
            tracker.add(reward, own)
    assert len(rows) == 2
    assert [rows[row].summary() for row in range(2)] == [own.summary() for own in alone]
    assert rows[0].summary() == {
        "speed": 1.0,
        "episodic_reward": 0.1 + 0.2 + 0.3,
        "episodic_length": 3.0,
    }
    saved = rows[0].get_state()
    rows.begin(0, {"speed": 4.0})
    assert rows[0].summary() == {"speed": 4.0, "episodic_reward": 0.0, "episodic_length": 0.0}
    assert rows[1].summary()["episodic_reward"] == -1.5
    rows.set_state(0, saved)
    rows.add(np.array([1.0, 0.0]), [{}, {}])
    assert rows[0].summary()["episodic_reward"] == 0.1 + 0.2 + 0.3 + 1.0
    assert rows[0].summary()["episodic_length"] == 4.0


def test_columns_have_nan_where_a_row_has_no_value():
    columns = metric_columns([{"b": 1.0}, None, {"a": 2.0, "b": 3.0}])
    assert list(columns) == ["a", "b"]
    np.testing.assert_array_equal(columns["a"], [np.nan, np.nan, 2.0])
    np.testing.assert_array_equal(columns["b"], [1.0, np.nan, 3.0])
    assert columns["a"].dtype == np.float64
    assert metric_columns([None, None]) == {}


@pytest.mark.parametrize(
    "damage",
    [
        {"reward": math.nan},
        {"reward": math.inf},
        {"length": -5},
        {"metrics": 5},
        {"metrics": {"m": [1.0]}},
        {"metrics": {"m": "12345"}},
        {"metrics": {"m": [1.0, 1, 1.0, 1.0, math.nan]}},
        {"metrics": {"m": [1.0] * 6}},
    ],
)
def test_a_damaged_episode_is_refused_and_changes_nothing(damage):
    tracker = EpisodeTracker()
    tracker.begin({"m": 1.0})
    before = tracker.get_state()
    tracker.set_state(json.loads(json.dumps(before)))
    with pytest.raises(DAMAGES):
        tracker.set_state({**before, **damage})
    assert tracker.get_state() == before
