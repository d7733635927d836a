from dataclasses import replace

import numpy as np
import pytest
import torch
from support.tiny_envs import Farm

from entity_env import ListEnv, RaggedBufferF32
from entity_env.player.episodes import random_policy
from ppo_trainer.experience.tensors import to_batch, to_value_batch
from ragged_net import EntityBatch, NetConfig, RaggedNet
from ragged_net.errors import ShapeError

CPU = torch.device("cpu")


def test_values_of_several_observations_are_those_of_each():
    net = RaggedNet(Farm().obs_space(), Farm().action_space(), NetConfig(dim=32))
    with ListEnv(Farm, 3, seed=5) as env:
        policy, seen = random_policy(1), [env.reset()]
        while len(seen) < 30:
            seen.append(env.act(policy(seen[-1])))
    parts = [*(obs.final for obs in seen if obs.final is not None), *seen]
    assert any("Food" in obs.visible for obs in parts)
    assert any("Food" not in obs.visible for obs in parts)
    batch = to_value_batch(parts, CPU)
    with torch.no_grad():
        expected = torch.cat([net.value(to_batch(obs, CPU)) for obs in parts])
        torch.testing.assert_close(net.value(batch), expected)
    alone = EntityBatch.cat([to_batch(obs, CPU) for obs in parts])
    torch.testing.assert_close(batch.global_features, alone.global_features)
    torch.testing.assert_close(dict(batch.visible), dict(alone.visible))
    for name, rows in alone.entities.items():
        torch.testing.assert_close(batch.entities[name].values, rows.values)
        assert batch.entities[name].offsets.tolist() == rows.offsets.tolist()
    assert not batch.actions


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
    with pytest.raises(ShapeError, match="do not fit its values"):
        to_batch(replace(obs, features={**obs.features, "Food": buffer}), CPU)
