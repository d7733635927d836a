"""Options of the network in runs: the command line, checkpoints, agents, losses."""

from __future__ import annotations

import dataclasses

import numpy as np
from support.chained_envs import CallAndTouch
from support.trainer_runs import assert_same, parameters, small_config

from entity_env import batch_obs
from ppo_trainer import train
from ppo_trainer.agent import load_agent
from ppo_trainer.runs.load_run import load_net
from ragged_net import EntityBatch, NetConfig

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
