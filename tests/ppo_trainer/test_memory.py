import subprocess
import sys
from dataclasses import replace

import cloudpickle
import pytest

from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import make_factory
from ppo_trainer.machine import device as memory

MEASURE = """
import resource
import torch
from ppo_trainer.machine.device import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(10_000_000)  # 9,766 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.ones(10_000_000)  # 40 MB: more than glibc's own threshold ever grows to
usual = faults()
assert keep_freed_memory()
faults()
print(usual, faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a switch of glibc")
def test_freed_memory_is_used_again():
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    usual, kept = map(int, done.stdout.split())
    assert usual > 10 * 9_766  # most of the twenty arrays were mapped anew
    assert kept < 9_766  # not one of them was


def test_other_systems_go_without(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert not memory.keep_freed_memory()
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())  # such as musl
    assert not memory.keep_freed_memory()


@pytest.mark.parametrize("target", ["support.trainer_envs.Foraging", "tic_tac_toe"])
def test_workers_load_neither_torch_nor_this_package(target):
    """A worker would take two seconds and 150 MB for them."""
    game = make_factory(TrainConfig(env={"_target_": target}), None)
    for one in (game, replace(game, staggered=True), replace(game, shown=game.alone().obs_space())):
        assert b"ppo_trainer" not in cloudpickle.dumps(one.one)
