"""Base of the adapters of other packages' environments."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.environment import Playable
from entity_env.errors import ResetNeededError, SettingError, shorten

__all__ = ["TranslatedPlay", "make_or_take"]


class TranslatedPlay(Playable):
    """Base of adapters of other packages' environments, with their seeds, episodes and pictures.

    Args:
        env: The environment, with ``render_mode``, ``render`` and ``close``.
    """

    consent_settings: ClassVar = {"env": None, "**": None}
    """Settings that need consent: ``env`` is imported, and gets all unknown settings."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._seed: int | None = None
        self._playing = False
        self._closed = False
        if getattr(env, "render_mode", None) == "rgb_array":
            # Set on the object, because the class must look like one without render.
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
            raise ResetNeededError("no episode is running", hint="call reset() first")
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
        """Reset the environment, and seed it unless ``seed`` is None."""

    @abstractmethod
    def _step(self, actions: Mapping[Any, Any]) -> Any:
        """Step the environment."""

    @abstractmethod
    def _is_over(self, seen: Any) -> bool:
        """Return True if the episode is over after ``seen``."""

    def _draw(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        return np.asarray(self.env.render(**kwargs), np.uint8)


def make_or_take(
    env: Any,
    kwargs: dict[str, Any],
    package: str,
    example: str,
    by_name: Callable[[str, dict[str, Any]], Any],
    kinds: tuple[type, ...],
) -> Any:
    """Make the environment of an id or a function, or return a given environment.

    Args:
        env: The id, the function or the environment.
        kwargs: Arguments of the environment.
        package: Name of the package, for messages.
        example: An id, for messages.
        by_name: Function that makes the environment of an id.
        kinds: The classes of the package's environments.

    Raises:
        SettingError: ``env`` is something else, or arguments are given for an existing environment.
    """
    if isinstance(env, kinds):
        if kwargs:
            raise SettingError(
                "arguments are given for an environment that exists already",
                expected="the id of the environment, or a function that makes it",
                received=shorten(kwargs),
            )
        return env
    if not isinstance(env, str) and not callable(env):
        raise SettingError(
            f"no {package} environment is given",
            expected=f"an id, such as env.env={example}, or a function that makes an environment",
            received=shorten(env),
        )
    made = by_name(env, kwargs) if isinstance(env, str) else env(**kwargs)
    if not isinstance(made, kinds):
        raise SettingError(
            f"the function did not return a {package} environment",
            expected=f"{package.lower()}.{' or '.join(kind.__name__ for kind in kinds)}",
            received=shorten(made),
        )
    return made
