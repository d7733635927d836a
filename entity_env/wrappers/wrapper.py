"""Bases of wrappers of environments and of games of several players."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.environment import Environment, Playable, check_seed, seed_environment
from entity_env.errors import DAMAGES, SettingError, StateError, shorten
from entity_env.multi_player import MultiPlayerEnvironment, Seat, SeatActions, SeatObservations
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["SeatWrapper", "Wrapper"]


class _PlayableWrapper(Playable):
    """Base of wrappers, which passes all calls on to the wrapped game.

    Subclasses that have a state define ``_wrapper_state`` and ``_set_wrapper_state``.
    """

    _attribute: ClassVar[str]
    """The attribute that holds the wrapped game, and its key in saved states."""
    _closed = False

    @property
    def _inner(self) -> Any:
        return getattr(self, self._attribute)

    @property
    def unwrapped(self) -> Any:
        """The game without wrappers."""
        inner = self._inner
        return inner.unwrapped if isinstance(inner, _PlayableWrapper) else inner

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        space: ObsSpace = self._inner.obs_space()
        return space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        space: Mapping[ActionName, ActionSpace] = self._inner.action_space()
        return space

    @property
    def rng(self) -> np.random.Generator:
        """The random numbers of the wrapped environment."""
        rng: np.random.Generator = self._inner.rng
        return rng

    @rng.setter
    def rng(self, rng: Any) -> None:
        """Replace the random numbers of the wrapped environment."""
        self._inner.rng = rng

    def seed(self, seed: int) -> None:
        """Seed the wrapped environment."""
        seed_environment(self._inner, check_seed(seed))

    def get_state(self) -> dict[str, Any]:
        """Return the state of the wrapped environment and, if it has one, of the wrapper."""
        inner, own = self._inner.get_state(), self._wrapper_state()
        return inner if own is None else {self._attribute: inner, type(self).__name__: own}

    def set_state(self, state: Mapping[str, Any]) -> Any:
        """Restore a state of ``get_state``, and return its observation.

        Raises:
            StateError: ``state`` is not a state of this wrapper, or is damaged.
        """
        if self._wrapper_state() is None:
            return self._observe(self._inner.set_state(state))
        name = type(self).__name__
        if not isinstance(state, Mapping) or set(state) != {self._attribute, name}:
            raise StateError(
                f"the saved state is not a state of {name}",
                expected=f"a dict with the keys {self._attribute} and {name}",
                received=shorten(state),
            )
        seen = self._inner.set_state(state[self._attribute])
        try:
            self._set_wrapper_state(state[name])
        except DAMAGES as error:
            raise StateError(
                f"the saved state of {name} is damaged: {type(error).__name__}: {error}",
                received=shorten(state[name]),
            ) from error
        return self._observe(seen)

    def has_state(self) -> bool:
        """Return True if the wrapped environment saves and restores its state."""
        return bool(self._inner.has_state())

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the picture of the wrapped environment. Shape: (H, W, 3), uint8."""
        picture: npt.NDArray[np.uint8] = self._inner.render(**kwargs)
        return picture

    def render_text(self) -> str:
        """Return the text of the wrapped environment."""
        text: str = self._inner.render_text()
        return text

    def close(self) -> None:
        """Close the wrapped environment, once."""
        if not self._closed:
            self._closed = True
            self._inner.close()

    def _wrapper_state(self) -> dict[str, Any] | None:
        """Return the wrapper's own state as JSON values, or None."""
        return None

    def _set_wrapper_state(self, own: Mapping[str, Any]) -> None:
        """Restore a state of ``_wrapper_state``; a damaged state may raise any of ``DAMAGES``."""

    def _observe(self, seen: Any) -> Any:
        """Return the observation to show in place of the wrapped environment's."""
        return seen


class Wrapper(_PlayableWrapper, Environment):
    """Base of wrappers of an environment, which passes all calls on to it.

    Most subclasses override ``observation`` only, which may change observations. Subclasses that
    have a state also define ``_wrapper_state`` and ``_set_wrapper_state``.

    Args:
        env: The environment to wrap.

    Raises:
        SettingError: ``env`` is not an environment.
    """

    _attribute = "env"

    def __init__(self, env: Environment) -> None:
        if not isinstance(env, Environment):
            raise SettingError(
                f"{type(self).__name__} needs an environment",
                expected="an instance of a subclass of entity_env.Environment",
                received=shorten(env),
                hint="for a game of several players, use wrappers such as SeatTimeLimit"
                if isinstance(env, MultiPlayerEnvironment)
                else None,
            )
        self.env = env

    def reset(self) -> Observation:
        """Start an episode."""
        return self._observe(self.env.reset())

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        return self._observe(self.env.act(actions))

    def observation(self, observation: Observation) -> Observation:
        """Return the observation to show in place of ``observation``."""
        return observation

    def _observe(self, observation: Observation) -> Observation:
        # The reader raises an error for other objects.
        is_valid = isinstance(observation, Observation)
        return self.observation(observation) if is_valid else observation


class SeatWrapper(_PlayableWrapper, MultiPlayerEnvironment):
    """Base of wrappers of a game of several players, which passes all calls on to it.

    Subclasses that have a state define ``_wrapper_state`` and ``_set_wrapper_state``.

    Args:
        game: The game to wrap.

    Raises:
        SettingError: ``game`` is not a game of several players.
    """

    _attribute = "game"

    def __init__(self, game: MultiPlayerEnvironment) -> None:
        if not isinstance(game, MultiPlayerEnvironment):
            raise SettingError(
                f"{type(self).__name__} needs a game of several players",
                expected="an instance of a subclass of entity_env.MultiPlayerEnvironment",
                received=shorten(game),
            )
        self.game = game

    def seats(self) -> Sequence[Seat]:
        """Return the seats of the wrapped game."""
        return self.game.seats()

    def teams(self) -> Mapping[str, Collection[Seat]]:
        """Return the teams of the wrapped game."""
        return self.game.teams()

    def is_over(self) -> bool | None:
        """Return ``is_over`` of the wrapped game."""
        return self.game.is_over()

    def reset(self) -> SeatObservations:
        """Start a game."""
        return self.game.reset()

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play one step."""
        return self.game.act(actions)
