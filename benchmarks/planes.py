"""MineSweeper as Stable-Baselines3 wants it: planes of a fixed size, one action for each robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from ragged_envs.minesweeper import MineSweeperRows
from stable_baselines3.common.vec_env import VecEnv

from entity_env.batching.ragged import RaggedBufferI64

__all__ = ["PlanesEnv"]

MINE, ROBOTS, CHOICES, STAY = 0, 2, 5, 4
SIDE = 6


class PlanesEnv(VecEnv):
    """The native rows behind the interface of Stable-Baselines3.

    Observations are one plane of mines and one for each robot, (3 * 6 * 6,). A robot that is lost
    has an empty plane, and only the choice that does nothing.

    Args:
        num_envs: Rows.
        seed: Seeds all rows.
    """

    def __init__(self, num_envs: int, seed: int) -> None:
        self.rows = MineSweeperRows(num_envs, seed=seed)
        self.wins: list[float] = []
        size = (1 + ROBOTS) * SIDE * SIDE
        super().__init__(
            num_envs,
            spaces.Box(0.0, 1.0, (size,), np.float32),
            spaces.MultiDiscrete([CHOICES] * ROBOTS),
        )

    def reset(self) -> np.ndarray:
        """First observations."""
        return self._observe(self.rows.reset())

    def step_async(self, actions: np.ndarray) -> None:
        """Remember the actions."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play them."""
        chosen = self._actions[self._alive].astype(np.int64)[:, None]
        moves = RaggedBufferI64.from_flattened(chosen, self._alive.sum(1))
        obs = self.rows.act({"Move": moves})
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if obs.truncated.any():
            final = self._planes(obs.final)[0]
            for row, last in zip(np.flatnonzero(obs.truncated), final, strict=True):
                infos[row] = {"TimeLimit.truncated": True, "terminal_observation": last}
        for row in np.flatnonzero(obs.done & ~obs.truncated):
            infos[row]["terminal_observation"] = np.zeros(self.observation_space.shape, np.float32)
        if obs.done.any():
            wins = obs.metrics["win"]
            self.wins.extend(wins[~np.isnan(wins)].tolist())
        return self._observe(obs), obs.reward.copy(), obs.done.copy(), infos

    def _observe(self, obs: Any) -> np.ndarray:
        planes, self._alive = self._planes(obs)
        mask = np.zeros((self.num_envs, ROBOTS, CHOICES), np.bool_)
        mask[:, :, STAY] = True
        mask[self._alive] = obs.action_masks["Move"].mask.as_array()
        self._mask = mask.reshape(self.num_envs, ROBOTS * CHOICES)
        return planes

    @staticmethod
    def _planes(obs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Planes (R, 108), and which robots are alive (R, 2)."""
        frames = len(obs)
        planes = np.zeros((frames, 1 + ROBOTS, SIDE, SIDE), np.float32)
        for kind, first in (("Mine", MINE), ("Robot", 1)):
            buffer = obs.features[kind]
            counts = buffer.size1()
            x, y = buffer.as_array().astype(np.int64).T
            rows = np.repeat(np.arange(frames), counts)
            place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            planes[rows, first + (place if first else 0), y, x] = 1.0
        alive = np.arange(ROBOTS)[None, :] < obs.features["Robot"].size1()[:, None]
        return planes.reshape(frames, -1), alive

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Return ``action_masks``, the only method that is called."""
        return list(self._mask)

    def has_attr(self, attr_name: str) -> bool:
        """Asked about ``action_masks``."""
        return attr_name == "action_masks"

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return ``render_mode``, the only attribute that is read."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Do nothing, because there is nothing to set."""

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each row."""
        return [False] * self.num_envs

    def get_images(self) -> Sequence[Any]:
        """Return no images."""
        return []

    def close(self) -> None:
        """Close the rows."""
        self.rows.close()
