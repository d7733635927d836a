"""The base of everything that stands between an environment and whoever plays it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.environment import Environment, YAxis, check_seed, seed_environment
from entity_env.errors import DAMAGES, SettingError, StateError, shorten
from entity_env.observation import Observation
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["Wrapper"]


class Wrapper(Environment):
    """Passes everything on to another environment; a subclass changes what it wants to.

    Most subclasses write ``_show`` alone, which may change what is observed. One that has a state
    of its own writes ``_own_state`` and ``_set_own_state``, too.

    Args:
        env: The environment inside.

    Raises:
        SettingError: ``env`` is not an environment.
    """

    def __init__(self, env: Environment) -> None:
        if not isinstance(env, Environment):
            raise SettingError(
                f"{type(self).__name__} goes around an environment",
                expected="an instance of a subclass of entity_env.Environment",
                received=shorten(env),
                hint=f"a game of several players has wrappers of its own, such as SeatTimeLimit; "
                f"around its rows, SeatRows({type(env).__name__}, num_envs), go those with Vec"
                if isinstance(env, MultiPlayerEnvironment)
                else None,
            )
        self.env = env
        self._closed = False

    @property
    def unwrapped(self) -> Environment:
        """The environment inside all wrappers."""
        env = self.env
        return env.unwrapped if isinstance(env, Wrapper) else env

    def obs_space(self) -> ObsSpace:
        """What observations may contain."""
        return self.env.obs_space()

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """The actions by name."""
        return self.env.action_space()

    def reset(self) -> Observation:
        """Start an episode."""
        return self._shown(self.env.reset())

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        return self._shown(self.env.act(actions))

    @property
    def y_axis(self) -> YAxis:  # type: ignore[override]
        """Where the environment inside has greater values of y."""
        return self.env.y_axis

    @property
    def rng(self) -> np.random.Generator:
        """The random numbers of the environment inside."""
        return self.env.rng

    @rng.setter
    def rng(self, rng: Any) -> None:
        """Give the environment inside other random numbers."""
        self.env.rng = rng

    def seed(self, seed: int) -> None:
        """Seed the environment inside."""
        seed_environment(self.env, check_seed(seed))

    def get_state(self) -> dict[str, Any]:
        """The state of the environment inside and, where there is one, that of the wrapper."""
        inner, own = self.env.get_state(), self._own_state()
        return inner if own is None else {"env": inner, type(self).__name__: own}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go back to what ``get_state`` returned, and return the observation of that moment."""
        if self._own_state() is None:
            return self._shown(self.env.set_state(state))
        name = type(self).__name__
        if not isinstance(state, Mapping) or set(state) != {"env", name}:
            raise StateError(
                f"the saved state is not one of {name}",
                expected=f"a dict with the keys env and {name}",
                received=shorten(state),
            )
        observation = self.env.set_state(state["env"])
        try:
            self._set_own_state(state[name])
        except DAMAGES as error:
            raise StateError(
                f"the saved state of {name} is damaged: {type(error).__name__}: {error}",
                received=shorten(state[name]),
            ) from error
        return self._shown(observation)

    def has_state(self) -> bool:
        """Whether the environment inside saves and restores its state."""
        return self.env.has_state()

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """The picture of the environment inside. Shape: (H, W, 3), uint8."""
        return self.env.render(**kwargs)

    def render_text(self) -> str:
        """The text of the environment inside."""
        return self.env.render_text()

    def close(self) -> None:
        """Close the environment inside, once."""
        if not self._closed:
            self._closed = True
            self.env.close()

    def _show(self, observation: Observation) -> Observation:
        """What to show in the place of ``observation``, after ``reset``, ``act``, ``set_state``."""
        return observation

    def _own_state(self) -> dict[str, Any] | None:
        """What this wrapper itself has to save, as JSON values of its own; None for nothing."""
        return None

    def _set_own_state(self, own: Mapping[str, Any]) -> None:
        """Go back to what ``_own_state`` returned; whatever is wrong with it may raise."""

    def _shown(self, observation: Observation) -> Observation:
        # What is no observation is left to the reader, whose error says so.
        return self._show(observation) if isinstance(observation, Observation) else observation
