"""Other ways to weigh, split and hide what is learned from still learn what they should."""

import pytest
from learning_support import SMALL_NET, small_config, train_and_play
from support.diagnostic_envs import HiddenCoin, SeveralActors

from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.logger import read_metrics

pytestmark = pytest.mark.learning


@pytest.mark.parametrize("value_net", [SMALL_NET, None], ids=["separate", "shared"])
def test_the_value_knows_the_hidden_coin_and_the_policy_does_not(tmp_path, value_net):
    config = small_config(tmp_path, steps=8_000, value_net=value_net)
    greedy, sampled, result = train_and_play(config, HiddenCoin, episodes=2000)
    # Blind and always heads is right in 0.7 of the episodes, give or take 0.01 in 2,000; with a
    # look at the coin it would be 1.
    assert greedy.mean("right") == pytest.approx(HiddenCoin.HEADS, abs=0.05)
    assert sampled.mean("right") == pytest.approx(HiddenCoin.HEADS, abs=0.05)
    # A value that does not see the coin explains nothing of its variance.
    last = read_metrics(RunFolder(result.run))[-1]
    assert last["value/explained_variance"] > 0.9


@pytest.mark.parametrize(
    "ppo",
    [
        {"ratio": "per_frame"},
        {"actor_weight": "actor"},
        {"microbatch_size": 48},
    ],
    ids=["per_frame", "by_actor", "microbatches"],
)
def test_several_actors_are_learned_with(tmp_path, ppo):
    config = small_config(tmp_path, steps=12_000, ppo=ppo)
    greedy, sampled, _ = train_and_play(config, SeveralActors)
    assert greedy.mean("episodic_reward") >= 0.95 * SeveralActors.best_return
    assert sampled.mean("episodic_reward") >= 0.95 * SeveralActors.best_return
