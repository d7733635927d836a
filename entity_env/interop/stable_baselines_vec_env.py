"""A ``VecEnv``, compiled or not, as a padded vector environment of Stable-Baselines3 with masks.

from ragged_envs.minesweeper import MineSweeperRows
from sb3_contrib import MaskablePPO

rows = MineSweeperRows(64, nmines=5, nrobots=2)
room = {"Mine": 5, "Robot": 2, "Orbital Cannon": 0}
env = StableBaselinesVecEnv(rows, room, {"Move": 2, "Fire Orbital Cannon": 0})
MaskablePPO("MultiInputPolicy", env).learn(100_000)

"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv as BaselinesVecEnv

from entity_env.arguments import named_arguments
from entity_env.errors import SettingError
from entity_env.interop.entity_vector_env import EntityVectorEnv
from entity_env.interop.padded_spaces import Room, check_no_options
from entity_env.interop.padding import PaddedObs
from entity_env.rows.vec_env import VecEnv

__all__ = ["StableBaselinesVecEnv"]

Infos = list[dict[str, Any]]


@named_arguments(SettingError)
class StableBaselinesVecEnv(BaselinesVecEnv):
    """The rows of a ``VecEnv`` as a ``stable_baselines3.common.vec_env.VecEnv``.

    Observations and actions are those of ``EntityVectorEnv``. ``MaskablePPO`` gets the masks from
    ``env_method("action_masks")``. Each info has ``TimeLimit.truncated`` and, at the end of an
    episode:

    ========================  ===================================================================
    ``episode``               the return ``r``, length ``l`` and time ``t``, as from a
                              ``Monitor``, which is therefore not needed
    ``metrics``               the metrics of the episode
    ``terminal_observation``  the last observation, if a limit cut the episode off. If it was
                              terminated, zeros without entities and actors, because a ``VecEnv``
                              does not keep the last observation
    ========================  ===================================================================

    ``seed`` takes effect at the next ``reset``; the random streams of all rows are spawned from it.

    Args:
        vec_env: The rows.
        max_entities: Largest number of entities of each type, or one number for all. None plays
            some episodes at random to find it, and warns of what it takes.
        max_actors: Likewise the largest number of actors of each action.
        render_mode: ``rgb_array`` makes ``render`` return the pictures of all rows, side by side.

    Raises:
        SettingError: A size is not valid, or ``vec_env`` is not a ``VecEnv``.
    """

    def __init__(
        self,
        vec_env: VecEnv,
        max_entities: Room | None = None,
        max_actors: Room | None = None,
        *,
        render_mode: str | None = None,
    ) -> None:
        self.padded = EntityVectorEnv(vec_env, max_entities, max_actors, render_mode=render_mode)
        self._start = time.time()
        self._actions: Any = None
        observes, acts = self.padded.single_observation_space, self.padded.single_action_space
        super().__init__(len(vec_env), observes, acts)

    def reset(self) -> PaddedObs:
        """Start an episode in each row, with the seed set since the last reset, if any."""
        for options in self._options:
            check_no_options(options)
        arrays, _ = self.padded.reset(seed=self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        return arrays

    def step_async(self, actions: npt.NDArray[np.int64]) -> None:
        """Store the actions for ``step_wait``. Shape: (rows, numbers)."""
        self._actions = actions

    def step_wait(self) -> tuple[PaddedObs, npt.NDArray[np.float32], npt.NDArray[np.bool_], Infos]:
        """Play one step in each row; those that end begin their next episode."""
        obs, arrays = self.padded.advance(self._actions)
        infos: Infos = [{"TimeLimit.truncated": cut_off} for cut_off in obs.truncated.tolist()]
        last = self.padded.last_seen(obs)
        for row in np.flatnonzero(obs.done).tolist():
            values = {name: float(column[row]) for name, column in obs.metrics.items()}
            metrics = {name: value for name, value in values.items() if value == value}
            infos[row] |= {
                "episode": self._episode(metrics),
                "metrics": metrics,
                "terminal_observation": last.get(row) or self.padded.padded_spaces.nothing(),
            }
        return arrays, obs.reward.copy(), obs.done.copy(), infos

    def close(self) -> None:
        """Close the rows."""
        self.padded.close()

    def get_images(self) -> Sequence[npt.NDArray[np.uint8] | None]:
        """Return a picture of each row, all of the same size, for ``rgb_array``."""
        images = self.padded.render()
        if images is None:
            return [None] * self.num_envs
        height, width, _ = np.max([image.shape for image in images], axis=0)
        room = [(height - image.shape[0], width - image.shape[1]) for image in images]
        return [
            np.pad(image, [(0, below), (0, right), (0, 0)])
            for image, (below, right) in zip(images, room, strict=True)
        ]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of rows: spaces, ``metadata``, ``action_masks`` ...

        Raises:
            AttributeError: The rows have no such attribute.
        """
        padded = self.padded
        known = {
            "observation_space": padded.single_observation_space,
            "action_space": padded.single_action_space,
            "render_mode": padded.render_mode,
            "metadata": padded.metadata,
            "spec": None,
        }
        rows = self._get_indices(indices)
        if attr_name == "action_masks":
            return [partial(padded.mask_of, row) for row in rows]
        if attr_name not in known:
            raise AttributeError(
                f"the rows of a VecEnv have no {attr_name!r}; valid: {', '.join(known)}, "
                "action_masks"
            )
        return [known[attr_name] for _ in rows]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise an error, because attributes cannot be set.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"attribute {attr_name!r} of rows of a VecEnv cannot be set")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call ``action_masks`` of rows.

        Raises:
            AttributeError: Any other method.
        """
        methods = self.get_attr(method_name, indices)
        return [method(*method_args, **method_kwargs) for method in methods]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Return True for ``Monitor``, whose infos the rows give, and False for other wrappers."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]

    def _episode(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Return the info of an episode in the format of ``Monitor``."""
        return {
            "r": round(metrics["episodic_reward"], 6),
            "l": int(metrics["episodic_length"]),
            "t": round(time.time() - self._start, 6),
        }
