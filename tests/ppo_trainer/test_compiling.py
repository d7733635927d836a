"""Compilation before the first update, with a helper process."""

import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

pytest.importorskip("numba")

from ragged_envs.minesweeper import MineSweeper

from entity_env import ListEnv
from ppo_trainer.config import TrainConfig
from ppo_trainer.machine import device
from ppo_trainer.machine.device import compiling
from ragged_net import NetConfig, kernels

TRAINED_AFTER_A_STEP = """
from ppo_trainer.machine import compile_ahead as ahead
from ppo_trainer.config import config_from_dict
from ppo_trainer.environments import make_factory
from ppo_trainer.loop import train
from ragged_net import RaggedNet

config = config_from_dict({
    "env": {"_target_": "minesweeper", "orbital_cannon": True},
    "total_timesteps": 256,
    "net": {"dim": 32, "layers": 2, "heads": 2},
    "ppo": {"minibatch_size": 128},
    "rollout": {"num_envs": 16, "steps": 8},
    "eval": {"episodes": 0},
    "run_dir": "runs",
})
game = make_factory(config, None)()
ahead._step(RaggedNet(game.obs_space(), game.action_space(), config.net))
print("left out:", *(call.args for call in ahead._postponed(lambda: train(config))))
"""


def test_a_run_calls_no_kernel_in_another_way_than_the_step_that_is_compiled_ahead(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TRAINED_AFTER_A_STEP],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "left out:"


@pytest.fixture
def helped(monkeypatch):
    """Two cores, and nothing has been compiled before; the networks that get help."""
    configs = []

    def compiling_ahead(obs_space, action_space, *own):
        configs.append(own)
        return nullcontext()

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    monkeypatch.setattr(kernels.load("jit"), "is_cached", lambda _: False)
    monkeypatch.setattr(device, "compiling_ahead", compiling_ahead)
    return configs


def enter(where="cpu", **changes):
    """Begin to compile for a run with these settings."""
    config = replace(TrainConfig(), **changes)
    with ListEnv(MineSweeper, 1) as rows, compiling(config, rows, torch.device(where)):
        pass


def test_a_second_core_helps_with_the_networks_of_the_run(helped):
    net = NetConfig(dim=32)
    enter(net=net, value_net=True)
    assert helped == [(net, net)]


def test_one_core_compiles_alone(helped, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    enter()
    assert not helped


def test_where_nothing_is_kept_each_run_compiles_alone(helped, monkeypatch):
    block = kernels.load("block")
    monkeypatch.setattr(block, "block_backward", block.block_backward.py_func)
    enter()
    assert not helped


@pytest.mark.parametrize(
    "other",
    [{"net": NetConfig(attention="grouped")}, {"net": NetConfig(dim=24)}, {"where": "cuda"}],
)
def test_nobody_helps_where_blocks_are_not_compiled(helped, other):
    enter(**other)
    assert not helped


def test_nobody_helps_where_blocks_were_compiled_before(helped, monkeypatch):
    def other_than(kernel):
        return lambda asked: asked is not kernel

    block = kernels.load("block")
    for kernel in (block.block_forward, block.block_backward):
        monkeypatch.setattr(kernels.load("jit"), "is_cached", other_than(kernel))
        enter()
    assert len(helped) == 2
    monkeypatch.setattr(kernels.load("jit"), "is_cached", lambda _: True)
    helped.clear()
    enter()
    assert not helped
