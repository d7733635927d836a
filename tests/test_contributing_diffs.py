"""The diffs of CONTRIBUTING.md apply as they are printed there, and what they add works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ADDED = ("a loss term", "an environment", "a wrapper")

# The reward of Guess is 1 for the right place; halved and negated its sign is -1.
USES = """
import sys, numpy as np
sys.path.insert(0, {folder!r})
import importlib.util, entity_env
assert entity_env.__file__.startswith({folder!r})
spec = importlib.util.spec_from_file_location("guess", {folder!r} + "/envs/guess.py")
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
after = env.act({{"name": choice}})
assert (after.reward, after.done) == (-1.0, True), after
assert '"ragged_envs.guess.Guess"' in open({folder!r} + "/envs/__init__.py").read()
"""

# Two actors in two frames, log-ratios 0.2 and -0.4: (0.02 + 0.08) / 2 = 0.05.
LOSS = """
import sys
sys.path.insert(0, {folder!r})
import torch, ppo_trainer
assert ppo_trainer.__file__.startswith({folder!r})
from ppo_trainer import PPOConfig
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.experience.rollout import Rollout
from ragged_net import EntityBatch, NetOutput, RaggedTensor
from ragged_net.network import ActionOutput
one_each = torch.tensor([0, 1, 2])
old = RaggedTensor(torch.zeros(2), one_each)
chosen = RaggedTensor(torch.zeros(2, dtype=torch.int64), one_each)
zeros = torch.zeros(2)
part = Rollout(EntityBatch({{}}, torch.zeros(2, 0)), {{"go": chosen}}, {{"go": old}}, *[zeros] * 3)
log_prob = torch.tensor([0.2, -0.4], requires_grad=True)
output = NetOutput({{"go": ActionOutput(chosen, log_prob, zeros, torch.zeros(2, 2))}}, zeros)
algorithm = PPO(PPOConfig(kl_coef=0.5))
losses = algorithm.losses(output, part, algorithm.scale(part), None)
assert abs(losses["loss/kl"].item() - 0.05) < 1e-6, losses
assert algorithm.coefficients(0.0)["loss/kl"] == 0.5
losses["loss/kl"].backward()
torch.testing.assert_close(log_prob.grad, torch.tensor([0.1, -0.2]))
"""


def diff_of(title):
    """What stands under a heading, as it is printed."""
    found = re.search(rf"^### How to add {title}\n.*?^```diff\n(.*?)^```$", TEXT, re.M | re.S)
    assert found, f"CONTRIBUTING.md does not say how to add {title}"
    return found[1]


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A copy of the packages with all additions."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("entity_env", "ragged_net", "ppo_trainer", "envs"):
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for title in ADDED:
        subprocess.run(
            ["git", "apply", "-"], input=diff_of(title), text=True, cwd=folder, check=True,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
        )  # fmt: skip
    return folder


@pytest.mark.parametrize("title", ADDED)
def test_an_addition_is_short(title):
    assert 0 < len(diff_of(title).splitlines()) <= 40


def test_an_added_environment_is_played_through_an_added_wrapper(changed):
    run(USES, changed)


def test_an_added_term_is_in_the_loss(changed):
    pytest.importorskip("torch")
    run(LOSS, changed)


def run(code, folder):
    """Run code that finds the packages in the copy."""
    done = subprocess.run(
        [sys.executable, "-c", code.format(folder=str(folder))],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
