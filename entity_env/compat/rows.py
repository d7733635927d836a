"""Vector environments with the methods of Entity Gym."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching import vec_obs as batch
from entity_env.batching.ragged import RaggedBufferI64
from entity_env.compat.indices import entity_indices
from entity_env.compat.vec_obs import VecObs, has_global_entity, translated
from entity_env.environment import Environment
from entity_env.errors import ResetNeededError, SettingError, shorten
from entity_env.rows import vec_env
from entity_env.rows.list_env import ListEnv
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.workers.parallel_env import ParallelEnv
from entity_env.wrappers.vec_feature_filter import VecFeatureFilter

__all__ = ["EnvList", "ParallelEnvList", "VecEnv"]


class VecEnv(ABC):
    """Environments that act together, and reset themselves in the step that ends an episode."""

    @abstractmethod
    def obs_space(self) -> ObsSpace:
        """Return the observation space."""

    @abstractmethod
    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""

    @abstractmethod
    def reset(self, obs_config: ObsSpace) -> VecObs:
        """Start an episode in each, and show what is in ``obs_config``."""

    @abstractmethod
    def act(self, actions: Mapping[ActionName, RaggedBufferI64], obs_filter: ObsSpace) -> VecObs:
        """Play one step.

        Args:
            actions: For each action one number for each actor: the index of its choice or, for a
                select-entity action, the **position** of the entity among the actees. Shape:
                (B, A, 1), int64. (``entity_env.VecEnv`` takes its index in the frame.)
            obs_filter: The space of the returned observations.
        """

    @abstractmethod
    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the pictures of all environments. Shape: (B, H, W, 3)."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of environments B."""

    def close(self) -> None:  # noqa: B027  (there may be nothing to release)
        """Release everything."""

    def has_global_entity(self) -> bool:
        """Return True if frames have an entity ``__global__``."""
        return has_global_entity(self.obs_space(), self.action_space())


class _Rows(VecEnv):
    """Base of vector environments, which pass all calls on to rows of this library.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: vec_env.VecEnv) -> None:
        self.rows = self._shown = rows
        self._last: batch.VecObs | None = None

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self.rows.obs_space()

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        return self.rows.action_space()

    def __len__(self) -> int:
        """Return the number of environments."""
        return len(self.rows)

    def reset(self, obs_config: ObsSpace | None = None) -> VecObs:
        """Start an episode in each environment; show only what is in ``obs_config``.

        Raises:
            SpaceError: The space has parts that the environments do not have.
        """
        self._shown = self.rows
        if obs_config is not None and obs_config != self.obs_space():
            self._shown = VecFeatureFilter(self.rows, obs_config)
        return self._translated(self._shown.reset())

    def act(
        self, actions: Mapping[ActionName, RaggedBufferI64], obs_filter: ObsSpace | None = None
    ) -> VecObs:
        """Play one step; selected entities are given by position among the actees.

        Raises:
            SettingError: ``obs_filter`` differs from the space passed to ``reset``.
            EntityEnvError: The mistake in the actions, as an error of a subclass.
        """
        if self._last is None:
            raise ResetNeededError("act was called before reset", hint="call reset() first")
        if obs_filter is not None and obs_filter != self._shown.obs_space():
            raise SettingError(
                "the space differs from that of the last reset",
                expected=shorten(self._shown.obs_space()),
                received=shorten(obs_filter),
                hint="call reset with it first",
            )
        chosen = dict(actions) if isinstance(actions, Mapping) else actions
        for name, mask in self._last.action_masks.items():
            given = chosen.get(name) if isinstance(chosen, dict) else None
            is_select = isinstance(mask, batch.VecSelectEntityActionMask)
            if is_select and isinstance(given, RaggedBufferI64):
                chosen[name] = entity_indices(name, given, mask.actees)  # type: ignore[union-attr]
        return self._translated(self._shown.act(chosen))

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the pictures of all environments. Shape: (B, H, W, 3)."""
        return np.stack(self.rows.render(**kwargs))

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        self.rows.close()

    def _translated(self, obs: batch.VecObs) -> VecObs:
        self._last = obs
        return translated(obs, self.has_global_entity())


class EnvList(_Rows):
    """Environments one after the other, in this process.

    Args:
        create_env: Function that makes one environment.
        num_envs: Number of environments.
    """

    def __init__(self, create_env: Callable[[], Environment], num_envs: int) -> None:
        super().__init__(ListEnv(create_env, num_envs))


class ParallelEnvList(_Rows):
    """Environments in worker processes.

    Args:
        create_env: Function that makes one environment.
        num_envs: Number of environments.
        num_processes: Number of worker processes.
        start_method: Ignored.
    """

    def __init__(
        self,
        create_env: Callable[[], Environment],
        num_envs: int,
        num_processes: int,
        start_method: str | None = None,
    ) -> None:
        super().__init__(ParallelEnv(create_env, num_envs, num_processes))
        self.num_envs, self.num_processes = num_envs, num_processes
