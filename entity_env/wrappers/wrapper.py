"""The base of everything that stands between an environment and whoever plays it."""

from __future__ import annotations

from collections.abc import Mapping

from entity_env.actions import Action
from entity_env.environment import Environment, check_seed, seed_environment
from entity_env.errors import SettingError, shorten
from entity_env.observation import Observation
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.spaces import ActionName
from entity_env.wrappers.playable_wrapper import PlayableWrapper

__all__ = ["Wrapper"]


class Wrapper(PlayableWrapper, Environment):
    """Passes everything on to another environment; a subclass changes what it wants to.

    Most subclasses write ``_show`` alone, which may change what is observed. One that has a state
    of its own writes ``_own_state`` and ``_set_own_state``, too.

    Args:
        env: The environment inside.

    Raises:
        SettingError: ``env`` is not an environment.
    """

    _attribute = "env"

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

    @property
    def unwrapped(self) -> Environment:
        """The environment inside all wrappers."""
        env = self.env
        return env.unwrapped if isinstance(env, Wrapper) else env

    def reset(self) -> Observation:
        """Start an episode."""
        return self._shown(self.env.reset())

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        return self._shown(self.env.act(actions))

    def seed(self, seed: int) -> None:
        """Seed the environment inside."""
        seed_environment(self.env, check_seed(seed))

    def _show(self, observation: Observation) -> Observation:
        """Return what to show in place of ``observation``, after any method."""
        return observation

    def _shown(self, observation: Observation) -> Observation:
        # What is no observation is left to the reader, whose error says so.
        return self._show(observation) if isinstance(observation, Observation) else observation
