"""The common part of environments of other packages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.environment import Environment, Playable
from entity_env.errors import ResetNeededError, SettingError, shorten
from entity_env.interop.translated.translation import SpaceTranslation
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["TranslatedEnv", "TranslatedPlay", "make_or_take"]


class TranslatedPlay(Playable):
    """An environment of another package: its seeds, episodes, pictures and end.

    Args:
        env: The environment; it has ``render_mode``, ``render`` and ``close``.
    """

    consent_settings: ClassVar = {"env": None, "**": None}
    """An environment that is named is imported, and gets all arguments that are not our own."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._seed: int | None = None
        self._playing = False
        self._closed = False
        if getattr(env, "render_mode", None) == "rgb_array":
            # On the object, as the class itself must look like one that does not draw itself.
            self.render = self._draw  # type: ignore[method-assign]

    def seed(self, seed: int) -> None:
        """Seed ``self.rng`` now, and the environment at its next reset."""
        super().seed(seed)
        self._seed = seed

    def reset(self) -> Any:
        """Start an episode."""
        seed, self._seed = self._seed, None
        seen = self._begin(seed)
        self._playing = True
        return seen

    def act(self, actions: Mapping[Any, Any]) -> Any:
        """Play one step."""
        if not self._playing:
            raise ResetNeededError("there is no episode to play", hint="call reset() first")
        seen = self._step(actions)
        self._playing = not self._is_over(seen)
        return seen

    def close(self) -> None:
        """Close the environment; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self.env.close()

    @abstractmethod
    def _begin(self, seed: int | None) -> Any:
        """Reset the environment, which is seeded unless ``seed`` is None."""

    @abstractmethod
    def _step(self, actions: Mapping[Any, Any]) -> Any:
        """Step the environment."""

    @abstractmethod
    def _is_over(self, seen: Any) -> bool:
        """Return True if there is nothing to play after ``seen``."""

    def _draw(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        return np.asarray(self.env.render(**kwargs), np.uint8)


class TranslatedEnv(TranslatedPlay, Environment):
    """An environment of another package for one player, through a ``SpaceTranslation``.

    Args:
        env: The environment.
        translation: Between its spaces and ours.
    """

    def __init__(self, env: Any, translation: SpaceTranslation) -> None:
        super().__init__(env)
        self._translation = translation

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._translation.obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        return self._translation.action_space

    def _is_over(self, seen: Observation) -> bool:
        return seen.done


def make_or_take(
    env: Any,
    kwargs: dict[str, Any],
    package: str,
    example: str,
    by_name: Callable[[str, dict[str, Any]], Any],
    kinds: tuple[type, ...],
) -> Any:
    """Return the environment of an id or of a function, or the given environment.

    Args:
        env: What the user gave.
        kwargs: Arguments for what makes it.
        package: For messages: the package it comes from.
        example: For messages: an id.
        by_name: Makes the environment of an id.
        kinds: The classes of the package's environments.

    Raises:
        SettingError: Nothing of the three, or arguments for an environment that is there already.
    """
    if isinstance(env, kinds):
        if kwargs:
            raise SettingError(
                "an environment that is there already takes no arguments",
                expected="its id, or what makes it",
                received=shorten(kwargs),
            )
        return env
    if not isinstance(env, str) and not callable(env):
        raise SettingError(
            f"no {package} environment is named",
            expected=f"an id, such as env.env={example}, or what makes an environment",
            received=shorten(env),
        )
    made = by_name(env, kwargs) if isinstance(env, str) else env(**kwargs)
    if not isinstance(made, kinds):
        raise SettingError(
            f"what was made is no {package} environment",
            expected=f"{package.lower()}.{' or '.join(kind.__name__ for kind in kinds)}",
            received=shorten(made),
        )
    return made
