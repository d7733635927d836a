"""Continuous actions in rollouts, losses, checkpoints and agents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.continuous_envs import Aim
from support.trainer_runs import collect_with

from entity_env import ContinuousAction, GlobalContinuousAction, ListEnv
from entity_env.errors import CheckpointError
from ppo_trainer import (
    CheckpointConfig,
    EvalConfig,
    OptimConfig,
    PPOConfig,
    RolloutConfig,
    TrainConfig,
    train,
)
from ppo_trainer.agent import load_agent
from ppo_trainer.experience.acting import values_of
from ppo_trainer.experience.pending import pending_from_tensors, pending_to_tensors
from ppo_trainer.experience.rollout import Decisions
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ragged_net import EntityBatch, NetConfig, RaggedNet

SMALL = NetConfig(dim=32, layers=1, heads=2)


def config(folder: Path, **more) -> TrainConfig:
    settings = {
        "seed": 1,
        "total_timesteps": 256,
        "device": "cpu",
        "run_dir": str(folder),
        "rollout": RolloutConfig(num_envs=8, steps=8),
        "net": SMALL,
        "optim": OptimConfig(schedule="constant"),
        "ppo": PPOConfig(minibatch_size=32, epochs=1),
        "eval": EvalConfig(episodes=0),
        "checkpoint": CheckpointConfig(every=2),
    }
    return TrainConfig(**{**settings, **more})


def network() -> RaggedNet:
    env = Aim()
    torch.manual_seed(0)
    return RaggedNet(env.obs_space(), env.action_space(), SMALL)


def test_a_rollout_holds_the_numbers_and_the_first_ratios_are_1(tmp_path):
    net, settings = network(), config(tmp_path)
    with ListEnv(Aim, 8) as rows:
        generator = torch.Generator().manual_seed(0)
        collected = collect_with(net, rows, rows.reset(), settings, generator)
    kept = collected.trajectories.decisions
    assert kept.chosen["Angle"].values.shape == (kept.chosen["Angle"].num_rows, 1)
    assert kept.chosen["Wind"].values.shape == (64, 2)
    again = net(kept.batch, given=values_of(kept.chosen), trusted=True)
    for name, log_probs in kept.log_probs.items():
        torch.testing.assert_close(
            again.actions[name].log_prob, log_probs.values, atol=2e-5, rtol=1e-5
        )


def pending(net: RaggedNet) -> Decisions:
    with ListEnv(Aim, 3) as rows, torch.no_grad():
        batch = EntityBatch.from_obs(rows.reset())
        output = net(batch)
    buffer = RolloutBuffer(3, 1)
    buffer.begin()
    buffer.decide(np.arange(3), batch, output)
    none = np.zeros(0, np.float32)
    _, waiting = buffer.complete(none, none, np.zeros(0, np.int64))
    assert waiting is not None
    return waiting


def test_decisions_that_wait_survive_a_checkpoint():
    net = network()
    before = pending(net)
    after = pending_from_tensors(pending_to_tensors(before), net, 3)
    for name in ("Angle", "Wind"):
        assert torch.equal(after.chosen[name].values, before.chosen[name].values)
        assert torch.equal(after.log_probs[name].values, before.log_probs[name].values)
        actors = before.batch.actions[name].actors
        assert torch.equal(after.batch.actions[name].actors.values, actors.values)


def test_damaged_numbers_in_a_checkpoint_are_refused():
    net = network()
    for value in (11.0, float("nan")):
        tensors = pending_to_tensors(pending(net))
        tensors['["chosen", "Wind", "values"]'][0, 0] = value
        with pytest.raises(CheckpointError, match="damaged"):
            pending_from_tensors(tensors, net, 3)


def test_an_agent_says_its_numbers_with_means_and_deviations(tmp_path):
    run = train(config(tmp_path), env=Aim).run
    env = Aim()
    env.seed(3)
    observation = env.reset()
    while not len(env.goals):
        observation = env.reset()
    agent = load_agent(run, seed=0)
    drawn, greedy = agent.act(observation), agent.act(observation, greedy=True)
    angle, wind = greedy["Angle"], greedy["Wind"]
    assert isinstance(angle, ContinuousAction)
    assert isinstance(wind, GlobalContinuousAction)
    assert angle.mean.shape == angle.std.shape == angle.values.shape == (len(env.goals), 1)
    assert wind.mean.shape == wind.std.shape == wind.values.shape == (2,)
    np.testing.assert_allclose(angle.values, np.clip(angle.mean, -2, 2), rtol=1e-6)
    assert not np.array_equal(drawn["Wind"].values, wind.values)
    env.act(greedy)
