"""Choices in a frame, for pictures and as lines of text."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from entity_env.batching.frame import Frame
from entity_env.batching.kinds.table import kind_of
from entity_env.drawing.table_text import entity_name, fold
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["Chosen", "choices_of", "chosen_lines"]


@dataclass(frozen=True)
class Chosen:
    """The choice of one actor.

    Args:
        action: The action.
        actor: Entity index of the actor; the one after the last entity is the player as a whole.
        what: The label of the choice, the numbers, or the name of the selected entity.
        actee: Entity index of the selected entity; None for other choices.
    """

    action: ActionName
    actor: int
    what: str
    actee: int | None = None


def choices_of(
    frame: Frame,
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
    indices: Mapping[ActionName, npt.NDArray[Any]],
) -> list[Chosen]:
    """Return the choices of the actors of a frame, in the order of the action space.

    Args:
        frame: The frame.
        obs_space: Its space.
        action_space: The action space.
        indices: For each action one number for each actor: the index of the choice, or for a
            select-entity action the index of the entity, (A,); or the numbers (A, K). Actions
            without choices are left out.
    """
    every, name_of = [], functools.partial(_name, frame, obs_space)
    for name, space in action_space.items():
        if name not in frame.actions or name not in indices:
            continue
        actors = frame.actions[name].actors.tolist()
        for actor, index in zip(actors, indices[name].tolist(), strict=True):
            every.append(Chosen(name, actor, *kind_of(space).describe(space, index, name_of)))
    return every


def chosen_lines(
    chosen: Sequence[Chosen], frame: Frame, obs_space: ObsSpace, width: int = 100
) -> list[str]:
    """Return the choices as text, with separate lines for each action.

    Args:
        chosen: The result of ``choices_of``.
        frame: The frame.
        obs_space: Its space.
        width: Width of a line in characters.
    """
    lines = []
    for name in dict.fromkeys(choice.action for choice in chosen):
        cells = [_cell(choice, frame, obs_space) for choice in chosen if choice.action == name]
        lines += fold(f"{name}: ", cells, width)
    return lines


def _name(frame: Frame, obs_space: ObsSpace, index: int) -> str:
    """Return the name of an entity: its type and id, or its index without an id."""
    name = entity_name(frame, obs_space, index)
    has_id = index >= len(frame.ids) or frame.ids[index] is not None
    return name if has_id else f"{name} #{index}"


def _cell(choice: Chosen, frame: Frame, obs_space: ObsSpace) -> str:
    if choice.actor >= len(frame.ids):  # the player as a whole needs no name
        return choice.what
    actor = _name(frame, obs_space, choice.actor)
    return f"{actor} {choice.what}" if choice.actee is None else f"{actor} -> {choice.what}"
