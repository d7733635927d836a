import numpy as np
import pytest
from game_support import assert_bad_states_are_refused, choose
from ragged_envs.count import NUMBERS, Count, count_beans

from entity_env.errors import SettingError
from entity_env.player.episodes import play_episodes, play_scripted, random_policy


def say(number):
    return choose("count", ["Player"], [number], NUMBERS)


def at(beans, allowed=tuple(range(10))):
    env = Count(masked_choices=len(allowed))
    env.set_state({"beans": beans, "allowed": list(allowed), "answer": None})
    return env


def test_what_is_seen():
    observation = at(3, (2, 3, 9)).observe()
    assert {name: len(rows) for name, rows in observation.features.items()} == {
        "Bean": 3,
        "Player": 1,
    }
    assert observation.actions["count"].actor_types == ["Player"]
    # choices        0      1      2     3     4      5      6      7      8      9
    assert observation.actions["count"].mask == [
        [False, False, True, True, False, False, False, False, False, True]
    ]
    assert at(3).observe().actions["count"].mask is None
    assert len(at(0).observe().features["Bean"]) == 0


@pytest.mark.parametrize("beans", [0, 1, 8, 9])
def test_the_right_number_pays(beans):
    for number in range(10):
        last = at(beans).act(say(number))
        assert last.done
        assert last.reward == last.metrics["win"] == float(number == beans)


@pytest.mark.parametrize("masked_choices", [1, 4, 10])
def test_the_mask_allows_the_right_number_and_so_many_in_all(masked_choices):
    env = Count(masked_choices)
    env.seed(0)
    for _ in range(40):
        observation = env.reset()
        allowed = env.get_state()["allowed"]
        assert len(allowed) == masked_choices
        assert len(observation.features["Bean"]) in allowed


def test_all_numbers_are_as_likely_right_and_wrong():
    # 9,000 games: each number is right in 900, deviation 28; each wrong one is allowed in
    # 2/9 of the 8,100 games where it is wrong, 1,800, deviation 37
    env = Count(masked_choices=3)
    env.seed(0)
    right, wrong = np.zeros(10), np.zeros(10)
    for _ in range(9000):
        beans = len(env.reset().features["Bean"])
        right[beans] += 1
        wrong[[number for number in env.get_state()["allowed"] if number != beans]] += 1
    assert np.abs(right - 900).max() < 125
    assert np.abs(wrong - 1800).max() < 165


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    changes = [
        ({"beans": 10}, "right answer"),
        ({"beans": 5}, "right answer"),
        ({"beans": 4.0}, "not a state"),
        ({"allowed": [4]}, "number of allowed"),
        ({"allowed": [4, 4]}, "number of allowed"),
        ({"allowed": [4, 4, 7]}, "number of allowed"),
        ({"allowed": [4, 10]}, "0 to 9"),
        ({"allowed": None}, "not a state"),
        ({"answer": 5}, "an answer"),
    ]
    assert_bad_states_are_refused(at(4, (4, 7)), changes)


@pytest.mark.parametrize("value", [0, 11, 2.0, "2", None, True])
def test_settings_that_do_not_fit_are_refused(value):
    with pytest.raises(SettingError, match="masked_choices"):
        Count(masked_choices=value)


@pytest.mark.parametrize("masked_choices", [2, 10])
def test_the_script_is_always_right_and_random_play_one_time_in_so_many(masked_choices):
    def create():
        return Count(masked_choices)

    assert play_scripted(create, count_beans, 200, seed=1)["win"].mean() == 1.0
    # 2,000 games: standard deviation at most 0.011
    won = play_episodes(create, random_policy(1), 2000, seed=1)["win"]
    assert won.mean() == pytest.approx(1 / masked_choices, abs=0.045)


def test_text():
    env = at(3)
    assert env.render_text() == "ooo ?"
    env.act(say(2))
    assert env.render_text() == "ooo 2"
    assert at(0).render_text() == "?"
