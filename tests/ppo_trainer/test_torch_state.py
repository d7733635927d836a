"""Runs neither depend on torch's global settings nor change them for the caller."""

import contextlib
import json
from dataclasses import replace

import pytest
import torch
from ragged_envs.xor import Xor

from ppo_trainer import TrainConfig, train
from ppo_trainer.agent import load_agent
from ppo_trainer.evaluate import evaluate_run

CONFIG = TrainConfig(
    env={"_target_": "xor"},
    total_timesteps=256,
    device="cpu",
    rollout={"num_envs": 16, "steps": 8},
    ppo={"minibatch_size": 64},
    net={"dim": 32, "layers": 1, "heads": 2},
    eval={"episodes": 4},
)


@contextlib.contextmanager
def default_dtype(dtype):
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def default_device(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


def state():
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_rng_state().tolist(),
    )


def results(folder, **changes):
    """A run's weights, what it logged, its evaluations, and what its agent does."""
    result = train(replace(CONFIG, run_dir=str(folder), run_name="run", **changes))
    records = map(json.loads, (result.run / "metrics.jsonl").read_text().splitlines())
    logged = [
        {name: number for name, number in record.items() if "loss" in name or "policy" in name}
        for record in records
    ]
    evaluated = [
        result.mean("episodic_reward") for result in evaluate_run(result.run, episodes=8, seed=3)
    ]
    agent, env = load_agent(result.run, seed=0, device="cpu"), Xor()
    env.seed(0)
    action = next(iter(agent.act(env.reset()).values()))
    weights = [parameter.detach().clone() for parameter in result.net.parameters()]
    return weights, logged, evaluated, action.probs.tolist(), agent.value(env.reset())


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return results(tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize(
    "surroundings",
    [
        lambda: default_dtype(torch.float64),
        lambda: default_dtype(torch.bfloat16),
        lambda: default_device("meta"),
        lambda: default_device("cpu"),
        lambda: torch.device("meta"),
        torch.no_grad,
        torch.inference_mode,
    ],
    ids=["float64", "bfloat16", "meta", "cpu", "in meta", "no_grad", "inference"],
)
def test_a_run_is_the_same_and_leaves_all_as_it_was(surroundings, expected, tmp_path):
    with surroundings():
        before = state()
        weights, *rest = results(tmp_path)
        assert state() == before
    assert all(map(torch.equal, weights, expected[0]))
    assert rest == list(expected[1:])


def test_autocast_around_a_run(expected, tmp_path):
    with torch.autocast("cpu"):  # for the agent it is the caller's own
        weights, logged, evaluated, *_ = results(tmp_path)
        assert torch.is_autocast_enabled("cpu")
    assert all(map(torch.equal, weights, expected[0]))
    assert [logged, evaluated] == list(expected[1:3])


def test_settings_are_put_back_after_an_error(tmp_path):
    with default_dtype(torch.float64), pytest.raises(Exception, match="nowhere"):
        evaluate_run(tmp_path / "nowhere")
    with default_dtype(torch.float64):
        with contextlib.suppress(Exception):
            load_agent(tmp_path / "nowhere")
        assert torch.get_default_dtype() == torch.float64


def test_first_weights_depend_on_the_seed_and_on_nothing_else(tmp_path):
    """Of a run whose learning rate is nearly nothing."""
    tiny = {"optim": {"lr": 1e-30}, "eval": {"episodes": 0}}
    torch.manual_seed(5)
    one, *_ = results(tmp_path / "one", **tiny)
    torch.manual_seed(6)
    again, *_ = results(tmp_path / "again", **tiny)
    other, *_ = results(tmp_path / "other", seed=2, **tiny)
    assert all(map(torch.equal, one, again))
    matrices = [(a, b) for a, b in zip(one, other, strict=True) if a.ndim > 1]
    assert len(matrices) > 4
    assert not any(torch.equal(a, b) for a, b in matrices)
