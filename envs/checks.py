"""Checks of actions and saved states for small games."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from entity_env.actions import (
    Action,
    CategoricalAction,
    GlobalCategoricalAction,
    SelectEntitiesAction,
    SelectEntityAction,
)
from entity_env.errors import (
    DAMAGES,
    ActionError,
    MaskError,
    ResetNeededError,
    StateError,
    counted,
    shorten,
)
from entity_env.observation import EntityID
from entity_env.spaces import ActionName

__all__ = [
    "as_number",
    "check_index",
    "check_running",
    "check_started",
    "indices_of",
    "of_kind",
    "read_choices",
    "read_global_choice",
    "read_selection",
    "read_set",
    "reading_state",
    "refuse_state",
]


def check_started(steps: int) -> None:
    """Raise ResetNeededError before the first reset, where ``steps`` is -1."""
    if steps < 0:
        raise ResetNeededError("no episode has been started", hint="call reset() first")


def check_running(steps: int, done: bool) -> None:
    """Raise ResetNeededError where there is no episode to go on with."""
    check_started(steps)
    if done:
        raise ResetNeededError("the episode is over", hint="call reset() first")


def read_choices(
    actions: Mapping[ActionName, Action],
    name: ActionName,
    actors: Sequence[EntityID],
    labels: Sequence[str],
    mask: Sequence[Sequence[bool]] | None = None,
) -> list[int]:
    """Return the choice of each actor, as an index.

    Args:
        actions: The argument of ``act``.
        name: The action to read; all of ``actors`` must take it.
        actors: Ids, in the order of the result.
        labels: The choices.
        mask: The choices of each actor, True = allowed; None allows everything.

    Raises:
        EntityEnvError: The subclass for what is wrong with the action.
    """
    action = of_kind(actions, name, CategoricalAction)
    given, indices = list(action.actors), indices_of(name, action)
    if given != list(actors):
        indices = _in_order(name, given, indices, actors)
    for i, index in enumerate(indices):
        check_index(f"actor {actors[i]!r}", name, index, labels, mask[i] if mask else None)
    return indices


def read_global_choice(
    actions: Mapping[ActionName, Action],
    name: ActionName,
    labels: Sequence[str],
    mask: Sequence[bool] | None = None,
) -> int:
    """Return the index of a global choice; the arguments are those of ``read_choices``."""
    index: Any = of_kind(actions, name, GlobalCategoricalAction).index
    if isinstance(index, np.integer):
        index = int(index)
    check_index("the player", name, index, labels, mask)
    return int(index)


def read_selection(
    actions: Mapping[ActionName, Action],
    name: ActionName,
    actor: EntityID,
    actees: Collection[EntityID],
) -> EntityID:
    """Return the one of ``actees`` that the only actor selected; otherwise as ``read_choices``."""
    action = of_kind(actions, name, SelectEntityAction)
    given = list(action.actors)
    selected: list[EntityID] = list(action.actees)
    if given != [actor]:
        raise MaskError(
            f"action {name!r} is not taken by its actor",
            expected=f"{actor!r} alone",
            received=shorten(given),
        )
    if len(selected) != 1:
        raise ActionError(
            f"action {name!r} does not give one actee for its actor",
            expected="1 actee",
            received=shorten(selected),
        )
    if selected[0] not in actees:
        raise MaskError(
            f"action {name!r} names an entity that cannot be selected",
            expected=f"one of {shorten(list(actees))}",
            received=shorten(selected[0]),
        )
    return selected[0]


def read_set(
    actions: Mapping[ActionName, Action],
    name: ActionName,
    actor: EntityID,
    actees: Collection[EntityID],
    at_most: int,
) -> list[EntityID]:
    """Return the set of ``actees`` that the only actor selected; otherwise as ``read_choices``."""
    action = of_kind(actions, name, SelectEntitiesAction)
    if list(action.actors) != [actor] or len(action.actees) != 1:
        raise MaskError(
            f"action {name!r} is not taken by its actor",
            expected=f"{actor!r} alone, and one list of ids",
            received=shorten(action),
        )
    selected = list(action.actees[0])
    for place, one in enumerate(selected):
        if one not in actees or one in selected[:place] or place == at_most:
            raise MaskError(
                f"action {name!r} selects {shorten(one)}",
                expected=f"at most {at_most} of {shorten(list(actees))}, each once",
                received=shorten(selected),
            )
    return selected


@contextmanager
def reading_state(game: str, state: Any) -> Iterator[None]:
    """Turn what reading a malformed ``state`` raises into a StateError."""
    try:
        yield
    except StateError:
        raise
    except DAMAGES as error:
        raise StateError(
            f"this is not a state of {game}",
            expected="what get_state returned",
            received=shorten(state),
            hint=f"{type(error).__name__}: {error}",
        ) from error


def refuse_state(game: str, state: Any, problems: Mapping[str, bool]) -> None:
    """Raise StateError for the first of ``problems``, such as ``a negative step``, that is True."""
    for what, is_so in problems.items():
        if is_so:
            raise StateError(
                f"a state with {what}",
                expected=f"a moment of {game} with the settings of this environment",
                received=shorten(state),
            )


def as_number(value: Any) -> float:
    """Return ``value`` as a finite float, else raise TypeError or ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{shorten(value)} is not a number")
    if not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    return float(value)


def indices_of(name: ActionName, action: CategoricalAction) -> list[Any]:
    """Return the indices of the choices, one for each actor, else ActionError."""
    indices = np.asarray(action.indices).tolist()
    if not isinstance(indices, list) or len(action.actors) != len(indices):
        raise ActionError(
            f"action {name!r} does not give one choice for each actor",
            expected=counted(len(action.actors), "number"),
            received=shorten(indices),
        )
    return indices


def of_kind(actions: Mapping[ActionName, Action], name: ActionName, kind: type) -> Any:
    """Return the action of that name, which must be of the class ``kind``."""
    if name not in actions:
        raise ActionError(
            f"action {name!r} is left out",
            expected=f"{name!r}: a {kind.__name__}",
            received=shorten(list(actions)),
        )
    action = actions[name]
    if not isinstance(action, kind):
        raise MaskError(
            f"action {name!r} is of the wrong kind",
            expected=kind.__name__,
            received=shorten(action),
        )
    return action


def _in_order(
    name: ActionName, given: list[EntityID], indices: list[Any], actors: Sequence[EntityID]
) -> list[Any]:
    """Return the indices in the order of ``actors``, each of whom must be given once."""
    if len(given) != len(actors) or any(actor not in given for actor in actors):
        raise MaskError(
            f"action {name!r} is not taken by its actors",
            expected=f"each of {shorten(list(actors))} once",
            received=shorten(given),
        )
    return [indices[given.index(actor)] for actor in actors]


def check_index(
    who: str, name: ActionName, index: Any, labels: Sequence[str], allowed: Sequence[bool] | None
) -> None:
    """Raise an error unless ``index`` is that of a label, and allowed."""
    if type(index) is not int or not 0 <= index < len(labels):
        raise ActionError(
            f"{who} made a choice in {name!r} that does not exist",
            expected=f"an index from 0 to {len(labels) - 1}",
            received=shorten(index),
        )
    if allowed is not None and not allowed[index]:
        raise ActionError(
            f"{who} made a choice in {name!r} that is not allowed",
            received=f"{index} ({labels[index]})",
            options=[label for label, ok in zip(labels, allowed, strict=True) if ok],
        )
