"""Numbers are learned: of actors and of the player, with two bounds, one and none."""

import pytest
from learning_support import small_config, train_and_play
from support.continuous_envs import Aim

from ppo_trainer import RolloutConfig

pytestmark = pytest.mark.learning


def test_every_number_hits_its_goal(tmp_path):
    config = small_config(
        tmp_path,
        steps=24_000,
        rollout=RolloutConfig(num_envs=64, steps=8),
        ppo={"entropy_coef": 0.0, "gamma": 0.0, "epochs": 4},
    )
    greedy, sampled, _ = train_and_play(config, Aim, episodes=300)
    # The middle of each range gets half; what is drawn still spreads around its mean.
    assert greedy.mean("episodic_reward") >= 0.95 * Aim.best_return
    assert sampled.mean("episodic_reward") >= 0.75 * Aim.best_return
