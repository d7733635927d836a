"""Features of spaces, networks and settings that learning needs, each with a control without it."""

from __future__ import annotations

import dataclasses

import pytest
from learning_support import SMALL_NET, small_config, train_and_play
from ragged_envs.fill_order import FillOrder
from support.chained_envs import CallAndTouch
from support.continuous_envs import Aim
from support.diagnostic_envs import DelayedReward, SeveralActors
from support.input_envs import CoinOnAMap, Locks, PickTheCoin, SameTerrain

from ppo_trainer import RolloutConfig

pytestmark = pytest.mark.learning


# ---- actions


def chained(tmp_path, order):
    config = small_config(
        tmp_path,
        steps=20_000,
        net=dataclasses.replace(SMALL_NET, action_order=order),
        ppo={"gamma": 0.0, "entropy_coef": 0.1, "entropy_schedule": "linear"},
    )
    # Greedily the call would always be the same, which pays once.
    _, sampled, _ = train_and_play(config, CallAndTouch, episodes=1000)
    return sampled.mean("episodic_reward") / CallAndTouch.best_return


def test_the_touch_follows_the_call(tmp_path):
    assert chained(tmp_path, ["Call", "Touch"]) > 0.95


def test_the_call_follows_the_touch(tmp_path):
    assert chained(tmp_path, ["Touch", "Call"]) > 0.95


def test_independent_heads_get_less_than_half(tmp_path):
    assert chained(tmp_path, None) < 0.5


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


# ---- inputs


class WithoutTheMap(CoinOnAMap):
    """The same game, in which the map is never shown."""

    def reset(self):
        observation = super().reset()
        observation.features = {"Robot": [[1.0]]}
        return observation


def played(tmp_path, env, steps, **net):
    config = small_config(tmp_path, steps=steps, net=dataclasses.replace(SMALL_NET, **net))
    greedy, _, _ = train_and_play(config, env)
    return greedy.mean("episodic_reward")


def test_the_coin_is_found_on_the_map(tmp_path):
    assert played(tmp_path, CoinOnAMap, 24_000) > 0.95


def test_without_the_map_the_coin_is_guessed(tmp_path):
    # 1 / 4; of 1,000 games the standard deviation is 0.014.
    assert played(tmp_path, WithoutTheMap, 4_000) < 0.32


def test_the_cell_with_the_coin_is_selected(tmp_path):
    assert played(tmp_path, PickTheCoin, 12_000) > 0.95


@pytest.mark.parametrize("net", [{}, {"embedding": "attributes"}], ids=str)
def test_flags_are_told_from_each_other(tmp_path, net):
    assert played(tmp_path, Locks, 16_000, **net) > 0.95


def test_terrains_of_one_vocabulary_are_compared(tmp_path):
    assert played(tmp_path, SameTerrain, 16_000) > 0.95


# ---- values and losses


@pytest.mark.parametrize(
    "ppo", [{"ratio": "per_frame"}, {"microbatch_size": 48}], ids=["per_frame", "microbatches"]
)
def test_several_actors_are_learned_with(tmp_path, ppo):
    config = small_config(tmp_path, steps=12_000, ppo=ppo)
    greedy, sampled, _ = train_and_play(config, SeveralActors)
    assert greedy.mean("episodic_reward") >= 0.95 * SeveralActors.best_return
    assert sampled.mean("episodic_reward") >= 0.95 * SeveralActors.best_return


class Huge(DelayedReward):
    """A delayed reward times 1,000."""

    best_return = 1000 * DelayedReward.best_return

    def reset(self):
        return self._larger(super().reset())

    def act(self, actions):
        return self._larger(super().act(actions))

    @staticmethod
    def _larger(observation):
        return dataclasses.replace(observation, reward=1000 * observation.reward)


def of_huge_rewards(tmp_path, norm):
    net = dataclasses.replace(SMALL_NET, value_norm=norm)
    greedy, sampled, _ = train_and_play(
        small_config(tmp_path, steps=30_000, net=net), Huge, episodes=300
    )
    return greedy.mean("episodic_reward") / Huge.best_return, sampled.mean("episodic_reward")


def test_with_popart_the_size_of_rewards_does_not_matter(tmp_path):
    greedy, sampled = of_huge_rewards(tmp_path, "popart")
    assert greedy > 0.95
    assert sampled > 0.95 * Huge.best_return


def test_without_it_the_value_loss_drowns_the_policy_s(tmp_path):
    greedy, _ = of_huge_rewards(tmp_path, "none")
    assert greedy < 0.75
