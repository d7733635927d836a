import numpy as np
import pytest
from game_support import assert_bad_states_are_refused, plain, select
from ragged_envs.cherry_pick import CherryPick, pick_best

from entity_env.errors import SettingError
from entity_env.player.episodes import play_scripted


def pick(cherry):
    return select("Pick Cherry", ("Cherry", cherry))


def game(*qualities, picks=2):
    env = CherryPick(len(qualities), picks)
    env.set_state({"cherries": [[i, q] for i, q in enumerate(qualities)], "steps": 0})
    return env


def test_a_game():
    env = game(0.25, -1.0, 0.75, 0.5)
    first = env.act(pick(2))
    assert plain(first) == {
        "features": {"Cherry": [[0.25], [-1.0], [0.5]], "Player": [[]]},
        "global_features": [],
        "masks": {"Pick Cherry": None},
        "reward": 0.75,
        "done": False,
        "truncated": False,
        "metrics": {},
    }
    # the ids of the others stay
    assert first.ids == {"Cherry": [("Cherry", i) for i in (0, 1, 3)], "Player": ["Player"]}
    assert list(first.actions["Pick Cherry"].actor_types) == ["Player"]
    assert list(first.actions["Pick Cherry"].actee_types) == ["Cherry"]
    last = env.act(pick(1))
    assert (last.reward, last.done, last.truncated) == (-1.0, True, False)
    assert last.features["Cherry"] == [(0.25,), (0.5,)]


@pytest.mark.parametrize(("cherries", "picks"), [(32, 16), (5, 2), (4, 4), (1, 1)])
def test_the_best_sum_to_1(cherries, picks):
    env = CherryPick(cherries, picks)
    env.seed(0)
    for _ in range(20):
        qualities = sorted(quality for (quality,) in env.reset().features["Cherry"])
        assert len(qualities) == cherries
        assert sum(qualities[-picks:]) == pytest.approx(1.0)


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    env = game(0.25, -1.0, 0.75)
    env.act(pick(1))
    changes = [
        ({"steps": 3}, "number of picks"),
        ({"steps": -1}, "number of picks"),
        ({"steps": 0}, "number of cherries"),
        ({"cherries": [[0, 0.25]]}, "number of cherries"),
        ({"cherries": [[0, 0.25], [0, 0.75]]}, "twice"),
        ({"cherries": [[0, 0.25], [3, 0.75]]}, "unknown"),
        ({"cherries": [[0, 0.25], [2, float("nan")]]}, "not a state"),
        ({"cherries": [[0, 0.25], [2, "ripe"]]}, "not a state"),
    ]
    assert_bad_states_are_refused(env, changes)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"num_cherries": 0}, "num_cherries"),
        ({"num_cherries": 10_001}, "num_cherries"),
        ({"num_cherries": 32.0}, "num_cherries"),
        ({"num_picks": 0}, "num_picks"),
        ({"num_picks": 33}, "num_picks"),
        ({"num_cherries": 8}, "num_picks"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, text):
    with pytest.raises(SettingError, match=text):
        CherryPick(**settings)


def test_the_script_gets_1():
    returns = play_scripted(CherryPick, pick_best, 50, seed=1)["episodic_reward"]
    assert returns == pytest.approx(np.ones(50))


def test_text():
    env = game(0.25, -1.0, 0.75)
    env.act(pick(0))
    assert env.render_text() == "1 of 2 picks, left: 0.75 -1.00"
