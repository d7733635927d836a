import pytest
from game_support import assert_bad_states_are_refused, choose
from ragged_envs.rock_paper_scissors import THROWS, RockPaperScissors, throw_best

from entity_env.errors import SettingError
from entity_env.player.episodes import play_scripted

ROCK, PAPER, SCISSORS = 0, 1, 2


def throw(index):
    return choose("throw", ["Player"], [index], THROWS)


def against(opponent, cheat=False):
    env = RockPaperScissors(cheat)
    env.set_state({"opponent": opponent, "throw": None})
    return env


def test_only_a_cheat_sees_the_opponent():
    observation = against(SCISSORS).observe()
    assert observation.features == {"Opponent": [[2]], "Player": [()]}
    assert observation.visible == {"Opponent": [False]}
    observation = against(SCISSORS, cheat=True).observe()
    assert observation.features == {"Opponent": [[2]], "Player": [()]}
    assert observation.visible == {}


@pytest.mark.parametrize(
    ("opponent", "own", "reward"),
    [
        (ROCK, ROCK, 0.0),
        (ROCK, PAPER, 2.0),
        (ROCK, SCISSORS, 0.0),
        (PAPER, ROCK, 0.0),
        (PAPER, PAPER, 0.0),
        (PAPER, SCISSORS, 2.0),
        (SCISSORS, ROCK, 2.0),
        (SCISSORS, PAPER, 0.0),
        (SCISSORS, SCISSORS, 0.0),
    ],
)
def test_every_pair_of_throws(opponent, own, reward):
    last = against(opponent).act(throw(own))
    assert last.done
    assert last.reward == reward
    assert last.metrics == {"win": reward / 2}


def test_how_often_the_opponent_throws_what():
    # 4,000 games: 2,000, 1,200 and 800 expected, standard deviation at most 32
    env = RockPaperScissors()
    env.seed(0)
    drawn = [env.reset().features["Opponent"][0][0] for _ in range(4000)]
    assert [drawn.count(i) for i in range(3)] == pytest.approx([2000, 1200, 800], abs=130)


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    changes = [
        ({"opponent": 3}, "an opponent's throw"),
        ({"opponent": 0.0}, "not a state"),
        ({"throw": -1}, "a throw"),
    ]
    assert_bad_states_are_refused(against(SCISSORS), changes)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_settings_that_do_not_fit_are_refused(value):
    with pytest.raises(SettingError, match="cheat"):
        RockPaperScissors(cheat=value)


def test_the_script_throws_paper_or_what_wins():
    # 2,000 games of always paper: mean 1, standard deviation 1 / 2000**0.5 = 0.022
    returns = play_scripted(RockPaperScissors, throw_best, 2000, seed=1)["episodic_reward"]
    assert returns.mean() == pytest.approx(1.0, abs=0.09)
    cheats = play_scripted(lambda: RockPaperScissors(True), throw_best, 200, seed=1)
    assert cheats["episodic_reward"].mean() == 2.0


def test_text():
    env = against(SCISSORS)
    assert env.render_text() == "? against scissors"
    env.act(throw(ROCK))
    assert env.render_text() == "rock against scissors"
