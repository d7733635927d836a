"""Shapes of the entities of one type: cells of a board, dots, and what is drawn on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.drawing.ground import Ground
from entity_env.drawing.looks import Look, shades, value_color
from entity_env.drawing.scene import Arrows, Color, Marks, Words, text_color
from entity_env.drawing.table_text import feature_text, id_text, short_name
from entity_env.observation import EntityID
from entity_env.spaces import Entity, EntityName, Feature, num_values, value_names

__all__ = ["Group", "draw_cells", "draw_dots"]

_CELL = 0.48
"""Half of the width of a cell, with a gap to the next one."""
_LEVELS: tuple[tuple[float, Color], ...] = ((0.25, "#d0413a"), (0.5, "#e69f00"), (9.0, "#1d9a6c"))
"""Colours of bars, up to a part of the largest value."""


@dataclass
class Group:
    """The entities of one type in a scene.

    Args:
        name: The type.
        entity: Its space.
        look: Its look.
        rows: The features. Shape: (n, F).
        index: Entity indices. Shape: (n,).
        ids: Their ids; empty for many entities.
        hidden: True for entities that are hidden from the policy. Shape: (n,).
        x: Middles in the scene. Shape: (n,).
        y: Middles in the scene. Shape: (n,).
        size: Radius of each. Shape: (n,).
        unit: Unit of length for text and lines.
        shown: False for dots that are only counted. Shape: (n,).
    """

    name: EntityName
    entity: Entity
    look: Look
    rows: npt.NDArray[Any]
    index: npt.NDArray[Any]
    ids: Sequence[EntityID]
    hidden: npt.NDArray[np.bool_]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    size: npt.NDArray[np.float64]
    unit: float
    shown: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        """Show all."""
        self.shown = np.ones(len(self.index), np.bool_)

    def outline(self, index: int, color: Color, line: float, margin: float) -> Marks:
        """Return the outline of one of the entities."""
        at = np.flatnonzero(self.index == index)[:1]
        x, y = self.x[at], self.y[at]
        if self.look.hints.tile == "hexagon":
            return Marks("hexagon", x, y, [_CELL * 1.1547], None, None, color, line)
        if self.look.fills_cells:
            tall = [_CELL + max(len(self.look.stack) - 1, 0) / 2]
            return Marks("box", x, y, [_CELL], tall, None, color, line)
        return Marks("circle", x, y, self.size[at] + margin, None, None, color, line)


def draw_cells(group: Group, ground: Ground) -> Iterator[Marks | Words]:
    """Yield the cells of entities that fill them."""
    look, x, y, index = group.look, group.x, group.y, group.index
    wide = np.full(len(x), _CELL)
    if look.stack:
        tall = wide + (len(look.stack) - 1) / 2
        yield Marks("box", x, y, wide, tall, look.color, index=index)
        for k, column in enumerate(look.stack):
            up = ground.turn * (k - (len(look.stack) - 1) / 2)
            for value, at in _by_value(group.rows[:, column]):
                color = value_color(look.hints.colors, value) or "ground"
                yield Marks("circle", x[at], y[at] + up, 0.8 * wide[at], None, color)
    elif look.hints.tile:
        values, colors = np.zeros(len(x)), look.hints.grounds
        if look.ground is not None:
            values = group.rows[:, look.ground]
            if num_values(group.entity.features[look.ground]) is None and not colors:
                values, colors = shades(values)
        for value, at in _by_value(values):
            color = "grid" if look.ground is None else value_color(colors, value)
            shape, size = ("hexagon", 1.1547) if look.hints.tile == "hexagon" else ("square", 1.16)
            parts = x[at], y[at], size * wide[at], None, color or "grid"
            yield Marks(shape, *parts, index=index[at])  # type: ignore[arg-type]


def draw_dots(
    group: Group,
    ground: Ground,
    largest: Mapping[tuple[EntityName, int], float],
    *,
    has_letters: bool,
) -> Iterator[Marks | Arrows | Words]:
    """Yield the dots of entities, with their ranges, bars, directions and letters.

    Args:
        group: The entities.
        ground: The ground.
        largest: The largest values of features so far.
        has_letters: True to write on the dots.
    """
    look, unit = group.look, group.unit
    if look.stack or (look.hints.tile and look.color_by is None):
        return
    if look.reach is not None:
        yield Marks("circle", group.x, group.y, look.reach(group.rows), None, look.color, alpha=0.1)
    is_large = group.size >= 0.3 * unit
    letters: dict[tuple[float, Color], list[tuple[float, float, str]]] = {}
    for value, color, owner, is_hidden, at in _by_look(group):
        edge: Color | None = "card"
        line = max(0.06 * unit, 0.1 * float(group.size[at].max(initial=0.0)))
        if owner is not None:
            edge = look.owners[owner] if 0 <= owner < len(look.owners) else "ink"
            line *= 1.6
        elif not is_large[at].any():
            edge = None
        parts = group.x[at], group.y[at], group.size[at], None
        shape = look.shape_of(value)
        if is_hidden:
            yield Marks(shape, *parts, "ground", color, line, index=group.index[at])
        else:
            yield Marks(shape, *parts, color, edge, line, index=group.index[at])
        ink = color if is_hidden else text_color(color)
        for i in at[is_large[at]].tolist() if has_letters else ():
            if text := _letters(group, i):
                size = round(float(group.size[i]) * (0.95 if len(text) < 3 else 0.75), 4)
                words = letters.setdefault((size, ink), [])
                words.append((float(group.x[i]), float(group.y[i]), text))
    if look.heading is not None:
        at = np.flatnonzero(group.shown)
        angle, length = group.rows[at, look.heading].astype(np.float64), 1.5 * group.size[at]
        to_x = group.x[at] + length * np.cos(angle)
        to_y = group.y[at] + ground.turn * length * np.sin(angle)
        yield Arrows(group.x[at], group.y[at], to_x, to_y, "ink", 0.1 * unit)
    if look.bar is not None and has_letters:
        at = np.flatnonzero(group.shown & is_large)
        yield from _draw_bars(group, at, largest.get((group.name, look.bar), 0.0) or 1.0)
    for (size, ink), words in letters.items():
        xs, ys, texts = zip(*words, strict=True)
        yield Words(xs, ys, texts, size, ink)


def _by_value(values: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield each value and where it is."""
    for value in np.unique(values).tolist():
        yield int(value), np.flatnonzero(values == value)


def _by_look(group: Group) -> Iterator[tuple[int, Color, int | None, bool, npt.NDArray[Any]]]:
    """Yield the dots of one look, by their places in the group.

    With them come the value that selects their colour, the colour, the owner, and True for dots
    that are hidden.
    """
    look, count = group.look, len(group.index)
    values = np.zeros(count) if look.color_by is None else group.rows[:, look.color_by]
    owners = np.zeros(count) if look.owner is None else group.rows[:, look.owner]
    keys = np.column_stack([values, owners, group.hidden]).astype(np.int64)
    if (keys == keys[:1]).all():
        different, place = keys[:1], np.zeros(count, np.int64)
    else:
        different, place = np.unique(keys, axis=0, return_inverse=True)
    for number, (value, owner, is_hidden) in enumerate(different.tolist()):
        color = look.color if look.color_by is None else value_color(look.hints.colors, value)
        if color:
            at = np.flatnonzero((place.ravel() == number) & group.shown)
            yield value, color, None if look.owner is None else owner, bool(is_hidden), at


def _draw_bars(group: Group, at: npt.NDArray[Any], full: float) -> Iterator[Marks]:
    """Yield bars under the dots, as long as their part of the largest value."""
    parts = np.clip(group.rows[at, group.look.bar].astype(np.float64) / full, 0, 1)
    half, tall = 0.85 * group.size[at], np.full(len(at), 0.09 * group.unit)
    x, y = group.x[at], group.y[at] + group.size[at] + 0.2 * group.unit
    yield Marks("box", x, y, half, tall, "grid")
    least = -1.0
    for most, color in _LEVELS:
        level = np.flatnonzero((parts > least) & (parts <= most))
        least = most
        if len(level):
            left, length = (x - half)[level], (half * parts)[level]
            yield Marks("box", left + length, y[level], length, tall[level], color)


def _letters(group: Group, i: int) -> str:
    """Return what is written on a dot: the value of its label, or its initial and number."""
    look = group.look
    if look.label is not None:
        feature: Feature = group.entity.features[look.label]
        text = feature_text(feature, group.rows[i, look.label])
        names = value_names(feature)
        return _initials(names, text) if names else text[:3]
    if look.hints.tile:
        return ""
    initial = group.name[:1].upper()
    text = "" if group.ids[i] is None else short_name(group.name, "", id_text(group.ids[i]))
    number = re.search(r"\d+$", text)
    if number:
        return initial + number.group() if len(number.group()) < 3 else initial
    return text if 0 < len(text) <= 3 else initial


def _initials(names: Sequence[str], name: str) -> str:
    """Return the first letters of a name, as many of three as distinguish it from the others."""
    for length in (1, 2):
        if not any(other != name and other[:length] == name[:length] for other in names):
            return name[:1].upper() + name[1:length]
    return name[:1].upper() + name[1:3]
