"""Rows that play the same instances are each other's baseline: by hand, resumed, and learning."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.trainer_runs import metrics, small_config

from entity_env.errors import SettingError
from ppo_trainer import PPOConfig, RolloutConfig, train
from ppo_trainer.algorithms.group_baseline import GroupReturns
from ppo_trainer.experience.rollout import Decisions, Trajectories


def played(rows, rewards, ends, next_values):
    """Decisions of which only the outcomes matter."""
    decisions = Decisions(
        batch=None,
        chosen={},
        log_probs={},
        values=torch.zeros(len(rows)),
        rows=np.array(rows, np.int64),
        rewards=np.array(rewards, np.float32),
    )
    return Trajectories(
        decisions,
        np.array(ends, bool),
        np.zeros(len(rows), np.float32),
        np.array(next_values, np.float32),
    )


def test_each_episode_is_compared_with_those_of_the_other_copies():
    """Rows 0 to 2 are a group, gamma 1; the value function's advantages are all 9.

    Rollout 1: row 0 ends its first episode with 1 + 2 = 3, then gets 5 in its second one, where it
    is alone. Row 1 has got 1 and expects 4 more: 5. Row 2 ends with 7. Against the mean of the two
    others: row 0: 3 - (5 + 7) / 2 = -3, row 1: 5 - (3 + 7) / 2 = 0, row 2: 7 - (3 + 5) / 2 = 3.
    Row 2 has not begun its second episode, so that row 0 keeps its 9 there.
    """
    groups = GroupReturns(3, copies=3)
    first = played(
        rows=[0, 1, 0, 2, 0],
        rewards=[1, 1, 2, 7, 5],
        ends=[False, False, True, True, False],
        next_values=[1, 4, 100],
    )
    found = groups.advantages(first, np.full(5, 9.0), 1.0, normalized=False)
    assert found.tolist() == [-3, 0, -3, 3, 9]
    # Rollout 2: row 1 ends the first episode with 1 + 8 = 9: 9 - (3 + 7) / 2 = 4. In the second one
    # row 0 gets 1 and ends with 6; row 2 gets 2 and expects 2 more: 4. 6 - 4 = 2, 4 - 6 = -2.
    second = played(
        rows=[0, 1, 2], rewards=[1, 8, 2], ends=[True, True, False], next_values=[0, 0, 2]
    )
    found = groups.advantages(second, np.full(3, 9.0), 1.0, normalized=False)
    assert found.tolist() == [2, 4, -2]
    assert list(groups.ended) == [(0, 1)], "the first episode has been ended by all"


def test_a_saved_state_goes_on():
    one, other = GroupReturns(2, copies=2), GroupReturns(2, copies=2)
    one.advantages(
        played([0, 1], [3, 1], [True, False], [0, 1]), np.zeros(2), 0.5, normalized=False
    )
    other.set_state(json.loads(json.dumps(one.get_state())))
    last = played([1], [4], [True], [0, 0])
    # Row 1: 1 + 0.5 * 4 = 3, as row 0's 3.
    assert other.advantages(last, np.ones(1), 0.5, normalized=False).tolist() == [0]
    with pytest.raises(ValueError, match="2 rows"):
        GroupReturns(4, copies=2).set_state(one.get_state())


def test_differences_in_units_of_the_group_s_deviation():
    """Returns 1, 1, 1, 5: mean 2, variance (3 + 9) / 4 = 3. -1 / 1.732 = -0.577, 3 / 1.732."""
    groups = GroupReturns(4, copies=4)
    outcome = played([0, 1, 2, 3], [1, 1, 1, 5], [True] * 4, [0] * 4)
    found = groups.advantages(outcome, np.zeros(4), 1.0, normalized=True)
    assert found == pytest.approx([-(3**-0.5)] * 3 + [3**0.5])


def test_discounts_and_cut_off_episodes_count():
    """Gamma 0.5. Row 0: 4 + 0.5 * (2 + 0.5 * 8) = 7, 8 for what the limit cut off. Row 1: 1."""
    groups = GroupReturns(2, copies=2)
    cut = played([0, 1, 0], [4, 1, 2], [False, True, True], [0, 0])
    cut = replace(cut, final_values=np.array([0, 0, 8], np.float32))
    assert groups.advantages(cut, np.zeros(3), 0.5, normalized=False).tolist() == [6, -6, 6]


@pytest.mark.parametrize("env", [{"copies": 1}, {}, {"copies": True}])
def test_a_group_baseline_needs_groups(env):
    with pytest.raises(SettingError, match=r"env\.copies=2 or more"):
        small_config(
            env={"_target_": "job_shop", **env}, ppo=PPOConfig(minibatch_size=12, baseline="group")
        )


@pytest.mark.parametrize("baseline", ["group", "group_normalized"])
def test_a_resumed_run_equals_one_never_stopped(tmp_path, baseline):
    config = small_config(
        env={"_target_": "support.trainer_envs.CopiedForaging", "copies": 4},
        run_dir=str(tmp_path),
        rollout=RolloutConfig(num_envs=8, steps=6),
        ppo=PPOConfig(minibatch_size=12, baseline=baseline, gamma=1.0),
        total_timesteps=240,
    )
    whole = train(replace(config, run_name="whole"))
    stopped = train(replace(config, run_name="stopped"), stop=lambda update: update == 2)
    train(replace(config, resume=str(stopped.run)))
    assert metrics(stopped.run) == metrics(whole.run)
    by_value = train(replace(config, run_name="value", ppo=PPOConfig(minibatch_size=12, gamma=1.0)))
    assert metrics(by_value.run) != metrics(whole.run)
