"""MaskablePPO of sb3-contrib on the padded form of an environment, for comparison."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from entity_env import Environment, ListEnv

__all__ = ["train_maskable"]

EPISODES = 200
"""Episodes of greedy and of sampled play."""


def train_maskable(
    make: Callable[[], Environment], seconds: float, seed: int
) -> tuple[float, float]:
    """Train for some CPU time, and return the mean returns of greedy and of sampled play.

    The settings are those of the library, but for the eight rows: the 2,048 frames of an update
    come from 256 steps of eight rows, which takes less time than those of a single row.
    """
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.evaluation import evaluate_policy

    from entity_env.interop.room import find_room
    from entity_env.interop.stable_baselines_vec_env import StableBaselinesVecEnv

    room = find_room(ListEnv(make, 16, seed=0))

    def padded(seed: int) -> StableBaselinesVecEnv:
        return StableBaselinesVecEnv(ListEnv(make, 8, seed=seed), *room)

    torch.set_num_threads(1)
    end = time.process_time() + seconds
    model = MaskablePPO("MultiInputPolicy", padded(seed), n_steps=256, seed=seed, device="cpu")
    model.learn(10**12, callback=lambda *_: time.process_time() < end)
    print(f"MaskablePPO: {model.num_timesteps:,} steps in {seconds:.0f} CPU-s", flush=True)
    means = [
        evaluate_policy(model, padded(seed + 1), EPISODES, deterministic=greedy, warn=False)[0]
        for greedy in (True, False)
    ]
    return float(means[0]), float(means[1])
