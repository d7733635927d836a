"""Observations of rows as batches, and choices as actions of the rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.continuous_envs import Aim
from support.tiny_envs import Farm

from entity_env import ListEnv, RaggedBufferF32
from entity_env.errors import ActionError, BatchError
from entity_env.play import random_policy
from ragged_net import EntityBatch, NetConfig, RaggedNet


def network(env):
    return RaggedNet(env.obs_space(), env.action_space(), NetConfig(dim=32))


def test_a_network_plays_rows_with_the_way_there_and_back():
    """The environments receive the choices of the network, each actor its own."""
    with ListEnv(Farm, 3, seed=5) as env:
        net, obs = network(env), env.reset()
        for _ in range(10):
            output = net(EntityBatch.from_obs(obs))
            actions = output.actions_for(obs)
            for name, action in output.actions.items():
                actors = obs.action_masks[name].actors
                assert actions[name].size1().tolist() == actors.size1().tolist()
                assert actions[name].as_array()[:, 0].tolist() == action.chosen.values.tolist()
            obs = env.act(actions)  # which refuses masked choices


def test_numbers_stay_float32_rows():
    with ListEnv(Aim, 2, seed=1) as env:
        obs = env.reset()
        output = network(env)(EntityBatch.from_obs(obs))
        actions = output.actions_for(obs)
        for name, action in output.actions.items():
            assert isinstance(actions[name], RaggedBufferF32)
            np.testing.assert_array_equal(actions[name].as_array(), action.chosen.values.numpy())
        env.act(actions)


def test_choices_for_another_observation_are_refused():
    with ListEnv(Farm, 3, seed=5) as env:
        obs = env.reset()
        output = network(env)(EntityBatch.from_obs(obs))
    with ListEnv(Farm, 1, seed=5) as env:
        fewer = env.reset()
    with pytest.raises(ActionError, match="other actors"):
        output.actions_for(fewer)
    masks = {f"{name}s": mask for name, mask in obs.action_masks.items()}
    with pytest.raises(ActionError, match="has no action"):
        output.actions_for(replace(obs, action_masks=masks))


def test_values_of_several_observations_are_those_of_each():
    with ListEnv(Farm, 3, seed=5) as env:
        net = network(env)
        policy, seen = random_policy(1), [env.reset()]
        while len(seen) < 30:
            seen.append(env.act(policy(seen[-1])))
    parts = [*(obs.final for obs in seen if obs.final is not None), *seen]
    assert any("Food" in obs.visible for obs in parts)
    assert any("Food" not in obs.visible for obs in parts)
    batches = [EntityBatch.from_obs(obs) for obs in parts]
    batch = EntityBatch.cat([each.without_actions() for each in batches])
    assert not batch.actions
    with torch.no_grad():
        expected = torch.cat([net.value(each) for each in batches])
        torch.testing.assert_close(net.value(batch), expected)


def test_a_buffer_with_negative_lengths_is_refused():
    """ragged-buffer itself looks only at their sum; its stand-in refuses such lengths at once."""
    with ListEnv(Farm, 2, seed=5) as env:
        obs = env.reset()
    values, lengths = np.zeros((3, 2), np.float32), np.array([40, -37])
    if RaggedBufferF32.__module__.startswith("entity_env."):
        with pytest.raises(ValueError, match="negative length"):
            RaggedBufferF32.from_flattened(values, lengths)
        return
    buffer = RaggedBufferF32.from_flattened(values, lengths)
    with pytest.raises(BatchError, match="do not fit its values"):
        EntityBatch.from_obs(replace(obs, features={**obs.features, "Food": buffer}))
