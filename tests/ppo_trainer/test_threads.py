"""``threads``: who gets them, and that training with several is repeatable."""

import os
from dataclasses import replace

import pytest
import torch

pytest.importorskip("numba")

from ppo_trainer.config import TrainConfig, config_from_dict
from ppo_trainer.device import use_threads
from ppo_trainer.train import train
from ragged_net import NetConfig, get_threads, set_threads, threads


@pytest.fixture(autouse=True)
def one_thread_afterwards():
    yield
    set_threads(1)
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("changes", "of_torch"),
    [
        ({"net": NetConfig(dim=64)}, 1),
        ({"net": NetConfig(dim=64, activation="gelu")}, 3),
        ({"net": NetConfig(dim=64, attention="grouped")}, 3),
        ({"net": NetConfig(dim=24)}, 3),
        ({"net": NetConfig(dim=64), "precision": "bfloat16"}, 3),
    ],
)
def test_torch_gets_them_where_blocks_are_not_compiled(changes, of_torch):
    use_threads(replace(TrainConfig(threads=3), **changes))
    assert (get_threads(), torch.get_num_threads()) == (3, of_torch)


def test_zero_takes_all_cores():
    use_threads(TrainConfig(threads=0))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert get_threads() == cores


def weights(tmp_path, number):
    config = config_from_dict(
        {
            "env": {"_target_": "minesweeper"},
            "total_timesteps": 512,
            "threads": number,
            "net": {"dim": 32, "layers": 1},
            "rollout": {"num_envs": 16, "steps": 16},
            "ppo": {"minibatch_size": 128, "epochs": 2},
            "eval": {"episodes": 0},
            "run_dir": str(tmp_path),
            "run_name": f"{number}-{len(list(tmp_path.iterdir()))}",
        }
    )
    return list(train(config).net.state_dict().values())


def test_training_with_several_threads_is_repeatable(monkeypatch, tmp_path):
    monkeypatch.setattr(threads, "LEAST", 1)
    three = weights(tmp_path, 3)
    assert all(map(torch.equal, three, weights(tmp_path, 3)))
    assert not all(map(torch.equal, three, weights(tmp_path, 1)))  # sums of another order
