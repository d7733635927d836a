"""Games that a script begins."""

from __future__ import annotations

import numpy as np
import pytest
from support.tiny_envs import Chain

from entity_env import CategoricalAction
from entity_env.errors import SettingError
from entity_env.wrappers import Curriculum

RIGHT = {"Go": CategoricalAction(["w"], np.array([1]), ["left", "right"])}


class Script:
    """Goes right, and counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self, observation):
        self.asked += 1
        return RIGHT


def test_the_script_plays_the_first_steps():
    script = Script()
    env = Curriculum(Chain(100), script, most=9, factor=1.0)
    env.seed(0)
    begins = []
    for _ in range(2000):
        before = script.asked
        observation = env.reset()
        begins.append(int(observation.features["Walker"][0][0]))
        assert script.asked - before == begins[-1]  # the clock of Chain counts its steps
        assert observation.reward == 0.0  # what the script has earned is nobody's
    counts = np.bincount(begins, minlength=10)
    # Each of 0..9 has 200 of 2000 on average; a deviation is sqrt(2000 * 0.1 * 0.9) = 13.4.
    assert len(counts) == 10
    assert (abs(counts - 200) < 4.5 * 13.4).all()
    assert env.act(RIGHT).reward == begins[-1] + 1  # step t of Chain has reward t


def test_help_becomes_less():
    env = Curriculum(Chain(100), Script(), most=8, factor=0.5)
    env.seed(1)
    for most in (8, 4, 2, 1, 0.5):
        assert env.most == most
        assert env.reset().features["Walker"][0][0] <= int(most)
    for _ in range(20):
        assert env.reset().features["Walker"][0][0] == 0  # none is left


def test_a_game_that_the_script_ends_is_no_episode():
    env = Curriculum(Chain(3), Script(), most=5, factor=1.0)
    env.seed(2)
    for _ in range(200):
        assert not env.reset().done


def test_its_state_holds_how_much_it_helps():
    env = Curriculum(Chain(50), Script(), most=10, factor=0.5)
    env.seed(3)
    env.env.get_state = dict
    env.env.set_state = lambda state: env.env._observe()
    env.reset()
    state = env.get_state()
    env.reset()
    assert env.most == 2.5
    env.set_state(state)
    assert env.most == 5.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"script": 3}, "cannot be called"),
        ({"most": 0}, "most of Curriculum"),
        ({"factor": 1.5}, "from 0 to 1"),
        ({"factor": "half"}, "from 0 to 1"),
    ],
)
def test_what_cannot_be(settings, message):
    with pytest.raises(SettingError, match=message):
        Curriculum(**{"env": Chain(), "script": Script()} | settings)
