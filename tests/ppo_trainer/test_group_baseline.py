"""Rows with the same random numbers are each other's baseline: by hand, resumed, and learning."""

from dataclasses import replace

import numpy as np
import pytest
from support.trainer_envs import SavedForaging
from support.trainer_runs import metrics, small_config

from entity_env.errors import SettingError
from ppo_trainer import PPOConfig, RolloutConfig, train
from ppo_trainer.algorithms.group_baseline import less_shared_luck


def test_what_the_others_had_in_the_same_step_is_subtracted():
    """Rows 0 to 2 are a group, rows 3 to 5 another; each decides once.

    Others' means B of 1, 2, 6: 4, 3.5, 1.5; of 10, 12, 14: 13, 12, 11. Mean of B: 7.5, of A: 7.5.
    cov = (-6.5)(-3.5) + (-5.5)(-4) + (-1.5)(-6) + 2.5 * 5.5 + 4.5 * 4.5 + 6.5 * 3.5 = 110.5,
    var = 3.5^2 + 4^2 + 6^2 + 5.5^2 + 4.5^2 + 3.5^2 = 127, c = 110.5 / 127.
    """
    advantages = np.array([1.0, 2, 6, 10, 12, 14])
    others = np.array([4, 3.5, 1.5, 13, 12, 11])
    found = less_shared_luck(advantages, np.arange(6), group=3)
    assert found == pytest.approx(advantages - 110.5 / 127 * others)


def test_decisions_of_the_same_step_are_compared_in_any_order():
    """Two steps, in which the luck of both rows is 5 and -5: nothing but the choices is left."""
    rows, luck, choice = np.array([1, 0, 0, 1]), np.array([5.0, 5, -5, -5]), 1e-3
    found = less_shared_luck(luck + choice * np.array([1, -1, 1, -1]), rows, group=2)
    assert np.abs(found).max() < 0.01
    assert np.sign(found).tolist() == [1, -1, 1, -1]


def test_rows_with_nothing_in_common_keep_their_advantages():
    advantages = np.random.default_rng(0).normal(size=4096)
    found = less_shared_luck(advantages, np.tile(np.arange(64), 64))
    assert np.std(found - advantages) < 0.05
    assert less_shared_luck(np.ones(3), np.arange(3), group=1).tolist() == [1, 1, 1]
    assert less_shared_luck(np.zeros(0), np.zeros(0, np.int64)).shape == (0,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "vtrace"}, "algorithm=vtrace"),
        ({"rollout": RolloutConfig(processes=2, asynchronous=True)}, "asynchronous"),
        ({"rollout": RolloutConfig(replays="replays")}, "rollout.replays"),
    ],
)
def test_rows_that_cannot_share_are_refused(changes, message):
    with pytest.raises(SettingError, match=message):
        small_config(ppo=PPOConfig(minibatch_size=12, baseline="group"), **changes)


def test_a_resumed_run_equals_one_never_stopped(tmp_path, capsys):
    config = small_config(
        run_dir=str(tmp_path),
        rollout=RolloutConfig(num_envs=15, steps=6),
        ppo=PPOConfig(minibatch_size=12, baseline="group"),
        total_timesteps=480,
    )
    whole = train(replace(config, run_name="whole"), SavedForaging)
    assert "rounded up to 16: games of 1 seat, 8 with the same random" in capsys.readouterr().out
    stopped = train(
        replace(config, run_name="stopped"), SavedForaging, stop=lambda update: update == 2
    )
    train(replace(config, resume=str(stopped.run)), SavedForaging)
    assert metrics(stopped.run) == metrics(whole.run)
