"""Time limits of evaluations: the episodes that count do not depend on their lengths."""

from __future__ import annotations

import itertools

import numpy as np
from support.tiny_envs import Chain

from entity_env import CategoricalAction, ListEnv
from entity_env.play import PlayBudget, play_episodes, play_rows, play_scripted, random_policy


def steps(count, heard=None):
    """Time for ``count`` steps: the clock is read at the start and once in each step."""
    return PlayBudget(float(count), heard, now=itertools.count(0.0).__next__)


def lengths(*chains, episodes, budget):
    """The lengths of the episodes that count, of rows whose episodes have the lengths given."""
    made = iter(chains)
    played = play_episodes(
        lambda: Chain(next(made)), random_policy(0), episodes, 0, rows=len(chains), budget=budget
    )
    return sorted(played["episodic_length"].tolist())


def test_the_rows_count_equally_many_whole_episodes():
    # After 9 steps the row of 2 has ended four episodes, that of 4 two: two of each count.
    budget = steps(9)
    assert lengths(2, 4, episodes=40, budget=budget) == [2.0, 2.0, 4.0, 4.0]
    assert budget.cut_off == 0


def test_before_the_slowest_row_has_ended_one_its_first_episode_is_cut_off_and_counts():
    budget = steps(3)
    made = iter([2, 50, 60])
    played = play_episodes(
        lambda: Chain(next(made)), random_policy(0), 30, 0, rows=3, budget=budget
    )
    assert sorted(played["episodic_length"].tolist()) == [2.0, 3.0, 3.0]
    # 1 + 2, and twice 1 + 2 + 3; what the game reports at its end is known of the whole one only.
    assert sorted(played["episodic_reward"].tolist()) == [3.0, 6.0, 6.0]
    assert np.isnan(played["twice"]).sum() == 2
    assert budget.cut_off == 2


def test_however_short_the_time_is_every_row_plays_a_step():
    assert lengths(5, 5, episodes=8, budget=steps(0.5)) == [1.0, 1.0]


def test_a_row_that_has_played_its_share_does_not_hold_the_others_back():
    # 5 episodes: shares of 3 and 2. After 7 steps: three of 2 steps, one of 5 and two more steps.
    assert lengths(2, 5, episodes=5, budget=steps(7)) == [2.0, 5.0]
    # After 10 steps all have ended at the very moment at which the time is up.
    assert lengths(2, 5, episodes=5, budget=steps(10)) == [2.0, 2.0, 2.0, 5.0, 5.0]


def test_with_enough_time_nothing_changes():
    policy = random_policy(0)
    whole = play_episodes(lambda: Chain(3), policy, 7, 0, rows=3)
    timed = play_episodes(lambda: Chain(3), policy, 7, 0, rows=3, budget=steps(1000))
    assert whole.keys() == timed.keys()
    assert all(np.array_equal(whole[name], timed[name]) for name in whole)


def test_rows_that_a_limit_cuts_off_get_no_new_rows_when_the_time_is_up():
    made = []

    def make(count, seed):
        made.append(count)
        return ListEnv(lambda: Chain(300), count, seed)

    played = play_rows(make, random_policy(0), 6, 0, rows=2, max_steps=4, budget=steps(6))
    assert made == [2, 2]
    assert played["episodic_length"].tolist() == [4.0, 4.0]


def test_a_script_is_cut_off_in_the_episode_in_hand():
    def script(observation):
        return {"Go": CategoricalAction(["w"], np.array([0]), ["left", "right"])}

    budget = steps(8)
    played = play_scripted(lambda: Chain(3), script, 100, 0, budget=budget)
    assert played["episodic_length"].tolist() == [3.0, 3.0, 2.0]
    assert played["episodic_reward"].tolist() == [6.0, 6.0, 3.0]
    assert budget.cut_off == 1
    budget = steps(6)  # over just when an episode ends
    assert play_scripted(lambda: Chain(3), script, 100, 0, budget=budget)[
        "episodic_length"
    ].tolist() == [3.0, 3.0]
    assert budget.cut_off == 0


def test_whoever_listens_hears_after_every_step_how_many_have_ended():
    heard = []
    lengths(2, 4, episodes=4, budget=PlayBudget(heard=heard.append))
    assert heard == [0, 1, 1, 3, 3, 3, 3, 4]
