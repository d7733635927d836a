"""``threads``: who gets them, and that training with several is repeatable."""

import os
from dataclasses import replace

import pytest
import torch

pytest.importorskip("numba")

from ppo_trainer.agent import load_agent
from ppo_trainer.config import TrainConfig, config_from_dict
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.loop import train
from ppo_trainer.machine.device import use_threads
from ragged_net import NetConfig, get_threads, set_threads
from ragged_net.kernels import threads


@pytest.fixture(autouse=True)
def one_thread_afterwards():
    yield
    set_threads(1)
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("changes", "device", "compiled"),
    [
        ({}, "cpu", True),
        ({"value_net": True}, "cpu", True),
        ({"net": NetConfig(attention="grouped")}, "cpu", False),
        ({"net": NetConfig(dim=24)}, "cpu", False),
        ({"precision": "bfloat16"}, "cpu", False),
        ({}, "cuda", False),
    ],
)
def test_torch_gets_them_where_blocks_are_not_compiled(changes, device, compiled):
    use_threads(replace(TrainConfig(threads=3), **changes), torch.device(device))
    expected = (3, 1) if compiled else (1, 3)
    assert (get_threads(), torch.get_num_threads()) == expected


def test_zero_takes_all_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 3}, raising=False)
    use_threads(TrainConfig(threads=0), torch.device("cpu"))
    assert get_threads() == 3


def train_with(number, folder):
    config = config_from_dict(
        {
            "env": {"_target_": "minesweeper"},
            "total_timesteps": 512,
            "threads": number,
            "net": {"dim": 32, "layers": 1},
            "rollout": {"num_envs": 16, "steps": 16},
            "ppo": {"minibatch_size": 128, "epochs": 2},
            "eval": {"episodes": 0},
            "run_dir": str(folder),
            "run_name": f"{number}-{len(list(folder.iterdir()))}",
        }
    )
    return train(config)


def test_training_with_several_threads_is_repeatable(monkeypatch, tmp_path):
    monkeypatch.setattr(threads, "LEAST", 1)
    three, again, one = (
        list(train_with(number, tmp_path).net.state_dict().values()) for number in (3, 3, 1)
    )
    assert all(map(torch.equal, three, again))
    assert not all(map(torch.equal, three, one))  # sums of another order


def test_an_agent_leaves_the_threads_of_a_program_alone_and_an_evaluation_does_not(tmp_path):
    run = train_with(3, tmp_path).run
    set_threads(2)
    torch.set_num_threads(2)
    load_agent(run)
    assert (get_threads(), torch.get_num_threads()) == (2, 2)
    evaluate_run(run, episodes=1)
    assert (get_threads(), torch.get_num_threads()) == (3, 1)
