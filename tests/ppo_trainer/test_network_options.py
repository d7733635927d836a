"""Options of the network in runs: the command line, checkpoints, agents, losses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from support.chained_envs import CallAndTouch
from support.trainer_runs import assert_same, parameters, small_config

from entity_env import batch_obs
from ppo_trainer import PPOConfig, train
from ppo_trainer.agent import load_agent
from ppo_trainer.algorithms.losses import minibatch_scale, ppo_losses
from ppo_trainer.experience.acting import values_of
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.runs.load_run import load_net
from ragged_net import EntityBatch, NetConfig, RaggedNet

NET = NetConfig(dim=32, layers=1, heads=2, action_order=["Call", "Touch"], value_norm="popart")


def test_a_run_keeps_its_order_and_the_scale_of_its_values(tmp_path):
    result = train(small_config(run_dir=str(tmp_path), net=NET), env=CallAndTouch)
    loaded = load_net(str(result.run), "cpu")
    assert loaded.net.config == NET
    assert loaded.net.config.action_order == ("Call", "Touch")
    assert_same(parameters(loaded.net), parameters(result.net))
    assert float(result.net.value_std) != 1.0
    env = CallAndTouch()
    env.seed(0)
    actions = load_agent(result.run, seed=1).act(env.reset())
    assert actions["Touch"].probs.shape == (1, 4)
    env.act(actions)


@pytest.mark.parametrize("clip_value", [False, True])
def test_a_value_loss_in_units_of_the_deviation(clip_value):
    torch.manual_seed(0)
    env = CallAndTouch()
    env.seed(0)
    net = RaggedNet(env.obs_space(), env.action_space(), NET)
    shown = batch_obs([env.reset() for _ in range(6)], env.obs_space(), env.action_space())
    batch = EntityBatch.from_obs(shown)
    first = net(batch)
    part = Rollout(
        batch=batch,
        chosen={name: own.chosen for name, own in first.actions.items()},
        log_probs={n: o.chosen.with_values(o.log_prob.detach()) for n, o in first.actions.items()},
        values=1000 * torch.randn(6),
        advantages=torch.randn(6),
        returns=1000 * torch.randn(6),
    )
    net.update_value_norm(part.returns)
    output, std = net(batch, given=values_of(part.chosen)), net.value_std
    assert std is not None
    config = PPOConfig(clip_value=clip_value)
    found = ppo_losses(output, part, minibatch_scale(part), config, std)
    value, old, target = (x.detach() / std for x in (output.value, part.values, part.returns))
    error = (value - target) ** 2
    if clip_value:
        error = torch.maximum(error, (old + (value - old).clamp(-0.2, 0.2) - target) ** 2)
    assert float(found["loss/value"].detach()) == pytest.approx(0.5 * float(error.mean()), rel=1e-4)


def test_values_of_the_agent_are_in_the_unit_of_the_rewards(tmp_path):
    class Rich(CallAndTouch):
        def act(self, actions):
            seen = super().act(actions)
            return dataclasses.replace(seen, reward=1000 * seen.reward + 500)

    config = small_config(run_dir=str(tmp_path), net=NET, total_timesteps=480)
    net = train(config, env=Rich).net
    env = Rich()
    env.seed(0)
    shown = batch_obs([env.reset()], env.obs_space(), env.action_space())
    # 500 at least at each of 8 steps, discounted a little.
    assert float(net.value(EntityBatch.from_obs(shown))) > 500
    assert np.isfinite(float(net.value_std))
