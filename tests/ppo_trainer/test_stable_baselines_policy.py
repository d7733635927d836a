"""RaggedNet is the policy of Stable-Baselines3's PPO."""

from __future__ import annotations

import numpy as np
import pytest
import torch

stable_baselines3 = pytest.importorskip("stable_baselines3")

from ragged_envs.minesweeper import MineSweeperRows  # noqa: E402
from support.strict_envs import assert_allowed, strict_rows  # noqa: E402
from torch.testing import assert_close  # noqa: E402

from entity_env.errors import SettingError  # noqa: E402
from entity_env.interop.padding import choose, pad  # noqa: E402
from ppo_trainer.stable_baselines import RaggedPolicy, _Frames, policy_settings  # noqa: E402
from ragged_net import EntityBatch, NetConfig  # noqa: E402

SMALL = NetConfig(dim=16, layers=1, heads=2)


def games(rows, cannons=1, **settings):
    settings = {"width": 4, "height": 4, "nmines": [1, 3], "nrobots": [1, 2], **settings}
    env = MineSweeperRows(rows, seed=0, orbital_cannon=cannons, cooldown_period=1, **settings)
    room = {"Mine": 3, "Robot": 2, "Orbital Cannon": cannons}
    actors = {"Move": 2, "Fire Orbital Cannon": cannons}
    return strict_rows(env, room, actors)


def ppo(env, **settings):
    torch.set_num_threads(1)
    kwargs = policy_settings(env, SMALL)
    return stable_baselines3.PPO(
        RaggedPolicy, env, policy_kwargs=kwargs, seed=0, device="cpu", **settings
    )


@pytest.mark.parametrize("cannons", [0, 1])
def test_two_thousand_steps_with_robots_and_a_cannon(cannons, tmp_path):
    env = games(8, cannons)
    model = ppo(env, n_steps=50, batch_size=100, n_epochs=2)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(2_000)  # strict: a forbidden choice would be an error
    assert model.num_timesteps == 2_000
    changed = zip(before, model.policy.parameters(), strict=True)
    assert any(not torch.equal(old, new) for old, new in changed)
    assert all(parameter.isfinite().all() for parameter in model.policy.parameters())
    assert float(model.policy.net.encoder.embedding.types[1].norm.count) > 1_000
    model.save(tmp_path / "model.zip")
    again = stable_baselines3.PPO.load(tmp_path / "model.zip", env=env, device="cpu")
    seen = env.reset()
    one, other = (m.predict(seen, deterministic=True)[0] for m in (model, again))
    np.testing.assert_array_equal(one, other)


def test_what_was_padded_is_packed_as_it_was_and_choices_find_their_way_back():
    """Twenty steps: the policy acts as its network does on the rows, which are not padded."""
    env = games(16, 2)
    policy, spaces = ppo(env, n_steps=8, batch_size=8).policy, env.padded.padded_spaces
    settings = {"width": 4, "height": 4, "nmines": [1, 3], "nrobots": [1, 2]}
    rows = MineSweeperRows(16, seed=1, orbital_cannon=2, cooldown_period=1, **settings)
    obs, fired = rows.reset(), 0
    for _ in range(20):
        frames = pad(obs, spaces)
        tensors = {name: torch.as_tensor(part) for name, part in frames.arrays.items()}
        batch = EntityBatch.from_obs(obs)
        own = _Frames(tensors, spaces).batch
        for name, entities in batch.entities.items():
            assert_close(own.entities[name].values, entities.values)
            assert own.entities[name].offsets.tolist() == entities.offsets.tolist()
        with torch.no_grad():
            expected = policy.net(batch, greedy=True)
            actions, values, log_prob = policy(tensors, deterministic=True)
            again = policy.evaluate_actions(tensors, actions)
        assert_close(values[:, 0], expected.value, rtol=1e-5, atol=1e-6)
        assert_close(again[1], log_prob, rtol=1e-5, atol=1e-6)
        assert_allowed(actions.numpy(), frames.masks, spaces.action_space.nvec)
        chosen = choose(actions.numpy(), frames, spaces)
        for name, action in expected.actions.items():
            got = chosen[name].as_array()[:, 0] if len(action.log_prob) else []
            assert list(got) == action.chosen.values.tolist()
        fired += len(expected.actions["Fire Orbital Cannon"].log_prob)
        obs = rows.act(chosen)
    assert fired > 10


@pytest.mark.learning
def test_it_learns():
    env = games(32, 0, nmines=2, nrobots=2, max_steps=30)
    model = ppo(
        env, n_steps=16, batch_size=256, n_epochs=4, learning_rate=5e-3, gamma=0.9, ent_coef=0.01
    )
    model.learn(20_000)
    returns = [episode["r"] for episode in model.ep_info_buffer]
    assert np.mean(returns) > 0.85  # chance wins half of these small boards


def test_a_memory_is_refused():
    with pytest.raises(SettingError, match="memory"):
        policy_settings(games(1), NetConfig(memory="lstm"))
