"""An ``Environment`` as a padded Gymnasium environment with masks.

from sb3_contrib import MaskablePPO

env = EntityGymnasiumEnv(
    MineSweeper(),
    max_entities={"Mine": 5, "Robot": 2, "Orbital Cannon": 0},
    max_actors={"Move": 2, "Fire Orbital Cannon": 0},
)
MaskablePPO("MultiInputPolicy", env).learn(100_000)

"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.frame import Frame
from entity_env.drawing import Drawer
from entity_env.environment import Environment, begin_episode, hints_of, seed_environment
from entity_env.errors import ResetNeededError, SettingError, shorten
from entity_env.interop.padded_spaces import Room, check_no_options, check_render_mode
from entity_env.interop.padding import FramePadding, PaddedObs
from entity_env.interop.room import room_of_env
from entity_env.metrics import EpisodeTracker

__all__ = ["EntityGymnasiumEnv"]


@named_arguments(SettingError)
class EntityGymnasiumEnv(gymnasium.Env[PaddedObs, npt.NDArray[np.int64]]):
    """An ``Environment`` as a ``gymnasium.Env`` with arrays of a fixed size.

    The observation is a flat ``Dict`` of boxes; ``entity_env.interop.padded_spaces`` lists them.
    Entities that are hidden from the policy keep their slot, which is shown as empty. The action is
    a ``MultiDiscrete`` with one number for each actor's slot: the index of its choice, or for a
    select-entity action the slot of the entity among the slots of all types, in order. Numbers of
    empty slots are ignored. In place of a choice that the mask forbids, the next allowed one is
    played, after the last choice the first. ``info`` holds ``action_mask``, for
    ``action_space.sample(mask=...)``, and, at the end of an episode, ``metrics``; ``action_masks``
    returns one array.

    Args:
        env: The environment.
        max_entities: Largest number of entities of each type, or one number for all. None plays
            some episodes at random to find it, and warns of what it takes.
        max_actors: Likewise the largest number of actors of each action.
        render_mode: ``rgb_array`` makes ``render`` return pictures.

    Raises:
        SettingError: A size is not valid, or ``env`` is not an environment.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 4}  # type: ignore[misc]

    def __init__(
        self,
        env: Environment,
        max_entities: Room | None = None,
        max_actors: Room | None = None,
        *,
        render_mode: str | None = None,
    ) -> None:
        if not isinstance(env, Environment):
            raise SettingError(
                "not an environment",
                expected="an Environment, such as MineSweeper()",
                received=shorten(env),
            )
        self.env = env
        self.render_mode = check_render_mode("render_mode", render_mode)
        self._padding = FramePadding(env, *room_of_env(env, max_entities, max_actors))
        space: Any = self._padding.spaces.observation_space
        self.observation_space = space
        self.action_space = self._padding.spaces.action_space
        self._tracker = EpisodeTracker()
        self._frame: Frame | None = None
        self._drawer: Drawer | None = None
        self._closed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[PaddedObs, dict[str, Any]]:
        """Start an episode; with a seed, restart the environment's random numbers first.

        Raises:
            SettingError: ``options`` is neither None nor {}.
        """
        check_no_options(options)
        if seed is not None:
            seed_environment(self.env, seed)
        super().reset(seed=seed)
        self._frame = None
        frame = self._padding.read(begin_episode(self.env.reset))
        self._tracker.begin(frame.metrics)
        return self._show(frame)

    def step(
        self, action: npt.NDArray[np.int64]
    ) -> tuple[PaddedObs, float, bool, bool, dict[str, Any]]:
        """Play one step."""
        if self._frame is None or self._frame.done:
            raise ResetNeededError("there is no episode to play", hint="call reset() first")
        actions = self._padding.choose(action, self._frame, self._padded)
        self._frame = None  # after an error, a reset is needed
        frame = self._padding.read(self.env.act(actions))
        self._tracker.add(frame.reward, frame.metrics)
        observation, info = self._show(frame)
        if frame.done:
            info["metrics"] = self._tracker.summary()
        terminated = frame.done and not frame.truncated
        return observation, float(frame.reward), terminated, frame.truncated, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return the mask of all choices, in order. Shape: (sum of nvec,)."""
        if self._frame is None:
            raise ResetNeededError("there is no episode to play", hint="call reset() first")
        masks: npt.NDArray[np.bool_] = self._padded.masks[0].copy()
        return masks

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return a picture, (H, W, 3), with the render mode ``rgb_array``.

        An environment without ``render`` is drawn by a ``Drawer``.
        """
        if self.render_mode != "rgb_array":
            return None
        try:
            return self.env.render()
        except NotImplementedError:
            if self._frame is None:
                raise ResetNeededError(
                    "there is nothing to draw", hint="call reset() first"
                ) from None
            if self._drawer is None:
                self._drawer = Drawer(self.env.obs_space(), hints=hints_of(self.env))
            return self._drawer.draw(self._frame)

    def close(self) -> None:
        """Close the environment; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self.env.close()

    def _show(self, frame: Frame) -> tuple[PaddedObs, dict[str, Any]]:
        self._padded = self._padding.pad(frame)
        self._frame = frame
        arrays = {name: array[0] for name, array in self._padded.arrays.items()}
        return arrays, self._padding.info(self._padded)
