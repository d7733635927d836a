import numpy as np
import pytest
from game_support import assert_bad_states_are_refused, plain, select
from ragged_envs.pick_matching_balls import PickMatchingBalls, pick_matching

from entity_env.errors import SettingError
from entity_env.player.episodes import play_episodes, play_scripted, random_policy

RED, GREEN, BLUE = 0, 1, 2


def pick(ball):
    return select("Pick Ball", ("Ball", ball))


def game(*colors):
    env = PickMatchingBalls(len(colors))
    env.set_state({"colors": list(colors), "picked": []})
    return env


def test_what_is_seen():
    env = game(RED, GREEN, GREEN, BLUE, GREEN)
    observation = env.act(pick(2))
    assert plain(observation) == {
        "features": {"Ball": [[0, 0], [1, 0], [1, 1], [2, 0], [1, 0]], "Player": [[]]},
        "global_features": [],
        "masks": {"Pick Ball": [[True, True, False, True, True]]},
        "reward": 1 / 3,
        "done": False,
        "truncated": False,
        "metrics": {},
    }
    assert observation.ids == {"Ball": [("Ball", i) for i in range(5)], "Player": ["Player"]}
    assert list(observation.actions["Pick Ball"].actor_types) == ["Player"]
    assert list(observation.actions["Pick Ball"].actee_types) == ["Ball"]


@pytest.mark.parametrize(
    ("balls", "rewards"),
    [
        # 3 green, 2 red, 1 blue: 3 is the largest number
        ([1, 2, 4, 0], [1 / 3, 1 / 3, 1 / 3, 0.0]),
        ([4, 1, 3], [1 / 3, 1 / 3, 0.0]),
        ([0, 5, 1], [1 / 3, 1 / 3, 0.0]),
        ([3, 0], [1 / 3, 0.0]),
    ],
)
def test_each_ball_of_the_first_colour_pays_and_another_ends_the_episode(balls, rewards):
    env = game(RED, GREEN, GREEN, BLUE, GREEN, RED)
    played = [env.act(pick(ball)) for ball in balls]
    assert [observation.reward for observation in played] == rewards
    assert [observation.done for observation in played] == [False] * (len(balls) - 1) + [True]
    assert not played[-1].truncated
    assert played[-1].actions == {}


def test_the_last_ball_ends_the_episode():
    env = game(BLUE, BLUE)
    assert env.act(pick(1)).done is False
    last = env.act(pick(0))
    assert (last.reward, last.done, last.actions) == (0.5, True, {})


def test_all_colours_are_as_likely():
    # 300 games of 32 balls: 1,600 of each colour expected, standard deviation 37
    env = PickMatchingBalls()
    env.seed(0)
    drawn = np.array([env.reset().features["Ball"] for _ in range(300)])
    assert drawn[:, :, 1].sum() == 0
    assert np.abs(np.bincount(drawn[:, :, 0].ravel()) - 1600).max() < 160


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    env = game(RED, GREEN, RED, BLUE)
    env.act(pick(2))
    changes = [
        ({"colors": [0, 1, 0]}, "number of balls"),
        ({"colors": [0, 1, 0, 6]}, "colour"),
        ({"picked": [4]}, "unknown ball"),
        ({"picked": [-1]}, "unknown ball"),
        ({"picked": [2, 2]}, "twice"),
        ({"picked": [2, 1, 0]}, "after one of another"),
        ({"picked": [0.5]}, "not a state"),
        ({"colors": None}, "not a state"),
    ]
    assert_bad_states_are_refused(env, changes)


@pytest.mark.parametrize("value", [0, 10_001, 2.5, "many", True])
def test_settings_that_do_not_fit_are_refused(value):
    with pytest.raises(SettingError, match="num_balls"):
        PickMatchingBalls(value)


def test_the_script_gets_1():
    returns = play_scripted(PickMatchingBalls, pick_matching, 50, seed=1)["episodic_reward"]
    assert returns == pytest.approx(np.ones(50))


def test_random_play_gets_little():
    # One ball pays about 1/9, and one in six times there is another: (1 + 0.2) / 9 = 0.13. The
    # deviation of a return is less than 0.1, that of the mean of 500 games 0.005.
    returns = play_episodes(PickMatchingBalls, random_policy(1), 500, seed=1)["episodic_reward"]
    assert returns.mean() == pytest.approx(0.13, abs=0.03)


def test_text():
    env = game(RED, GREEN, RED, BLUE)
    assert env.render_text() == "picked: none, left: 0 0 1 2"
    env.act(pick(2))
    assert env.render_text() == "picked: 0, left: 0 1 2"
