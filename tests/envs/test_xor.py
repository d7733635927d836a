import pytest
from game_support import assert_bad_states_are_refused, choose, plain
from ragged_envs.xor import OUTPUTS, Xor, output_xor

from entity_env import make
from entity_env.errors import SettingError
from entity_env.player.episodes import play_episodes, play_scripted, random_policy


def output(index):
    return choose("output", ["Player"], [index], OUTPUTS)


def at(first, second):
    env = Xor()
    env.set_state({"bits": [first, second], "output": None})
    return env


def test_what_is_seen():
    observation = at(0, 1).observe()
    assert plain(observation) == {
        "features": {"Bit": [[0], [1]], "Player": [[]]},
        "global_features": [],
        "masks": {"output": None},
        "reward": 0.0,
        "done": False,
        "truncated": False,
        "metrics": {},
    }
    assert list(observation.ids["Player"]) == ["Player"]
    assert list(observation.actions["output"].actor_types) == ["Player"]


@pytest.mark.parametrize(
    ("bits", "right"), [((0, 0), 0), ((0, 1), 1), ((1, 0), 1), ((1, 1), 0)], ids=str
)
def test_the_truth_table(bits, right):
    for given in (0, 1):
        last = at(*bits).act(output(given))
        assert last.done
        assert not last.truncated
        assert last.reward == last.metrics["win"] == float(given == right)


def test_all_bits_are_as_likely():
    # 4,000 games: 1,000 of each pair expected, standard deviation 27
    env = Xor()
    env.seed(0)
    pairs = [env.reset().features["Bit"] for _ in range(4000)]
    counts = [pairs.count([[a], [b]]) for a in (0, 1) for b in (0, 1)]
    assert counts == pytest.approx([1000] * 4, abs=120)


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    changes = [
        ({"bits": [0]}, "number of bits"),
        ({"bits": [0, 2]}, "a bit"),
        ({"bits": [0, 0.5]}, "not a state"),
        ({"output": 2}, "an output"),
    ]
    assert_bad_states_are_refused(at(1, 1), changes)


def test_there_are_no_settings():
    with pytest.raises(SettingError, match="width"):
        make("xor", width=3)


def test_the_script_is_always_right_and_random_play_half_of_the_time():
    assert play_scripted(Xor, output_xor, 200, seed=1)["win"].mean() == 1.0
    # 2,000 games: standard deviation 0.011
    won = play_episodes(Xor, random_policy(1), 2000, seed=1)["win"]
    assert won.mean() == pytest.approx(0.5, abs=0.045)


def test_text():
    env = at(1, 0)
    assert env.render_text() == "1 xor 0 = ?"
    env.act(output(0))
    assert env.render_text() == "1 xor 0 = 0"
