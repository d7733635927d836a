"""Stable-Baselines3's MaskablePPO plays a seat of a game of several players, and nothing leaks."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")
sb3_contrib = pytest.importorskip("sb3_contrib")

from ragged_envs.tic_tac_toe import TicTacToe  # noqa: E402
from support.seat_games import Secrets  # noqa: E402
from support.strict_envs import StrictEnv  # noqa: E402

from entity_env import CategoricalAction, MaskedEnvironment  # noqa: E402
from entity_env.interop import EntityGymnasiumEnv  # noqa: E402


def learned(make, steps, **settings):
    """A model that has learned to play it for so many steps."""
    import torch

    torch.set_num_threads(1)
    model = sb3_contrib.MaskablePPO(
        "MultiInputPolicy",
        make(),
        n_steps=500,
        batch_size=250,
        n_epochs=6,
        learning_rate=5e-3,
        policy_kwargs={"net_arch": [32]},
        seed=1,
        device="cpu",
        **settings,
    )
    return model.learn(steps)


def returns(make, model, episodes):
    env = make()
    found = []
    for episode in range(episodes):
        seen, _ = env.reset(seed=1_000 + episode)
        total, over = 0.0, False
        while not over:
            action, _ = model.predict(seen, action_masks=env.action_masks(), deterministic=True)
            seen, reward, terminated, truncated, _ = env.step(action)
            total, over = total + reward, terminated or truncated
        found.append(total)
    return np.array(found)


def tic_tac_toe():
    room = {"Player": 1, "Cell": 9}
    return StrictEnv(MaskedEnvironment(TicTacToe), room, 1)


@pytest.mark.learning
def test_maskable_ppo_learns_tic_tac_toe():
    """A random player gets 0 on average from both seats; strict: no choice was forbidden."""
    model = learned(tic_tac_toe, 6_000)
    assert returns(tic_tac_toe, model, 200).mean() > 0.4


def test_no_number_that_the_learner_is_shown_depends_on_the_secrets_of_others():
    """All games in which the learner's own bit is the same look the same to it."""
    for seat in range(3):
        shown = set()
        for seed in range(40):
            env = EntityGymnasiumEnv(
                MaskedEnvironment(lambda: Secrets(3), guess_one, shuffle_seats=False, seat=seat), 1
            )
            seen, _ = env.reset(seed=seed)
            shown.add(tuple(array.tobytes() for array in seen.values()))
        assert len(shown) == 2  # one for each value of its own bit


def guess_one(observation):
    return {"Go": CategoricalAction(["card"], np.array([1]), ["zero", "one"])}
