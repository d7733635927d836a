"""Base of wrappers of rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment
from entity_env.errors import ResetNeededError, SettingError, shorten
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["VecWrapper", "act_unchecked", "check_rows"]


class VecWrapper(VecEnv):
    """Base of wrappers of rows, which passes all calls on to the wrapped rows.

    Most subclasses override ``observation`` only, which may change observations. The wrapped rows
    check actions, because they may have a faster check.

    Args:
        env: The rows to wrap.

    Raises:
        SettingError: ``env`` is not a ``VecEnv``.
    """

    def __init__(self, env: VecEnv) -> None:
        self.env = check_rows(type(self).__name__, env)
        self._inner: VecObs | None = None  # the last observation of the wrapped rows

    @property
    def unwrapped(self) -> VecEnv:
        """The rows without wrappers."""
        env = self.env
        return env.unwrapped if isinstance(env, VecWrapper) else env

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self.env.obs_space()

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        return self.env.action_space()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.env)

    @property
    def num_seats(self) -> int:
        """The number of rows of one game."""
        return self.env.num_seats

    def has_state(self) -> bool:
        """Return True if the wrapped rows save and restore their state."""
        return self.env.has_state()

    def observation(self, obs: VecObs) -> VecObs:
        """Return the observation to show in place of ``obs``; called after each step and reset."""
        return obs

    def _checked_actions(
        self, actions: Mapping[ActionName, ActionBuffer], obs: VecObs
    ) -> Mapping[ActionName, ActionBuffer]:
        return self.env._checked_actions(actions, obs)

    def _reset(self, seed: int | None) -> VecObs:
        self._inner = self.env.reset(seed)
        return self.observation(self._inner)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._inner = act_unchecked(self.env, chosen, self._inner)
        return self.observation(self._inner)

    def _get_state(self) -> list[Any]:
        return self.env.get_state()

    def _set_state(self, state: list[Any]) -> VecObs:
        self._inner = self.env.set_state(state)
        return self.observation(self._inner)

    def _running(self) -> list[tuple[Hashable, str]]:
        if self._doing is None or self.unwrapped._running():  # they report the call themselves
            return []
        return [(self._calls, f"{self._doing} of {type(self.unwrapped).__name__}")]

    def _check_wrappable(self) -> None:
        self.env._check_wrappable()

    def _wrap_each(self, wrapper: Callable[[Environment], Environment]) -> None:
        self.env.wrap_each(wrapper)

    def _share_draws(self, copies: int) -> None:
        self.env.share_draws(copies)

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return self.env.render(**kwargs)

    def _close(self) -> None:
        self.env.close()


def check_rows(owner: str, env: object) -> VecEnv:
    """Return ``env`` if it is a ``VecEnv``, else raise SettingError."""
    if not isinstance(env, VecEnv):
        raise SettingError(
            f"{owner} needs rows",
            expected="an instance of a subclass of entity_env.VecEnv, such as ListEnv(...)",
            received=shorten(env),
        )
    return env


def act_unchecked(
    env: VecEnv, chosen: Mapping[ActionName, ActionBuffer], shown: VecObs | None
) -> VecObs:
    """Play a step of the rows without checking the actions again.

    Args:
        env: The wrapped rows.
        chosen: One entry for each action, checked against ``shown``.
        shown: The last observation of the wrapped rows that the wrapper received.

    Raises:
        ResetNeededError: The wrapped rows were used without the wrapper since then.
    """
    env._check_open()
    if env._last is not shown or shown is None:
        raise ResetNeededError(
            "the rows inside a wrapper were used without it", hint="call reset() of the wrapper"
        )
    env._last = None
    env._last = env._act(chosen)
    return env._last
