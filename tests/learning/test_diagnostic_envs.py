"""The diagnostic environments keep what they promise: what is best, and that it is not easy."""

import pytest
from support.diagnostic_envs import (
    Bandit,
    DelayedReward,
    MaskedChoice,
    SelectMatching,
    SeveralActors,
)

from entity_env.play import play_episodes, play_scripted, random_policy

EPISODES = 2000
ENVIRONMENTS = {
    "bandit": Bandit,
    "bandit in 4 contexts": lambda: Bandit(contexts=4),
    "mask": MaskedChoice,
    "select": SelectMatching,
    "actors": SeveralActors,
    "delay": DelayedReward,
}

# The noise of the mean of 2,000 episodes is 0.25 / 2000**0.5 = 0.006 for the bandits.
TOLERANCE = {"bandit": 0.02, "bandit in 4 contexts": 0.02}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_perfect_player_gets_the_best_return(name):
    env = ENVIRONMENTS[name]
    returns = play_scripted(env, env().best_actions, EPISODES, seed=1)["episodic_reward"]
    assert returns.mean() == pytest.approx(env().best_return, abs=TOLERANCE.get(name, 1e-6))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_going_without_the_mechanism_is_far_from_the_best_return(name):
    env = ENVIRONMENTS[name]
    returns = play_episodes(env, random_policy(1), EPISODES, seed=1)["episodic_reward"]
    # The deviation of a return is at most 0.5: the mean of 2,000 strays by 0.011.
    assert returns.mean() == pytest.approx(env().random_return, abs=0.04)
    assert env().random_return <= env().without_mechanism < 0.95 * env().best_return
