"""Choices in a frame, for pictures and as lines of text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from entity_env.batching.frame import Frame
from entity_env.drawing.table_text import entity_name
from entity_env.kinds.table import kind_of
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["Chosen", "choices_of", "chosen_lines", "fold", "name_in_frame"]


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
    every, name_of = [], functools.partial(name_in_frame, frame, obs_space)
    for name, space in action_space.items():
        if name not in frame.actions or name not in indices:
            continue
        actors = frame.actions[name].actors.tolist()
        for actor, index in zip(actors, indices[name].tolist(), strict=True):
            every.append(Chosen(name, actor, *kind_of(space).describe(space, index, name_of)))
    return every


def chosen_lines(
    chosen: Sequence[Chosen],
    frame: Frame,
    obs_space: ObsSpace,
    *,
    width: float = 100,
    measure: Callable[[str], float] = len,
    most: int | None = None,
) -> list[str]:
    """Return the choices as text, with separate lines for each action.

    Args:
        chosen: The result of ``choices_of``.
        frame: The frame.
        obs_space: Its space.
        width: Width of a line.
        measure: Function that returns the width of a text.
        most: Largest number of lines; the last one counts those that are left out.
    """
    lines: list[tuple[str, int]] = []
    for name in dict.fromkeys(own.action for own in chosen):
        cells = [_cell(own, frame, obs_space) for own in chosen if own.action == name]
        lines += fold(f"{name}: ", cells, width, measure)
    if most is None or len(lines) <= most:
        return [line for line, _ in lines]
    shown, rest = lines[: most - 1], sum(count for _, count in lines[most - 1 :])
    return [line for line, _ in shown] + [f"... and {rest:,} more"]


def fold(
    head: str, cells: Sequence[str], width: float, measure: Callable[[str], float] = len
) -> list[tuple[str, int]]:
    """Return lines of a head followed by cells, each with its number of cells."""
    lines, line, count = [], head, 0
    for cell in cells:
        if count and measure(f"{line}, {cell}") > width:
            lines.append((f"{line},", count))
            line, count = "  ", 0
        line, count = f"{line}, {cell}" if count else f"{line}{cell}", count + 1
    return [*lines, (line, count)]


def name_in_frame(frame: Frame, obs_space: ObsSpace, index: int) -> str:
    """Return the name of an entity: its type and id, or its index without an id."""
    name = entity_name(frame, obs_space, index)
    has_id = index >= len(frame.ids) or frame.ids[index] is not None
    return name if has_id else f"{name} #{index}"


def _cell(own: Chosen, frame: Frame, obs_space: ObsSpace) -> str:
    if own.actor >= len(frame.ids):  # the player as a whole needs no name
        return own.what
    actor = name_in_frame(frame, obs_space, own.actor)
    return f"{actor} {own.what}" if own.actee is None else f"{actor} -> {own.what}"
