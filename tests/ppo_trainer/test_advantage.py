"""Advantages: arithmetic by hand, a slow reference, and truncation through ``collect``."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.trainer_envs import Truncated
from support.trainer_runs import collect_with, network, small_config
from torch.testing import assert_close

from entity_env import ListEnv, batch_obs
from entity_env.errors import ObservationError
from entity_env.wrappers import VecWrapper
from ppo_trainer import PPOConfig, RolloutConfig
from ppo_trainer.algorithms.advantage import estimate, explained_variance, vtrace
from ragged_net import EntityBatch


def one_row(rewards, values, ends, last, gamma, gae_lambda):
    """The advantages of a single row, as a list."""
    arrays = [np.array(x) for x in (rewards, values, ends)]
    rows = np.zeros(len(rewards), np.int64)
    return vtrace(*arrays, rows, np.array([last]), gamma, gae_lambda)[1].tolist()


def test_gae_equals_arithmetic_by_hand():
    # gamma 0.5, lambda 0.5, so gamma * lambda = 0.25; one row, nothing ends.
    # delta_2 = 3 + 0.5 * 4 - 2 = 3          A_2 = 3
    # delta_1 = 2 + 0.5 * 2 - 1 = 2          A_1 = 2 + 0.25 * 3 = 2.75
    # delta_0 = 1 + 0.5 * 1 - 0.5 = 1        A_0 = 1 + 0.25 * 2.75 = 1.6875
    ends = [False, False, False]
    result = one_row([1.0, 2.0, 3.0], [0.5, 1.0, 2.0], ends, 4.0, gamma=0.5, gae_lambda=0.5)
    assert result == [1.6875, 2.75, 3.0]


def test_an_end_after_the_last_decision_ignores_the_last_value():
    assert one_row([3.0], [2.0], [True], 1e6, gamma=0.9, gae_lambda=0.9) == [1.0]


def test_players_who_take_turns_each_have_a_sequence_of_their_own():
    # Row 0 decides first, third and last, row 1 second and fourth; gamma 0.5, lambda 1.
    # Row 0: A = 4 + 0.5 * 8 - 3 = 5; 2 + 0.5 * 3 - 2 + 0.5 * 5 = 4; 1 + 0.5 * 2 - 1 + 0.5 * 4 = 3
    # Row 1 ends: A = -4 - 0 = -4; 0 + 0.5 * 0 - 1 + 0.5 * -4 = -3
    _, result = vtrace(
        rewards=np.array([1.0, 0.0, 2.0, -4.0, 4.0]),
        values=np.array([1.0, 1.0, 2.0, 0.0, 3.0]),
        ends=np.array([False, False, False, True, False]),
        rows=np.array([0, 1, 0, 1, 0]),
        next_values=np.array([8.0, 1e6]),
        gamma=0.5,
        gae_lambda=1.0,
    )
    assert result.tolist() == [3.0, -3.0, 4.0, -4.0, 5.0]


def test_nobody_and_rows_that_never_decide():
    nothing = np.zeros(0)
    nobody = np.zeros(0, np.int64)
    assert vtrace(nothing, nothing, nothing > 0, nobody, np.ones(3), 0.9, 0.9)[1].size == 0
    _, result = vtrace(
        np.array([2.0]), np.array([1.0]), np.array([True]), np.array([2]), np.ones(4), 0.9, 0.9
    )
    assert result.tolist() == [1.0]


def reference(rewards, values, dones, last, gamma, lam, t):
    """A_t of one row by its definition, recursively, on Python floats."""
    if t == len(rewards):
        return 0.0
    following = last if t + 1 == len(rewards) else values[t + 1]
    if dones[t]:
        return rewards[t] - values[t]
    rest = reference(rewards, values, dones, last, gamma, lam, t + 1)
    return rewards[t] + gamma * following - values[t] + gamma * lam * rest


def test_explained_variance_by_hand():
    # errors 1, -1, 0: variance 2/3; returns 1, 3, 5: variance 8/3; 1 - (2/3) / (8/3) = 0.75
    returns = torch.tensor([1.0, 3.0, 5.0])
    assert explained_variance(torch.tensor([0.0, 4.0, 5.0]), returns) == pytest.approx(0.75)
    assert explained_variance(returns + 100.0, returns) == pytest.approx(1.0)  # a bias is no error
    assert explained_variance(torch.zeros(3), returns) == pytest.approx(0.0)


def test_explained_variance_of_constant_returns_is_nan():
    assert math.isnan(explained_variance(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 2.0])))


def value_of(net, env, step):
    """V of the observation at ``step`` of an episode, from the observation itself."""
    obs = batch_obs([env.observe(step)], env.obs_space(), env.action_space())
    return float(net.value(EntityBatch.from_obs(obs)).detach())


@pytest.mark.parametrize("truncated", [True, False])
@pytest.mark.parametrize("steps", [3, 5])
def test_a_limit_bootstraps_from_the_final_observation_and_an_end_does_not(truncated, steps):
    gamma, lam = 0.9, 0.8
    config = small_config(
        rollout=RolloutConfig(num_envs=2, steps=steps),
        ppo=PPOConfig(gamma=gamma, gae_lambda=lam, minibatch_size=2),
    )
    env = Truncated(limit=3, truncated=truncated)
    net = network(env, config)
    v = [value_of(net, env, step) for step in range(4)]  # v[3] is the final observation's
    assert min(abs(x) for x in v) > 1e-4, "a value of 0 would prove nothing"

    # Episodes of rewards 1, 2, 3. What the final observation is worth joins the last reward.
    end = 3 + (gamma * v[3] if truncated else 0)
    rewards = ([1, 2, end] * 2)[:steps]
    values = (v[:3] * 2)[:steps]
    dones = ([False, False, True] * 2)[:steps]
    last = v[steps % 3]
    expected = [reference(rewards, values, dones, last, gamma, lam, t) for t in range(steps)]

    with ListEnv(lambda: Truncated(3, truncated), 2) as vec_env:
        generator = torch.Generator().manual_seed(0)
        collected = collect_with(net, vec_env, vec_env.reset(), config, generator)
    rollout = estimate(collected.trajectories, config.ppo)
    advantages = rollout.advantages.view(steps, 2)
    for row in range(2):
        assert_close(advantages[:, row].tolist(), expected, atol=1e-5, rtol=1e-5)
    assert_close(rollout.returns, rollout.advantages + rollout.values)


def test_only_the_truncated_rows_get_the_value_of_their_final_observation():
    """Rows of different limits: each final value must land in its own row."""
    gamma = 0.5
    config = small_config(
        rollout=RolloutConfig(num_envs=3, steps=3),
        ppo=PPOConfig(gamma=gamma, gae_lambda=0.0, minibatch_size=2),
    )
    limits = iter([3, 2, 3])
    kinds = iter([True, True, False])
    env = Truncated()
    net = network(env, config)
    v = [value_of(net, env, step) for step in range(4)]
    with ListEnv(lambda: Truncated(next(limits), next(kinds)), 3) as vec_env:
        generator = torch.Generator().manual_seed(0)
        collected = collect_with(net, vec_env, vec_env.reset(), config, generator)
    rollout = estimate(collected.trajectories, config.ppo)
    # One-step returns, r + 0.5 * V(next), by step and row:
    expected = [
        [1 + gamma * v[1], 1 + gamma * v[1], 1 + gamma * v[1]],
        [2 + gamma * v[2], 2 + gamma * v[2], 2 + gamma * v[2]],  # row 1 is cut off here
        [3 + gamma * v[3], 1 + gamma * v[1], 3.0],  # row 0 is cut off, row 2 ends
    ]
    assert_close(rollout.returns.view(3, 3), torch.tensor(expected), atol=1e-5, rtol=1e-5)


class WithoutFinal(VecWrapper):
    """Forgets the last observations of truncated rows."""

    def observation(self, obs):
        return replace(obs, final=None)


def test_rows_without_the_final_observations_of_truncated_ones_are_an_error():
    config = small_config(rollout=RolloutConfig(num_envs=2, steps=7))
    net = network(Truncated(), config)
    with WithoutFinal(ListEnv(Truncated, 2)) as vec_env:
        generator = torch.Generator().manual_seed(0)
        with pytest.raises(ObservationError, match="the final observations are not those"):
            collect_with(net, vec_env, vec_env.reset(), config, generator)


def test_collect_counts_episodes_and_keeps_the_order_step_by_step():
    config = small_config(rollout=RolloutConfig(num_envs=2, steps=7))
    env = Truncated(limit=3)
    net = network(env, config)
    with ListEnv(Truncated, 2) as vec_env:
        generator = torch.Generator().manual_seed(0)
        collected = collect_with(net, vec_env, vec_env.reset(), config, generator)
    # Steps 0 1 2 | 0 1 2 | 0 of both rows, one step of all rows after the other.
    steps = collected.trajectories.decisions.batch.entities["Robot"].values[:, 0]
    assert steps.tolist() == [s for s in (0, 1, 2, 0, 1, 2, 0) for _ in range(2)]
    assert collected.metrics["episodic_length"].count == 4
    assert collected.metrics["episodic_length"].mean == 3
    assert collected.metrics["episodic_reward"].mean == 6  # 1 + 2 + 3, without any value
