"""MaskablePPO of sb3-contrib on the padded form of an environment, for comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from entity_env import Environment, ListEnv

__all__ = ["CONFIGS", "train_maskable"]

CONFIGS: dict[str, tuple[int, dict[str, Any]]] = {
    "MaskablePPO": (1, {}),
    "MaskablePPO, 8 x 1024": (8, {"n_steps": 1024, "batch_size": 256}),
}
"""Rows and settings: those that the library is given, and a larger rollout."""
EPISODES = 200
"""Episodes of greedy and of sampled play."""


def train_maskable(
    make: Callable[[], Environment], steps: int, seed: int, config: str
) -> tuple[float, float]:
    """Train once, and return the mean returns of greedy and of sampled play."""
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.evaluation import evaluate_policy

    from entity_env.interop.room import find_room
    from entity_env.interop.stable_baselines_vec_env import StableBaselinesVecEnv

    room, (rows, settings) = find_room(ListEnv(make, 16, seed=0)), CONFIGS[config]

    def padded(count: int, seed: int) -> StableBaselinesVecEnv:
        return StableBaselinesVecEnv(ListEnv(make, count, seed=seed), *room)

    torch.set_num_threads(1)
    model = MaskablePPO("MultiInputPolicy", padded(rows, seed), seed=seed, device="cpu", **settings)
    model.learn(steps)
    means = [
        evaluate_policy(model, padded(8, seed + 1), EPISODES, deterministic=greedy, warn=False)[0]
        for greedy in (True, False)
    ]
    return float(means[0]), float(means[1])
