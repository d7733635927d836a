"""What a picture of a frame shows: the plane with its dots, and the panel with its lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.drawing.plane import Spread, View
from entity_env.drawing.table_text import Block, entity_blocks, feature_text, id_text
from entity_env.frame import Frame
from entity_env.observation import EntityID
from entity_env.spaces import EntityName, ObsSpace, feature_name

if TYPE_CHECKING:
    from entity_env.drawing.drawer import Canvas

__all__ = ["Color", "Panel", "Shape", "draw_plane"]

Color: TypeAlias = tuple[int, int, int]
Shape: TypeAlias = Literal["circle", "square", "diamond"]

# Okabe and Ito (2008), "Color universal design": told apart with any kind of colour vision.
_COLORS: tuple[Color, ...] = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (230, 159, 0),
    (204, 121, 167),
    (86, 180, 233),
    (214, 200, 40),
    (84, 90, 102),
)
_SHAPES: tuple[Shape, ...] = ("circle", "square", "diamond")
_GROUND: Color = (247, 249, 251)
_LINE: Color = (225, 230, 237)
_SOFT: Color = (120, 130, 146)
_INK: Color = (38, 46, 60)
_WHITE: Color = (255, 255, 255)


def draw_plane(
    canvas: Canvas,
    unit: float,
    view: View,
    radius: float,
    frame: Frame,
    places: Mapping[EntityName, tuple[int, int]],
) -> None:
    """The ground with its grid, and a dot for each entity that has a place.

    Args:
        canvas: Where to.
        unit: The length that the sizes of text and lines are multiples of.
        view: Where in the picture the plane is.
        radius: Of a dot.
        frame: What to draw.
        places: The columns of x and y in the features of each type that has them.
    """
    left, top, right, bottom = view.left, view.top, view.left + view.size, view.top + view.size
    canvas.box(left, top, right, bottom, _GROUND)
    for value, x in view.ticks(0):
        canvas.box(x, top, x + unit, bottom, _LINE)
        canvas.text(x, bottom + 5 * unit, f"{value:g}", 10 * unit, _SOFT, "mt")
    for value, y in view.ticks(1):
        canvas.box(left, y, right, y + unit, _LINE)
        canvas.text(left - 5 * unit, y, f"{value:g}", 10 * unit, _SOFT, "rm")
    kinds = list(frame.features)
    dots = _Dots.of(frame, places)
    pixels = view.pixels(dots.points)
    inside = ((pixels >= (left, top)) & (pixels <= (right, bottom))).all(axis=1)
    spread = Spread.of(pixels[inside], radius)
    own = [i for i, is_inside in enumerate(inside.tolist()) if is_inside]
    middles, radii = spread.pixels.tolist(), spread.radius.tolist()
    for i in np.flatnonzero(spread.shown).tolist():
        name, entity_id, hidden = dots.entities[own[i]]
        color, shape = _look(kinds.index(name))
        x, y = middles[i]
        canvas.dot(x, y, radii[i], color, shape, edge=_WHITE, hollow=hidden)
        if radii[i] >= 6 * unit:
            ink = color if hidden else _on(color)
            _label(canvas, x, y, radii[i], (name, entity_id), ink)
    for x, y, count in spread.crowds.tolist():
        canvas.text(x + radius, y - radius, f"x{count:.0f}", 10 * unit, _INK, "lb")


@dataclass(frozen=True)
class _Word:
    """A word of a line: from ``x`` on to the right, or up to ``x`` if it ``ends`` there."""

    x: float
    text: str
    color: Color
    ends: bool = False


class Panel:
    """Lists of what there is, one line under the other.

    Args:
        canvas: Where to.
        unit: The length that the sizes of text and lines are multiples of.
        left: Where the lines start.
        width: How wide they can be.
    """

    def __init__(self, canvas: Canvas, unit: float, left: float, width: float) -> None:
        self.canvas, self.unit, self.left, self.width = canvas, unit, left, width
        self._indent = 18 * unit
        self._lines: list[list[_Word]] = []
        self._markers: dict[int, tuple[Color, Shape]] = {}

    def draw(self, frame: Frame, obs_space: ObsSpace, placed: Sequence[EntityName]) -> None:
        """The types with their numbers, tables of those not ``placed``, the global features."""
        blocks = entity_blocks(frame, obs_space)
        looks = {block.name: _look(i) for i, block in enumerate(blocks)}
        for block in blocks:
            if block.name in placed:
                self._add_heading(block, *looks[block.name])
        if placed and obs_space.global_features:
            self._lines.append([])
        for feature, value in zip(obs_space.global_features, frame.global_features, strict=True):
            self._add_pair(0, feature_name(feature), feature_text(feature, value), _SOFT)
        for block in blocks:
            if block.name not in placed:
                self._lines += [[]] * bool(self._lines)
                self._add_heading(block, *looks[block.name])
                if block.count and block.header:
                    self._add_table(block)
        self._write()

    def _add_heading(self, block: Block, color: Color, shape: Shape) -> None:
        self._markers[len(self._lines)] = color, shape
        self._add_pair(self._indent, block.name, f"{block.count:,}", _INK)

    def _add_pair(self, x: float, name: str, value: str, color: Color) -> None:
        """A name to the left and its value to the right."""
        right = min(self.width, 152 * self.unit)
        room = right - x - self._measure(value) - 8 * self.unit
        name = self.canvas.shortened(name, self._size, room)
        self._lines.append([_Word(x, name, color), _Word(right, value, _INK, ends=True)])

    def _add_table(self, block: Block) -> None:
        """Ids to the left, features in columns beside them, as many as there is room for."""
        names = [_short_label(block.name, *label) for label in block.labels]
        right = self._indent + max(map(self._measure, names))
        columns: list[tuple[float, list[str]]] = []
        for place, name in enumerate(block.header):
            cells = [name, *(row[place] for row in block.cells)]
            right += 12 * self.unit + max(map(self._measure, cells))
            if right > self.width:
                break
            columns.append((right, cells))
        head = [_Word(right, cells[0], _SOFT, ends=True) for right, cells in columns]
        if len(columns) < len(block.header):
            head.append(_Word(self.width, "...", _SOFT))
        self._lines.append(head)
        for i, name in enumerate(names, 1):
            words = [_Word(right, cells[i], _INK, ends=True) for right, cells in columns]
            self._lines.append([_Word(self._indent, name, _SOFT), *words])
        if block.count > len(names):
            more = f"... and {block.count - len(names):,} more"
            self._lines.append([_Word(self._indent, more, _SOFT)])

    def _write(self) -> None:
        """All lines, in as many columns as fit beside each other."""
        height, top, gap = 19 * self.unit, 12 * self.unit, 28 * self.unit
        most = int((self.canvas.height - 2 * top) / height)
        widest = max([0.0, *(self._end(word) for words in self._lines for word in words)])
        room = most * max(1, int((self.width + gap) / (widest + gap)))
        if len(self._lines) > room:
            more = f"... and {len(self._lines) - room + 1} more lines"
            self._lines[room - 1 :] = [[_Word(0, more, _SOFT)]]
            self._markers.pop(room - 1, None)
        for i, words in enumerate(self._lines):
            left, y = self.left + i // most * (widest + gap), top + (i % most + 0.5) * height
            if i in self._markers:
                color, shape = self._markers[i]
                self.canvas.dot(left + 6 * self.unit, y, 5.5 * self.unit, color, shape, edge=color)
            for word in words:
                anchor = "rm" if word.ends else "lm"
                self.canvas.text(left + word.x, y, word.text, self._size, word.color, anchor)

    def _end(self, word: _Word) -> float:
        return word.x if word.ends else word.x + self._measure(word.text)

    @property
    def _size(self) -> float:
        return 12 * self.unit

    def _measure(self, text: str) -> float:
        return self.canvas.text_width(text, self._size)


@dataclass(frozen=True)
class _Dots:
    """The entities that have a place: ``points`` (M, 2), and of each its type, id and secrecy."""

    points: npt.NDArray[np.float64]
    entities: list[tuple[EntityName, EntityID, bool]]

    @classmethod
    def of(cls, frame: Frame, places: Mapping[EntityName, tuple[int, int]]) -> _Dots:
        parts: list[npt.NDArray[Any]] = [np.zeros((0, 2))]
        entities, first = [], 0
        for name, rows in frame.features.items():
            ids = frame.ids[first : first + len(rows)]
            first += len(rows)
            if name in places:
                parts.append(rows[:, places[name]])
                visible = frame.visible.get(name, np.ones(len(rows), np.bool_)).tolist()
                entities += [(name, own, not seen) for own, seen in zip(ids, visible, strict=True)]
        return cls(np.concatenate(parts), entities)


def _look(place: int) -> tuple[Color, Shape]:
    """The colour of a type, and another shape where the colours begin again."""
    return _COLORS[place % len(_COLORS)], _SHAPES[place // len(_COLORS) % len(_SHAPES)]


def _on(color: Color) -> Color:
    """The colour of text that can be read on ``color``."""
    brightness = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]
    return _INK if brightness > 150 else _WHITE


def _label(
    canvas: Canvas,
    x: float,
    y: float,
    radius: float,
    entity: tuple[EntityName, EntityID],
    color: Color,
) -> None:
    """The longest label that fits into a dot."""
    name, entity_id = entity
    initial = name[:1].upper()
    text = "" if entity_id is None else _short_label(name, "", id_text(entity_id))
    number = re.search(r"\d+$", text)
    options = [initial + number.group()] if number else [text] if text else []
    for option in [*options, initial]:
        size = radius * (0.95 if len(option) < 3 else 0.8)
        if canvas.text_width(option, size) <= 1.6 * radius:
            canvas.text(x, y, option, size, color, "mm")
            return


def _short_label(name: EntityName, index: str, text: str) -> str:
    """An id without the type that it begins with; the index where there is no id."""
    if text == "-":
        return f"#{index}"
    rest = text.removeprefix(name).strip()
    return rest or text
