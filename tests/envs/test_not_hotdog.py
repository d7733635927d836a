import pytest
from game_support import assert_bad_states_are_refused, choose
from ragged_envs.not_hotdog import ANSWERS, THINGS, NotHotdog, spot_hotdog

from entity_env.player.episodes import play_episodes, play_scripted, random_policy

HOTDOG, NOT_HOTDOG = 0, 1


def classify(index):
    return choose("classify", ["Player"], [index], ANSWERS)


def at(thing):
    env = NotHotdog()
    env.set_state({"thing": thing, "answer": None})
    return env


@pytest.mark.parametrize(
    ("thing", "objects", "hotdogs"),
    [("object", [[0]], []), ("hotdog object", [[1]], []), ("hotdog", [], [()])],
)
def test_what_is_seen(thing, objects, hotdogs):
    observation = at(thing).observe()
    assert observation.features == {"Player": [()], "Object": objects, "Hotdog": hotdogs}
    assert observation.actions["classify"].actor_types == ("Player",)
    assert observation.actions["unused_action"].actor_types == ()


@pytest.mark.parametrize(
    ("thing", "right"), [("object", NOT_HOTDOG), ("hotdog object", HOTDOG), ("hotdog", HOTDOG)]
)
def test_the_right_answer_pays(thing, right):
    for index in (HOTDOG, NOT_HOTDOG):
        last = at(thing).act(classify(index))
        assert last.done
        assert last.reward == last.metrics["win"] == float(index == right)


def test_half_of_the_things_are_hotdogs_of_both_kinds():
    # 4,000 games: 2,000, 1,000 and 1,000 expected, standard deviation 32 and 27
    env = NotHotdog()
    env.seed(0)
    drawn = []
    for _ in range(4000):
        env.reset()
        drawn.append(env.thing)
    assert [drawn.count(thing) for thing in THINGS] == pytest.approx([2000, 1000, 1000], abs=130)


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    changes = [
        ({"thing": "sausage"}, "a thing"),
        ({"thing": ["hotdog"]}, "a thing"),
        ({"answer": "yes"}, "an answer"),
    ]
    assert_bad_states_are_refused(at("hotdog"), changes)


def test_the_script_is_always_right_and_random_play_half_of_the_time():
    assert play_scripted(NotHotdog, spot_hotdog, 200, seed=1)["win"].mean() == 1.0
    # 2,000 games: standard deviation 0.011
    won = play_episodes(NotHotdog, random_policy(1), 2000, seed=1)["win"]
    assert won.mean() == pytest.approx(0.5, abs=0.045)


def test_text():
    env = at("hotdog")
    assert env.render_text() == "hotdog: ?"
    env.act(classify(NOT_HOTDOG))
    assert env.render_text() == "hotdog: not_hotdog"
