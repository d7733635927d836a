"""Sets are learned: one item of each colour that is ordered, and then to stop."""

import pytest
from learning_support import small_config, train_and_play
from ragged_envs.fill_order import FillOrder

from ppo_trainer import RolloutConfig

pytestmark = pytest.mark.learning


def test_orders_are_filled(tmp_path):
    config = small_config(
        tmp_path,
        steps=10_000,
        rollout=RolloutConfig(num_envs=256, steps=1),
        ppo={"entropy_coef": 0.01, "gamma": 1.0, "epochs": 4, "minibatch_size": 128},
    )
    greedy, sampled, _ = train_and_play(config, FillOrder, episodes=500)
    # Who picks one item gets 1, 1/2 or 1/3, on average 0.61; random sets get 0.3.
    assert greedy.mean("episodic_reward") > 0.95
    assert sampled.mean("episodic_reward") > 0.95
