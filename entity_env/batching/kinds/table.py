"""All kinds of actions, by the class of their spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.answers import AnswerForm
from entity_env.batching.kinds.categorical import CategoricalKind, GlobalCategoricalKind
from entity_env.batching.kinds.continuous import ContinuousKind, GlobalContinuousKind
from entity_env.batching.kinds.kind import Asked, Ints, Kind
from entity_env.batching.kinds.select_entities import SelectEntitiesKind
from entity_env.batching.kinds.select_entity import SelectEntityKind
from entity_env.observation import EntityID
from entity_env.spaces import ActionName, ActionSpace

__all__ = ["KINDS", "answer_forms", "kind_of", "typed_actions"]

KINDS: dict[type[ActionSpace], Kind] = {
    kind.space: kind
    for kind in (
        CategoricalKind(),
        GlobalCategoricalKind(),
        SelectEntityKind(),
        SelectEntitiesKind(),
        ContinuousKind(),
        GlobalContinuousKind(),
    )
}


def kind_of(space: ActionSpace) -> Kind:
    """Return the kind of an action, given by its space."""
    return KINDS[type(space)]


def answer_forms(action_space: Mapping[ActionName, ActionSpace]) -> dict[ActionName, AnswerForm]:
    """Return the form of the choices of each action of a space."""
    return {name: kind_of(space).form(space) for name, space in action_space.items()}


def typed_actions(
    frame: Frame,
    chosen: Mapping[ActionName, npt.NDArray[Any]],
    action_space: Mapping[ActionName, ActionSpace],
) -> dict[ActionName, Action]:
    """Return the actions of one frame in the format of ``Environment.act``.

    Args:
        frame: The frame of the actions.
        chosen: For each action one number for each actor: the index of the choice, or for a
            select-entity action the index of the entity. Shape: (A,). For a continuous action its
            numbers, (A, K). Already checked.
        action_space: The environment's action space.
    """
    frames: list[dict[ActionName, Action]] = [{}]
    ids: Sequence[EntityID] = frame.ids
    for name, space in action_space.items():
        kind, who = kind_of(space), frame.actions.get(name)
        actors: Ints = _NOBODY if who is None else who.actors
        values = chosen.get(name, _NOBODY).reshape(len(actors), kind.form(space).width)
        lengths = np.array([len(actors)])
        asked = Asked.of(actors, lengths, ids, _START, kind.is_global)
        kind.act(frames, name, space, values, asked)
    return frames[0]


_NOBODY = np.zeros(0, np.int64)
_START = np.zeros(1, np.int64)
