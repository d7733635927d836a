"""What one action has become decides the next one, where they are decided in order."""

import dataclasses

import pytest
from learning_support import SMALL_NET, small_config, train_and_play
from support.chained_envs import CallAndTouch

pytestmark = pytest.mark.learning

STEPS = 20_000


def played(tmp_path, order):
    config = small_config(
        tmp_path,
        steps=STEPS,
        net=dataclasses.replace(SMALL_NET, action_order=order),
        ppo={"gamma": 0.0, "entropy_coef": 0.1, "entropy_schedule": "linear"},
    )
    # Greedily the call would always be the same, which pays once.
    _, sampled, _ = train_and_play(config, CallAndTouch, episodes=1000)
    return sampled.mean("episodic_reward") / CallAndTouch.best_return


def test_the_touch_follows_the_call(tmp_path):
    assert played(tmp_path, ["Call", "Touch"]) > 0.95


def test_the_call_follows_the_touch(tmp_path):
    assert played(tmp_path, ["Touch", "Call"]) > 0.95


def test_independent_heads_get_less_than_half(tmp_path):
    assert played(tmp_path, None) < 0.5
