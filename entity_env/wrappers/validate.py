"""Says what is wrong, for people who drive an environment by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env.actions import (
    Action,
    CategoricalAction,
    ContinuousAction,
    GlobalCategoricalAction,
    GlobalContinuousAction,
    SelectEntityAction,
    has_id,
    same_ids,
)
from entity_env.arguments import named_arguments
from entity_env.batching.features import is_listed
from entity_env.batching.frame import Frame, entity_name
from entity_env.batching.frame_reader import FrameReader
from entity_env.environment import Environment, begin_episode
from entity_env.errors import (
    ActionIndexError,
    ActionShapeError,
    ActorError,
    EntityEnvError,
    MaskedActionError,
    ResetNeededError,
    SettingError,
    UnknownActionError,
    nearest,
    shorten,
)
from entity_env.kinds.continuous import as_numbers, bounds_of, numbers_error
from entity_env.observation import EntityID, Observation
from entity_env.spaces import (
    GLOBAL_ACTIONS,
    ActionName,
    ActionSpace,
    CategoricalActionSpace,
    ContinuousActionSpace,
    GlobalCategoricalActionSpace,
    GlobalContinuousActionSpace,
    SelectEntityActionSpace,
)
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["Validate"]

_ACTION_OF: dict[type, Any] = {
    CategoricalActionSpace: CategoricalAction,
    SelectEntityActionSpace: SelectEntityAction,
    GlobalCategoricalActionSpace: GlobalCategoricalAction,
    ContinuousActionSpace: ContinuousAction,
    GlobalContinuousActionSpace: GlobalContinuousAction,
}


@named_arguments(SettingError)
class Validate(Wrapper):
    """Checks each observation against the spaces, and each action against the observation before.

    A ``VecEnv`` makes these checks anyway. Actions must be what it hands out: one for each action
    of the action space, with all actors in their order; a global action is there exactly where it
    is available.

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
            EntityEnvError: The class of it that names the mistake in the observation.
        """
        return begin_episode(super().reset)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step.

        Raises:
            ResetNeededError: No episode is running.
            EntityEnvError: The class of it that names the mistake in the actions or the
                observation.
        """
        if self._frame is None or self._frame.done:
            when = "before reset" if self._frame is None else "after the end of the episode"
            raise ResetNeededError(f"act was called {when}", hint="call reset() first")
        try:
            self._check(actions, self._frame)
        except EntityEnvError:
            raise
        except Exception as error:  # a name or an id that misbehaves when it is looked at
            raise ActionShapeError(
                f"the actions cannot be read: {shorten(error)}", received=shorten(actions)
            ) from error
        return super().act(actions)

    def _shown(self, observation: Observation) -> Observation:
        self._frame = None  # nothing is known of an environment whose observation is wrong
        self._frame = self._reader.read(observation)
        return observation

    def _check(self, actions: Mapping[ActionName, Action], frame: Frame) -> None:
        spaces = self._reader.action_space
        if not isinstance(actions, Mapping):
            raise ActionShapeError(
                "actions are not a mapping",
                expected="a dict from action name to action",
                received=shorten(actions),
            )
        for name in actions:
            if name not in spaces:
                raise UnknownActionError(
                    f"unknown action {shorten(name)}", options=spaces, hint=nearest(name, spaces)
                )
        for name, space in spaces.items():
            _check_action(name, space, actions.get(name), frame)


def _check_action(name: ActionName, space: ActionSpace, action: Any, frame: Frame) -> None:
    """Check one action against the frame that it answers."""
    kind = _ACTION_OF[type(space)]
    who = frame.actions.get(name)
    if action is None:
        if not isinstance(space, GLOBAL_ACTIONS) or who is not None:
            raise UnknownActionError(
                f"action {name!r} is missing",
                expected=f"a {kind.__name__}, without actors where nobody can take it",
            )
        return
    if not isinstance(action, kind):
        raise ActionShapeError(
            f"action {name!r} has the wrong type", expected=kind.__name__, received=shorten(action)
        )
    if isinstance(space, GLOBAL_ACTIONS):
        if who is None:
            raise UnknownActionError(
                f"action {name!r} cannot be taken in this step", expected="to be left out"
            )
        if isinstance(action, GlobalCategoricalAction):
            _check_choices(name, space, [action.index], frame)
        else:
            _check_numbers(name, space, [action.values], frame)
        return
    actors = [] if who is None else [frame.ids[actor] for actor in who.actors.tolist()]
    given = _listed(action.actors)
    if given is None or not same_ids(given, actors):
        raise ActorError(
            f"action {name!r} has the wrong actors",
            expected=f"{shorten(actors)}, in this order",
            received=shorten(action.actors),
        )
    if isinstance(action, CategoricalAction):
        _check_choices(name, space, action.indices, frame)
    elif isinstance(action, ContinuousAction):
        _check_numbers(name, space, action.values, frame)
    else:
        _check_selected(name, action.actees, frame)


def _check_numbers(name: ActionName, space: Any, given: Any, frame: Frame) -> None:
    """Check the numbers that the actors set, or the player."""
    who: Any = frame.actions.get(name)
    low, high = bounds_of(space)
    values = as_numbers(name, given, 0 if who is None else len(who.actors), len(space))
    for i, own in enumerate(values):
        if not ((own >= low) & (own <= high) & np.isfinite(own)).all():
            raise numbers_error(name, own, low, high, _actor_name(frame, who.actors[i]))


def _check_choices(name: ActionName, space: Any, indices: Any, frame: Frame) -> None:
    """Check the indices that the actors chose, or the player."""
    who: Any = frame.actions.get(name)
    count = 0 if who is None else len(who.actors)
    try:
        chosen = np.asarray(indices)
    except ValueError:  # lists of different lengths
        chosen = np.array(None)
    if chosen.shape != (count,) or (count and chosen.dtype.kind not in "iu"):
        raise ActionShapeError(
            f"action {name!r} has no choice for each actor",
            expected=f"whole numbers, shape ({count},)",
            received=shorten(indices),
        )
    for i, index in enumerate(chosen.tolist()):
        exists = 0 <= index < len(space)
        if exists and who.mask[i, index]:
            continue
        what = f"action {name!r}: choice {index} of {_actor_name(frame, who.actors[i])}"
        if not exists:
            raise ActionIndexError(
                f"{what} does not exist",
                expected=f"a whole number from 0 to {len(space) - 1}",
                received=index,
            )
        allowed = [f"{j} ({space.index_to_label[j]})" for j in np.flatnonzero(who.mask[i])]
        raise MaskedActionError(
            f"{what} is masked",
            expected="one of " + ", ".join(allowed),
            received=f"{index} ({space.index_to_label[index]})",
        )


def _check_selected(name: ActionName, actees: Any, frame: Frame) -> None:
    who: Any = frame.actions.get(name)
    count = 0 if who is None else len(who.actors)
    selected = _listed(actees)
    if selected is None or len(selected) != count:
        raise ActionShapeError(
            f"action {name!r} has no selected entity for each actor",
            expected=f"{count} ids",
            received=shorten(actees),
        )
    for i, actee in enumerate(selected):
        options = [frame.ids[entity] for entity in who.actees.tolist()]
        allowed = [option for j, option in enumerate(options) if who.mask is None or who.mask[i, j]]
        if not has_id(allowed, actee):
            raise (MaskedActionError if has_id(options, actee) else ActionIndexError)(
                f"action {name!r}: {_actor_name(frame, who.actors[i])} cannot select "
                f"{shorten(actee)}",
                expected=f"one of {shorten(allowed)}",
                received=shorten(actee),
            )


def _actor_name(frame: Frame, index: int) -> str:
    counts = {name: len(rows) for name, rows in frame.features.items()}
    return entity_name("actor", index, frame.ids, counts)


def _listed(ids: Any) -> list[EntityID] | None:
    return list(ids) if is_listed(ids) else None
