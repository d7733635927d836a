"""The diffs of docs/additions.md apply as they are printed there, and what they add works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "additions.md").read_text()
ADDED = ("a loss term", "an environment", "a wrapper", "a kind of action", "a head")

# The reward of Guess is 1 for the right place; halved and negated its sign is -1.
USES = """
import importlib.util, os
import numpy as np
import entity_env
assert entity_env.__file__.startswith(os.getcwd())
spec = importlib.util.spec_from_file_location("guess", "envs/guess.py")
guess = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guess)
from entity_env import CategoricalAction
from entity_env.wrappers import RewardScale
from entity_env.wrappers.reward_sign import RewardSign
inner = guess.Guess()
env = RewardSign(RewardScale(inner, scale=-0.5))
env.seed(1)
seen = env.reset()
choice = CategoricalAction([("Player", 0)], np.array([inner.place]), ["0", "1", "2"])
after = env.act({"name": choice})
assert (after.reward, after.done) == (-1.0, True), after
assert '"ragged_envs.guess.Guess"' in open("envs/__init__.py").read()
"""

# Two actors in two frames, log-ratios 0.2 and -0.4: (0.02 + 0.08) / 2 = 0.05.
LOSS = """
import torch, ppo_trainer
assert ppo_trainer.__file__.startswith(os.getcwd())
from ppo_trainer import PPOConfig
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.experience.rollout import Rollout
from ragged_net import EntityBatch, NetOutput, RaggedTensor
from ragged_net.network import ActionOutput
one_each = torch.tensor([0, 1, 2])
old = RaggedTensor(torch.zeros(2), one_each)
chosen = RaggedTensor(torch.zeros(2, dtype=torch.int64), one_each)
zeros = torch.zeros(2)
part = Rollout(EntityBatch({}, torch.zeros(2, 0)), {"go": chosen}, {"go": old}, *[zeros] * 3)
log_prob = torch.tensor([0.2, -0.4], requires_grad=True)
output = NetOutput({"go": ActionOutput(chosen, log_prob, zeros, torch.zeros(2, 2))}, zeros)
algorithm = PPO(PPOConfig(kl_coef=0.5))
losses = algorithm.losses(output, part, algorithm.scale(part), None)
assert abs(losses["loss/kl"].item() - 0.05) < 1e-6, losses
assert algorithm.coefficients(0.0)["loss/kl"] == 0.5
losses["loss/kl"].backward()
torch.testing.assert_close(log_prob.grad, torch.tensor([0.1, -0.2]))
"""

KIND = """
import torch
from entity_env import *
from entity_env.check import check_env
from entity_env.batching.kinds.table import kind_of
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


def diff_of(title):
    """Return the text under a heading, as it is printed."""
    found = re.search(rf"^##+ How to add {title}\n.*?^```diff\n(.*?)^```$", TEXT, re.M | re.S)
    assert found, f"docs/additions.md does not say how to add {title}"
    return found[1]


@pytest.mark.parametrize("title", ADDED)
def test_an_addition_is_short(title):
    assert 0 < len(diff_of(title).splitlines()) <= 40


def test_what_is_added_is_played_trained_and_in_the_loss(tmp_path):
    """All in one copy of the packages, and in one process, which would load torch again."""
    for package in ("entity_env", "ragged_net", "ppo_trainer", "envs"):
        shutil.copytree(ROOT / package, tmp_path / package)
    for title in ADDED:
        command = ["patch", "-p1", "--fuzz=0"]
        subprocess.run(command, input=diff_of(title), text=True, cwd=tmp_path, check=True)
    (tmp_path / "use.py").write_text(USES + LOSS + KIND)
    done = subprocess.run([sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
