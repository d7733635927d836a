"""``Validate``, which checks the observations and actions of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entity_env.actions import Action, same_ids
from entity_env.arguments import named_arguments
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.environment import Environment, begin_episode
from entity_env.errors import (
    ActionShapeError,
    ActorError,
    EntityEnvError,
    ResetNeededError,
    SettingError,
    UnknownActionError,
    check_known,
    shorten,
)
from entity_env.kinds.kind import as_list
from entity_env.kinds.table import kind_of
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["Validate"]


@named_arguments(SettingError)
class Validate(Wrapper):
    """A wrapper that checks observations against the spaces, and actions against masks.

    A ``VecEnv`` checks these anyway; use this wrapper in your own loop over an environment. Actions
    must have the form in which a ``VecEnv`` passes them: one for each action of the action space,
    with all actors in order; global actions that are not available are left out.

    Args:
        env: The environment.
    """

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._reader = FrameReader(env.obs_space(), env.action_space())
        self._frame: Frame | None = None

    def reset(self) -> Observation:
        """Start an episode.

        Raises:
            EntityEnvError: The mistake in the observation, as an error of a subclass.
        """
        return begin_episode(super().reset)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step.

        Raises:
            ResetNeededError: No episode is running.
            EntityEnvError: The mistake in the actions or the observation, as an error of a
                subclass.
        """
        if self._frame is None or self._frame.done:
            when = "before reset" if self._frame is None else "after the end of the episode"
            raise ResetNeededError(f"act was called {when}", hint="call reset() first")
        try:
            self._check(actions, self._frame)
        except EntityEnvError:
            raise
        except Exception as error:  # a name or an id may raise anything when it is compared
            raise ActionShapeError(
                f"the actions cannot be read: {shorten(error)}", received=shorten(actions)
            ) from error
        return super().act(actions)

    def _shown(self, observation: Observation) -> Observation:
        self._frame = None  # an environment with a wrong observation needs a reset
        self._frame = self._reader.read(observation)
        return observation

    def _check(self, actions: Mapping[ActionName, Action], frame: Frame) -> None:
        spaces = self._reader.action_space
        if not isinstance(actions, Mapping):
            raise ActionShapeError(
                "actions are not a mapping",
                expected="a dict from action names to actions",
                received=shorten(actions),
            )
        check_known(UnknownActionError, "unknown action {}", actions, spaces)
        for name, space in spaces.items():
            _check_action(name, space, actions.get(name), frame)


def _check_action(name: ActionName, space: ActionSpace, action: Any, frame: Frame) -> None:
    """Check one action against its frame."""
    kind = kind_of(space)
    who = frame.actions.get(name)
    if action is None:
        if not kind.is_global or who is not None:
            raise UnknownActionError(
                f"action {name!r} is missing",
                expected=f"a {kind.action.__name__}, without actors if nobody can take it",
            )
        return
    kind.check_class(name, action)
    if kind.is_global:
        if who is None:
            raise UnknownActionError(
                f"action {name!r} cannot be taken in this step", expected="to be left out"
            )
        kind.check_action(name, space, action, who, frame)
        return
    actors = [] if who is None else [frame.ids[actor] for actor in who.actors.tolist()]
    given = as_list(action.actors)
    if given is None or not same_ids(given, actors):
        raise ActorError(
            f"action {name!r} has the wrong actors",
            expected=f"{shorten(actors)}, in this order",
            received=shorten(action.actors),
        )
    kind.check_action(name, space, action, who, frame)
