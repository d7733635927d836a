"""Rewards of teams against the numbers of the notes on OpenAI Five, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from support.seat_games import Played, asked, told

from entity_env import SeatRows
from entity_env.play import random_policy
from ppo_trainer.players.reward_rows import RewardRows, annealed, shared, time_scaled, zero_sum
from ppo_trainer.settings.self_play_config import SelfPlayConfig

TEAMS = [[0, 1], [2, 3]]


def test_the_mean_of_the_enemies_is_taken_away():
    # mean(4, 0) = 2 and mean(6, 2) = 4: 4 - 4, 0 - 4, 6 - 2, 2 - 2; the sum is 0.
    shaped = zero_sum(np.array([4.0, 0.0, 6.0, 2.0]), TEAMS)
    assert shaped.tolist() == [0.0, -4.0, 4.0, 0.0]
    # Three sides of one seat each: 3 - (0 + 6) / 2, 0 - (3 + 6) / 2, 6 - (3 + 0) / 2.
    assert zero_sum(np.array([3.0, 0.0, 6.0]), [[0], [1], [2]]).tolist() == [0.0, -4.5, 4.5]


def test_the_sum_over_two_teams_of_one_size_is_0():
    rewards = np.random.default_rng(0).normal(size=(20, 10))
    shaped = zero_sum(rewards, [range(5), range(5, 10)])
    assert shaped.sum(axis=1) == pytest.approx(np.zeros(20), abs=1e-12)


def test_team_spirit_mixes_ones_own_reward_with_the_teams():
    rewards = np.array([4.0, 0.0, 6.0, 2.0])
    # tau = 0.2: 0.2 * 2 + 0.8 * 4 = 3.6, 0.2 * 2 + 0 = 0.4; 0.2 * 4 + 0.8 * 6 = 5.6, 2.4.
    assert shared(rewards, TEAMS, 0.2) == pytest.approx([3.6, 0.4, 5.6, 2.4])
    # tau = 0.97: 0.97 * 2 + 0.03 * 4 = 2.06, 1.94; 0.97 * 4 + 0.03 * 6 = 4.06, 3.94.
    assert shared(rewards, TEAMS, 0.97) == pytest.approx([2.06, 1.94, 4.06, 3.94])
    assert shared(rewards, TEAMS, 0.0).tolist() == rewards.tolist()
    assert shared(rewards, TEAMS, 1.0).tolist() == [2.0, 2.0, 4.0, 4.0]


def test_who_is_out_neither_gives_nor_gets():
    plays = np.array([True, False, True, True])
    rewards = np.array([4.0, 100.0, 6.0, 2.0])
    assert shared(rewards, TEAMS, 1.0, plays).tolist() == [4.0, 0.0, 4.0, 4.0]
    assert zero_sum(rewards, TEAMS, plays).tolist() == [0.0, 0.0, 2.0, -2.0]


def test_team_spirit_is_annealed_from_02_to_097():
    assert annealed(0.2, 0.97, 0.0) == 0.2
    assert annealed(0.2, 0.97, 0.5) == pytest.approx(0.585)
    assert annealed(0.2, 0.97, 1.0) == pytest.approx(0.97)
    assert annealed(0.2, 0.97, 7.0) == pytest.approx(0.97)
    assert annealed(0.2, None, 0.5) == 0.2


def test_rewards_count_less_the_later_they_come():
    # 0.6 ** (0 / 10), (10 / 10), (20 / 10), (45 / 10) = 0.6 ** 4.5 = 0.1004
    scaled = time_scaled(np.ones(4), np.array([0.0, 10.0, 20.0, 45.0]))
    assert scaled == pytest.approx([1.0, 0.6, 0.36, 0.1004], abs=1e-4)


def played(settings, progress=0.0):
    """Four seats in two teams; rewards in two steps, and c leaves in the first one."""
    seats = "abcd"
    game = Played(
        {seat: asked() for seat in seats},
        {
            "a": asked(reward=4.0),
            "b": asked(reward=0.0),
            "c": told(6.0, True),
            "d": asked(reward=2.0),
        },
        {"a": told(4.0, True), "b": told(0.0, True), "d": told(2.0, True)},
        seats=tuple(seats),
        teams={"ab": ["a", "b"], "cd": ["c", "d"]},
    )
    rows = RewardRows(SeatRows(lambda: game, 4), TEAMS, settings)
    rows.progress = progress
    policy = random_policy(0)
    obs, rewards = rows.reset(), []
    for _ in range(2):
        obs = rows.act(policy(obs))
        rewards.append(obs.reward.tolist())
    again = rows.act(policy(obs))  # another game: the clock starts anew
    return rewards, again.reward.tolist(), obs.metrics["episodic_reward"].tolist()


def test_rows_shape_rewards_step_by_step():
    plain, _, metrics = played(SelfPlayConfig(minutes_per_step=0.0))
    assert plain == [[4.0, 0.0, 6.0, 2.0], [4.0, 0.0, 0.0, 2.0]]
    # The first step is minute 0 and the second minute 10, when c is out.
    both = SelfPlayConfig(zero_sum=True, team_spirit=1.0, minutes_per_step=10.0)
    (first, second), again, metrics = played(both)
    # [0, -4, 4, 0] as above; the means are -2 and 2.
    assert first == [-2.0, -2.0, 2.0, 2.0]
    # 4 - 2, 0 - 2, 2 - 2; the means are 0 and 0.
    assert second == [0.0, 0.0, 0.0, 0.0]
    assert again == first
    assert metrics[0] == 8.0  # of the game itself: 4 + 4
    spirit = SelfPlayConfig(team_spirit=0.2, team_spirit_end=0.97, minutes_per_step=10.0)
    (first, second), _, _ = played(spirit, progress=1.0)
    assert first == pytest.approx([2.06, 1.94, 4.06, 3.94])
    # 0.6 * 2.06, 0.6 * 1.94; d is alone in its team: 0.6 * 2.
    assert second == pytest.approx([1.236, 1.164, 0.0, 1.2])
