"""Stable-Baselines3's MaskablePPO plays MineSweeper through Gymnasium."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")
sb3_contrib = pytest.importorskip("sb3_contrib")

from ragged_envs.minesweeper import MineSweeper  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402
from support.strict_envs import StrictEnv  # noqa: E402

from entity_env.interop import EntityGymnasiumEnv  # noqa: E402


def minesweeper():
    game = MineSweeper(3, 3, 1, 1, max_steps=10)
    room = {"Mine": 1, "Robot": 1, "Orbital Cannon": 0}
    return StrictEnv(game, room, {"Move": 1, "Fire Orbital Cannon": 0})


@pytest.mark.filterwarnings("ignore:.*unconventional shape")  # it likes vectors and pictures best
def test_its_own_checker_finds_no_fault():
    room = {"Mine": 1, "Robot": 1, "Orbital Cannon": 0}
    check_env(EntityGymnasiumEnv(MineSweeper(3, 3, 1, 1, max_steps=10), room))


@pytest.mark.learning
def test_maskable_ppo_learns_minesweeper():
    import torch

    torch.set_num_threads(1)
    model = sb3_contrib.MaskablePPO(
        "MultiInputPolicy",
        minesweeper(),
        n_steps=500,
        batch_size=250,
        n_epochs=8,
        learning_rate=5e-3,
        gamma=0.9,
        policy_kwargs={"net_arch": [32, 32]},
        seed=1,
        device="cpu",
    )
    model.learn(5_000)
    assert model.num_timesteps == 5_000
    env = minesweeper()
    won = []
    for episode in range(100):
        seen, info = env.reset(seed=1_000 + episode)
        over = False
        while not over:
            action, _ = model.predict(seen, action_masks=env.action_masks(), deterministic=False)
            seen, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        won.append(info["metrics"]["win"])
    # Random play wins 40% of these games; strict, so no choice was forbidden.
    assert np.mean(won) > 0.8
