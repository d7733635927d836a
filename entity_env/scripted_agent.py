"""Scripts, functions from an observation to actions, as agents and by dotted path."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entity_env.actions import Action
from entity_env.agent import Agent, ObservationAgent, Policy
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import FAILURES, EntityEnvError, SettingError, nearest, shorten
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["ScriptedAgent", "is_script", "load_script"]


class ScriptedAgent(ObservationAgent):
    """An agent that plays by a function from an observation to actions.

    Args:
        policy: The function, or an object that can be called or has ``act``. It may have a memory
            and random numbers: its ``reset()`` and ``seed(seed)`` are called if there are any.
        obs_space: The observation space.
        action_space: The action space.

    Raises:
        SettingError: The policy cannot be called.
    """

    def __init__(
        self,
        policy: Policy | Agent,
        obs_space: ObsSpace,
        action_space: Mapping[ActionName, ActionSpace],
    ) -> None:
        super().__init__(obs_space, action_space)
        self._choose: Any = getattr(policy, "act", policy)
        if not callable(self._choose):
            raise SettingError(
                "a script cannot be called",
                expected="a function from an observation to actions",
                received=shorten(policy),
            )
        self.policy = policy

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """Return the actions of the function.

        Raises:
            SettingError: The function raised an error, which is the cause of this one, or did not
                return a dict.
        """
        try:
            actions = self._choose(observation)
        except EntityEnvError:
            raise
        except FAILURES as error:  # a script may raise anything
            raise SettingError(
                f"the script {_name_of(self.policy)} failed: {type(error).__name__}: {error}",
                hint="a script can only play the game that it was written for",
            ) from error
        if not isinstance(actions, Mapping):
            raise SettingError(
                f"the script {_name_of(self.policy)} did not return actions",
                expected="a dict from action names to actions",
                received=shorten(actions),
            )
        return actions

    def act_rows(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """Return the actions for all rows: those of the function's own ``act_rows`` if it has one.

        Such a function plays all rows at once, which is faster.
        """
        if callable(own := getattr(self.policy, "act_rows", None)):
            return own(obs)  # type: ignore[no-any-return]
        return super().act_rows(obs)

    def seed(self, seed: int) -> None:
        """Call ``seed(seed)`` of the function, if there is one."""
        if callable(restart := getattr(self.policy, "seed", None)):
            restart(seed)

    def reset(self) -> None:
        """Call ``reset()`` of the function, if there is one."""
        if callable(reset := getattr(self.policy, "reset", None)):
            reset()


def is_script(name: str) -> bool:
    """Return True if a player is named by a dotted path, False if by a folder."""
    parts = name.split(".")
    is_path = len(parts) > 1 and all(part.isidentifier() for part in parts)
    return is_path and not os.path.lexists(Path(name).expanduser())


def load_script(path: str, where: str, error: type[EntityEnvError] = SettingError) -> Policy:
    """Import the script at a dotted path.

    Args:
        path: Dotted path, such as ``my_module.my_player``.
        where: The setting that names it, for errors.
        error: The class of errors.

    Raises:
        EntityEnvError: The script cannot be imported, or cannot be called with one observation.
    """
    module_name, _, name = path.rpartition(".")
    try:
        if not module_name or not all(part.isidentifier() for part in path.split(".")):
            raise ImportError("not a dotted path")
        module = importlib.import_module(module_name)
        found = getattr(module, name, None)
    except FAILURES as failure:  # a user's module may raise anything
        raise error(
            f"{where}: {path!r} cannot be imported: {type(failure).__name__}: {failure}",
            expected=_SCRIPT,
        ) from failure
    if found is None:
        players = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__module__", None) == module_name and _takes_an_observation(value)
        ]
        raise error(
            f"{where}: {path!r} does not exist",
            expected=_SCRIPT,
            hint=nearest(name, players),
            options=players,
        )
    if not _takes_an_observation(found):
        raise error(
            f"{where}: {path!r} is not a scripted player", expected=_SCRIPT, received=shorten(found)
        )
    policy: Policy = found
    return policy


_SCRIPT = (
    "a dotted path such as ragged_envs.minesweeper_script.walk_and_defuse, of a function or an "
    "object that takes an Observation and returns actions"
)


def _takes_an_observation(policy: Any) -> bool:
    """Return True if a policy takes one observation; Python's own functions do not."""
    if not callable(policy) or inspect.isclass(policy) or inspect.isbuiltin(policy):
        return False
    try:
        inspect.signature(policy).bind("observation")
    except (TypeError, ValueError):
        return False
    return True


def _name_of(policy: Policy | Agent) -> str:
    return str(getattr(policy, "__qualname__", type(policy).__qualname__))
