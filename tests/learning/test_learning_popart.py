"""Rewards a thousand times too large are learned from with PopArt, and without it are not."""

import dataclasses

import pytest
from learning_support import SMALL_NET, small_config, train_and_play
from support.diagnostic_envs import DelayedReward

pytestmark = pytest.mark.learning


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


def played(tmp_path, norm):
    net = dataclasses.replace(SMALL_NET, value_norm=norm)
    greedy, sampled, _ = train_and_play(
        small_config(tmp_path, steps=30_000, net=net), Huge, episodes=300
    )
    return greedy.mean("episodic_reward") / Huge.best_return, sampled.mean("episodic_reward")


def test_with_popart_the_size_of_rewards_does_not_matter(tmp_path):
    greedy, sampled = played(tmp_path, "popart")
    assert greedy > 0.95
    assert sampled > 0.95 * Huge.best_return


def test_without_it_the_value_loss_drowns_the_policy_s(tmp_path):
    greedy, _ = played(tmp_path, "none")
    assert greedy < 0.75
