"""The kind of action and the head that CONTRIBUTING.md adds: applied to a copy, and run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
HEADINGS = ("How to add a kind of action", "How to add a head")

USE = """
import torch
from entity_env import *
from entity_env.checking.check_env import check_env
from entity_env.kinds.table import kind_of
from entity_env.spaces import YesNoActionSpace
from entity_env.storage.space_json import spaces_from_json, spaces_to_json
from ppo_trainer import EvalConfig, OptimConfig, RolloutConfig, TrainConfig, train
from ragged_net import NetConfig
from ragged_net.heads.yes_no import YesNoHead

SPACE = ObsSpace(entities={"Voter": Entity(["x"])})

class Vote(Environment):
    def obs_space(self):
        return SPACE
    def action_space(self):
        return {"Vote": YesNoActionSpace()}
    def reset(self):
        self.x = self.rng.normal(size=(int(self.rng.integers(1, 5)), 1))
        return self.show(0.0, False)
    def act(self, actions):
        right = [label == ("yes" if x > 0 else "no")
                 for x, label in zip(self.x[:, 0], actions["Vote"].labels, strict=True)]
        return self.show(sum(right) / len(right), True)
    def show(self, reward, done):
        actions = {"Vote": CategoricalActionMask()}
        return Observation(
            features={"Voter": self.x.copy()}, actions=actions, reward=reward, done=done
        )

check_env(Vote)
spaces = SPACE, Vote().action_space()
assert spaces_from_json(spaces_to_json(*spaces)) == spaces
assert spaces_to_json(*spaces)["actions"] == [{"kind": "yes_no", "name": "Vote"}]
config = TrainConfig(
    total_timesteps=12_000,
    net=NetConfig(dim=32, layers=1),
    rollout=RolloutConfig(num_envs=64, steps=8),
    optim=OptimConfig(lr=5e-3),
    eval=EvalConfig(episodes=100),
)
result = train(config, env=Vote)
assert isinstance(result.net.heads[0], YesNoHead)
greedy = result.evaluations[0]
assert greedy.mean("episodic_reward") > 0.95, greedy  # half of it by saying anything
"""


def diff_under(heading):
    """The one diff in the section of CONTRIBUTING.md with this heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    (diff,) = re.findall(r"^```diff\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return diff


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy")
    for package in ("entity_env", "ragged_net", "ppo_trainer", "envs"):
        shutil.copytree(ROOT / package, folder / package)
    for heading in HEADINGS:
        command = ["patch", "-p1", "--fuzz=0"]
        subprocess.run(command, input=diff_under(heading), text=True, cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_diff_is_short(heading):
    assert 10 < len(diff_under(heading).splitlines()) <= 40


def test_the_new_kind_is_checked_saved_and_trained(copy):
    (copy / "use.py").write_text(USE)
    done = subprocess.run([sys.executable, "use.py"], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
