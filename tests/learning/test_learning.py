"""Every mechanism is learned: at least 95% of the best return, where going without gets far less.

What the best return is and what a policy without the mechanism gets is worked out in the docstrings
of the environments, and measured in ``test_diagnostic_envs.py``. The suite leaves out what else
this folder trains.
"""

import pytest
from learning_support import small_config, train_and_play
from support.diagnostic_envs import (
    Bandit,
    DelayedReward,
    MaskedChoice,
    SelectMatching,
    SeveralActors,
)

pytestmark = pytest.mark.learning


def assert_learned(env, config):
    """Both greedy and sampled play get at least 95% of the best return."""
    greedy, sampled, _ = train_and_play(config, env)
    assert greedy.mean("episodic_reward") >= 0.95 * env.best_return
    assert sampled.mean("episodic_reward") >= 0.95 * env.best_return


def test_bandit_the_arm_follows_the_global_feature(tmp_path):
    env = {"_target_": "support.diagnostic_envs.Bandit", "contexts": 4}
    assert_learned(Bandit, small_config(tmp_path, steps=12_000, env=env))


def test_mask_the_best_allowed_choice_is_taken(tmp_path):
    assert_learned(MaskedChoice, small_config(tmp_path, steps=8_000))


def test_select_each_chooser_selects_the_box_of_its_colour(tmp_path):
    assert_learned(SelectMatching, small_config(tmp_path, steps=20_000))


def test_actors_each_actor_follows_its_own_goal(tmp_path):
    assert_learned(SeveralActors, small_config(tmp_path, steps=16_000))


def test_delay_an_early_choice_is_made_for_a_reward_beyond_the_rollout(tmp_path):
    # 4 steps a rollout, 8 an episode: the reward never lies in the rollout of the choice.
    config = small_config(tmp_path, steps=30_000)
    assert config.rollout.steps < DelayedReward.STEPS
    assert_learned(DelayedReward, config)
