"""Acting a part of the rows at a time is acting in all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.random_obs import ACTION_SPACE, OBS_SPACE, random_observation

from entity_env import batch_obs
from ppo_trainer.experience import acting
from ragged_net import EntityBatch, NetConfig, RaggedNet, RaggedTensor

CPU = torch.device("cpu")


def assert_close(a, b):
    if isinstance(a, RaggedTensor):
        assert torch.equal(a.offsets, b.offsets)
        a, b = a.values, b.values
    assert a.dtype == b.dtype
    torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("frames", [1, 4, 5, 13])
def test_parts_are_the_whole(monkeypatch, frames):
    monkeypatch.setattr(acting, "MOST_FRAMES", 4)
    rng = np.random.default_rng(frames)
    observations = [random_observation(rng) for _ in range(frames)]
    batch = EntityBatch.from_obs(batch_obs(observations, OBS_SPACE, ACTION_SPACE))
    torch.manual_seed(1)
    net = RaggedNet(OBS_SPACE, ACTION_SPACE, NetConfig(dim=32, layers=1))
    with torch.no_grad():
        parts = acting.act(net, batch, torch.Generator().manual_seed(1))
        # What each part has chosen, looked up in the network's answer to all of them at once.
        chosen = {name: action.chosen.values for name, action in parts.actions.items()}
        whole = net(batch, given=chosen)
        values = acting.value(net, batch, rows=3)
    assert_close(parts.value, whole.value)
    assert_close(values, whole.value)
    assert parts.actions.keys() == whole.actions.keys()
    for name, action in parts.actions.items():
        for part in ("chosen", "log_prob", "entropy", "probs"):
            assert_close(getattr(action, part), getattr(whole.actions[name], part))


def test_a_cpu_acts_in_parts_and_a_gpu_a_step_at_once(monkeypatch):
    monkeypatch.setattr(acting, "MOST_FRAMES", 2)
    rng = np.random.default_rng(0)
    observations = [random_observation(rng) for _ in range(5)]
    batch = EntityBatch.from_obs(batch_obs(observations, OBS_SPACE, ACTION_SPACE))
    assert [part.num_frames for part, _ in acting._parts(batch, 2, None)] == [2, 2, 1]
    assert [acting._at_once(CPU, rows) for rows in (1, 2, 5)] == [2, 2, 2]
    assert [acting._at_once(torch.device("cuda"), rows) for rows in (1, 2, 5)] == [2, 2, 5]
