import pytest
from game_support import assert_bad_states_are_refused
from ragged_envs.multi_armed_bandit import ARMS, MultiArmedBandit, pull_a

from entity_env import GlobalCategoricalAction
from entity_env.player.episodes import play_episodes, play_scripted, random_policy


def pull(index):
    return {"pull": GlobalCategoricalAction(index, ARMS[index])}


def test_an_episode_of_32_pulls():
    env = MultiArmedBandit()
    observation = env.reset()
    assert (observation.features, observation.global_features) == ({}, [0])
    rewards = []
    for step in range(32):
        assert not observation.done
        observation = env.act(pull(step % 5))
        assert observation.global_features == [step + 1]
        rewards.append(observation.reward)
    assert observation.done
    assert not observation.truncated
    # A is pulled in steps 0, 5, ..., 30: 7 times
    assert rewards == [1 / 32 if step % 5 == 0 else 0.0 for step in range(32)]
    assert sum(rewards) == 7 / 32


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    env = MultiArmedBandit()
    env.set_state({"steps": 7})
    changes = [
        ({"steps": 33}, "0 to 32"),
        ({"steps": -1}, "0 to 32"),
        ({"steps": 1.0}, "not a state"),
    ]
    assert_bad_states_are_refused(env, changes)


def test_the_script_gets_everything_and_random_play_a_fifth():
    scripted = play_scripted(MultiArmedBandit, pull_a, 10, seed=1)["episodic_reward"]
    assert scripted.tolist() == [1.0] * 10
    # 200 episodes of 32 pulls: standard deviation of the mean 0.4 / 6400**0.5 = 0.005
    drawn = play_episodes(MultiArmedBandit, random_policy(1), 200, seed=1)["episodic_reward"]
    assert drawn.mean() == pytest.approx(0.2, abs=0.02)


def test_text():
    env = MultiArmedBandit()
    env.set_state({"steps": 3})
    assert env.render_text() == "3 of 32 pulls"
