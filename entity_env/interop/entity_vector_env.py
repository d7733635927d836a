"""A ``VecEnv`` as a padded vector environment of Gymnasium, with masks.

rows = ListEnv(MineSweeper, 64)
envs = EntityVectorEnv(rows, max_entities={"Mine": 5, "Robot": 2, "Orbital Cannon": 0})
observations, infos = envs.reset(seed=1)

"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from entity_env.arguments import named_arguments
from entity_env.batching.vec_obs import VecObs, check_all_asked
from entity_env.errors import ResetNeededError, SettingError, shorten
from entity_env.interop.padded_spaces import PaddedSpaces, Room, check_no_options, check_render_mode
from entity_env.interop.padding import PaddedFrames, PaddedObs, choose, pad
from entity_env.interop.room import room_of_rows
from entity_env.rows.vec_env import VecEnv

__all__ = ["EntityVectorEnv"]


@named_arguments(SettingError)
class EntityVectorEnv(VectorEnv[PaddedObs, npt.NDArray[np.int64], npt.NDArray[Any]]):
    """A ``VecEnv`` as a ``gymnasium.vector.VectorEnv``; each row is an ``EntityGymnasiumEnv``.

    ``infos["action_mask"]`` has the mask of each row for ``single_action_space.sample(mask=...)``;
    ``action_masks`` returns the masks of all rows in one array.

    Rows reset themselves within the same step. ``infos["final_info"]`` is then set for each row
    that ended, and ``infos["final_obs"]`` for each row that a limit cut off, because the value of
    its last observation is part of the return. Terminated rows have no final observation (None, and
    False in ``infos["_final_obs"]``), because a ``VecEnv`` does not keep it.

    Args:
        vec_env: The rows.
        max_entities: Largest number of entities of each type, or one number for all. None plays
            some episodes at random to find it, and warns of what it takes.
        max_actors: Likewise the largest number of actors of each action.
        render_mode: ``rgb_array`` makes ``render`` return a picture of each row.

    Attributes:
        padded_spaces: The sizes for entities and actors, and the padded spaces.

    Raises:
        SettingError: A size is not valid, or ``vec_env`` is not a ``VecEnv``.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
        "render_fps": 4,
    }

    def __init__(
        self,
        vec_env: VecEnv,
        max_entities: Room | None = None,
        max_actors: Room | None = None,
        *,
        render_mode: str | None = None,
    ) -> None:
        if not isinstance(vec_env, VecEnv):
            raise SettingError(
                "not a VecEnv",
                expected="a VecEnv, such as ListEnv(MineSweeper, 64)",
                received=shorten(vec_env),
            )
        self.vec_env = vec_env
        self.render_mode = check_render_mode("render_mode", render_mode)
        self.num_envs = len(vec_env)
        self.padded_spaces = PaddedSpaces(
            vec_env.obs_space(),
            vec_env.action_space(),
            *room_of_rows(vec_env, max_entities, max_actors),
        )
        self.single_observation_space = self.padded_spaces.observation_space
        self.single_action_space = self.padded_spaces.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._padded: PaddedFrames | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[PaddedObs, dict[str, Any]]:
        """Start an episode in each row; with a seed, restart the random numbers first.

        The random streams of the rows are spawned from the seed.

        Raises:
            SettingError: ``options``, or a list of seeds where a ``VecEnv`` needs one seed.
        """
        check_no_options(options)
        if isinstance(seed, Sequence | np.ndarray):
            raise SettingError(
                "rows cannot be seeded one by one",
                expected="one whole number >= 0, or None",
                received=shorten(seed),
                hint="rows draw different numbers from the same seed",
            )
        self._padded = None
        obs = self.vec_env.reset(seed)
        super().reset(seed=seed)
        arrays = self._show(obs)
        return arrays, self._masks(self._frames().masks, np.ones(len(obs), np.bool_))

    def step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[PaddedObs, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """Play one step in each row. Shape of ``actions``: (rows, numbers)."""
        obs, arrays = self.advance(actions)
        infos = self._masks(self._frames().masks, np.ones(len(obs), np.bool_))
        if obs.done.any():
            infos |= self._final(obs)
        terminated = obs.done & ~obs.truncated
        return arrays, obs.reward.astype(np.float64), terminated, obs.truncated.copy(), infos

    def advance(self, actions: npt.NDArray[np.int64]) -> tuple[VecObs, PaddedObs]:
        """Play one step; return the observation of the rows, and the padded observations."""
        chosen = choose(actions, self._frames(), self.padded_spaces)
        self._padded = None  # after an error, a reset is needed
        obs = self.vec_env.act(chosen)
        return obs, self._show(obs)

    def last_seen(self, obs: VecObs) -> dict[int, PaddedObs]:
        """Return the last padded observation of each row that a limit cut off."""
        if obs.final is None:
            return {}
        arrays = pad(obs.final, self.padded_spaces).arrays
        rows = enumerate(np.flatnonzero(obs.truncated).tolist())
        return {row: {name: array[i] for name, array in arrays.items()} for i, row in rows}

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return the mask of all choices. Shape: (rows, sum of nvec)."""
        return self._frames().masks.copy()

    def mask_of(self, row: int) -> npt.NDArray[np.bool_]:
        """Return the mask of one row. Shape: (sum of nvec,)."""
        mask: npt.NDArray[np.bool_] = self._frames().masks[row].copy()
        return mask

    def render(self) -> tuple[npt.NDArray[np.uint8], ...] | None:
        """Return a picture of each row with the render mode ``rgb_array``."""
        return tuple(self.vec_env.render()) if self.render_mode == "rgb_array" else None

    def close_extras(self, **kwargs: Any) -> None:
        """Close the rows."""
        self.vec_env.close()

    def _frames(self) -> PaddedFrames:
        if self._padded is None:
            raise ResetNeededError("there are no episodes to play", hint="call reset() first")
        return self._padded

    def _show(self, obs: VecObs) -> PaddedObs:
        check_all_asked("EntityVectorEnv", obs)
        self._padded = pad(obs, self.padded_spaces)
        return self._padded.arrays

    def _masks(self, masks: npt.NDArray[np.bool_], rows: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """Return action masks in the format of Gymnasium's infos for ``rows``."""
        told = np.full(len(rows), None, dtype=object)
        for row, mask in enumerate(self.padded_spaces.sample_masks(masks)):
            if rows[row]:
                told[row] = mask
        return {"action_mask": told, "_action_mask": rows.copy()}

    def _final(self, obs: VecObs) -> dict[str, Any]:
        """Return the infos of ended rows in the format of Gymnasium's vector environments."""
        nobody = np.repeat(self.padded_spaces.nobody[None], len(obs), axis=0)
        metrics: dict[str, Any] = {}
        for name, column in obs.metrics.items():
            there = ~np.isnan(column)
            metrics |= {name: np.where(there, column, 0.0), f"_{name}": there}
        final_info = {
            **self._masks(nobody, obs.done),
            "metrics": metrics,
            "_metrics": obs.done.copy(),
        }
        infos = {"final_info": final_info, "_final_info": obs.done.copy()}
        if obs.final is not None:
            last = np.full(self.num_envs, None, dtype=object)
            for row, arrays in self.last_seen(obs).items():
                last[row] = arrays
            infos |= {"final_obs": last, "_final_obs": obs.truncated.copy()}
        return infos
