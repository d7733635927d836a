"""The games of ``envs/README.md`` work as they stand there, and are one game in both forms."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support.tiny_envs import assert_same_obs

from entity_env import CategoricalAction, ListEnv, check_env
from entity_env.errors import ResetNeededError
from entity_env.play import random_policy

pytestmark = pytest.mark.compiled
ROOT = Path(__file__).parents[2]
README = (ROOT / "envs" / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
NAMES = [re.match(r'"""(\w+)\.py: ', block).group(1) for block in BLOCKS]


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    """The modules, from files: compiled code is kept beside them."""
    folder = tmp_path_factory.mktemp("games")
    for name, block in zip(NAMES, BLOCKS, strict=True):
        (folder / f"{name}.py").write_text(block)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield [importlib.import_module(name) for name in NAMES]
    for name in NAMES:
        del sys.modules[name]


def test_both_forms_are_short():
    assert NAMES == ["gather", "gather_rows", "gather_alone"]
    python, compiled, alone = (len(block.splitlines()) for block in BLOCKS)
    assert python <= 60
    assert compiled <= 120
    assert alone <= 10


def test_every_file_that_is_named_exists():
    named = re.findall(r"`((?:envs|entity_env|tests|benchmarks)/[\w/.]+)`", README)
    assert len(named) >= 4
    for target in named:
        assert (ROOT / target).exists(), target


def test_the_forms_for_single_games_have_no_mistakes(games):
    check_env(games[0].Gather)
    check_env(games[2].GatherAlone)


SETTINGS = {
    "as it is": {},
    "crowded": {"size": 3, "robots": 4, "foods": 8},
    "short": {"max_steps": 3, "robots": 1},
}


# Whether limits cut episodes off, or all food was eaten.
ENDS = {"as it is": {True, False}, "crowded": {False}, "short": {True}}


@pytest.mark.parametrize("name", SETTINGS)
def test_both_forms_play_the_same_game(games, name):
    gather, gather_rows, _ = games

    class Told(gather.Gather):
        """Starts its episodes where it is told to: the two draw other random numbers."""

        def reset(self):
            super().reset()
            self.robots = [list(robot) for robot in self.start["robots"]]
            self.food = [list(food) for food in self.start["food"][: self.start["left"]]]
            return self.observe(0.0)

    ends = set()
    for seed in range(20):
        rows = gather_rows.GatherRows(8, seed, **SETTINGS[name])
        envs = [Told(**SETTINGS[name]) for _ in range(8)]
        made = iter(envs)
        listed = ListEnv(lambda made=made: next(made), 8)
        policy, obs = random_policy(seed), rows.reset()
        hand_over(rows, envs)
        assert_same_obs(obs, listed.reset())
        for _ in range(45):
            actions = policy(obs)
            obs = rows.act(actions)
            hand_over(rows, envs)
            assert_same_obs(obs, listed.act(actions))
            ends |= set(obs.truncated[obs.done].tolist())
    assert ends == ENDS[name]


def test_a_single_game_plays_the_same_when_it_is_compiled(games):
    ends = set()
    for seed in range(3):
        both = [games[2].GatherAlone(max_steps=15, compiled=compiled) for compiled in (False, True)]
        for env in both:
            env.seed(seed)
        shown, draw = [env.reset() for env in both], np.random.default_rng(seed)
        while not shown[0].done:
            mask = shown[0].actions["Move"]
            moves = [int(draw.choice(np.flatnonzero(own))) for own in mask.mask]
            ids = [("Robot", i) for i in range(len(moves))]
            action = CategoricalAction(actors=ids, indices=moves, index_to_label=[])
            shown = [env.act({"Move": action}) for env in both]
            assert repr(shown[0]) == repr(shown[1])
        ends.add(shown[0].truncated)
        with pytest.raises(ResetNeededError):  # it is not begun again by itself
            both[1].act({"Move": action})
        state = both[0].reset(), both[1].reset()
        assert repr(state[0]) == repr(state[1])
    assert True in ends


def hand_over(rows, envs):
    for env, saved in zip(envs, rows.get_state(), strict=True):
        env.start = saved["env"]
