"""The parts of a picture: the plane with its dots, and the panel with its lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.frame import Frame
from entity_env.drawing.canvas import Canvas, Color, Shape
from entity_env.drawing.chosen import Chosen
from entity_env.drawing.legend import Sign, draw_sign, text_color
from entity_env.drawing.plane import Spread, View
from entity_env.drawing.table_text import TextBlock, entity_blocks, feature_text, id_text
from entity_env.observation import EntityID
from entity_env.spaces import Discrete, EntityName, ObsSpace, feature_name

__all__ = ["OWNERS", "Panel", "draw_plane", "find_owners", "look"]

# Okabe and Ito (2008), "Color universal design": distinguishable with any kind of colour vision.
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
_MARK: Color = (255, 236, 179)
OWNERS: tuple[Color, ...] = (_INK, (220, 40, 40), (250, 180, 0), (110, 60, 190))
"""The edges of the entities of each owner."""
_MOST_WORDS = 200
"""The largest number of entities with text beside them, for readability."""


def draw_plane(
    canvas: Canvas,
    unit: float,
    view: View,
    radius: float,
    frame: Frame,
    places: Mapping[EntityName, tuple[int, int]],
    owners: Mapping[EntityName, int],
    chosen: Sequence[Chosen] = (),
    labels: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Draw the ground with its grid, and a dot for each entity that has a place.

    Args:
        canvas: The canvas.
        unit: Unit of length for the sizes of text and lines.
        view: The map of the plane to pixels.
        radius: Radius of a dot.
        frame: The frame to draw.
        places: The columns of x and y in the features of each type that has them.
        owners: The column of the owner in the features of each type that has one.
        chosen: The choices of the actors.
        labels: Further text beside entities, by their indices.
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
    dots = _Dots.of(frame, places, owners)
    pixels = view.pixels(dots.points)
    inside = ((pixels >= (left, top)) & (pixels <= (right, bottom))).all(axis=1)
    spread = Spread.of(pixels[inside], radius)
    own = [dots.entities[i] for i in np.flatnonzero(inside).tolist()]
    spots = {
        entity.index: _Spot(x, y, r, look(kinds.index(entity.kind))[0])
        for entity, (x, y), r in zip(
            own, spread.pixels.tolist(), spread.radius.tolist(), strict=True
        )
    }
    arrows = _draw_selections(canvas, unit, chosen, spots)
    for i in np.flatnonzero(spread.shown).tolist():
        entity = own[i]
        color, shape = look(kinds.index(entity.kind))
        spot = spots[entity.index]
        edge = _WHITE if entity.owner is None else OWNERS[entity.owner]
        canvas.dot(spot.x, spot.y, spot.radius, color, shape, edge=edge, hollow=entity.is_hidden)
        if spot.radius >= 6 * unit:
            ink = color if entity.is_hidden else text_color(color)
            _label(canvas, spot, (entity.kind, entity.id), ink)
    for x, y, count in spread.crowds.tolist():
        canvas.text(x + radius, y - radius, f"x{count:.0f}", 10 * unit, _INK, "lb")
    shown = {own[i].index: spots[own[i].index] for i in np.flatnonzero(spread.shown).tolist()}
    _write_beside(canvas, unit, view, shown, _words(chosen, spots), labels, arrows)


@dataclass(frozen=True)
class _Spot:
    """The place of an entity's dot in pixels, and its colour."""

    x: float
    y: float
    radius: float
    color: Color


_Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels."""


def _draw_selections(
    canvas: Canvas, unit: float, chosen: Sequence[Chosen], spots: Mapping[int, _Spot]
) -> list[_Box]:
    """Draw a line from each actor to its selected entity, or a ring for an actor without a place.

    Return the areas covered by the lines, in parts.
    """
    covered = []
    for own in chosen:
        actor, actee = spots.get(own.actor), spots.get(-1 if own.actee is None else own.actee)
        if actee is None:
            continue
        if actor is None or actor is actee:
            canvas.ring(actee.x, actee.y, actee.radius + 4 * unit, 2 * unit, _INK)
            continue
        start, end = complex(actor.x, actor.y), complex(actee.x, actee.y)
        away = (end - start) / abs(end - start) if end != start else 1.0 + 0j
        tip = end - (actee.radius + unit) * away
        canvas.arrow(start, tip, 2 * unit, _darker(actor.color), head=7 * unit)
        for part in np.linspace(start, tip, 2 + int(abs(tip - start) / (8 * unit))).tolist():
            x, y, half = part.real, part.imag, 3 * unit
            covered.append((x - half, y - half, x + half, y + half))
    return covered


def _words(chosen: Sequence[Chosen], spots: Mapping[int, _Spot]) -> dict[int, str]:
    """Return the choices of each actor as text, without those that a line shows."""
    words: dict[int, list[str]] = {}
    for own in chosen:
        if own.actee is None:
            words.setdefault(own.actor, []).append(own.what)
        elif own.actee not in spots:
            words.setdefault(own.actor, []).append(f"-> {own.what}")
    return {actor: ", ".join(parts) for actor, parts in words.items()}


def _write_beside(
    canvas: Canvas,
    unit: float,
    view: View,
    spots: Mapping[int, _Spot],
    words: Mapping[int, str],
    labels: Mapping[int, str],
    taken: Sequence[_Box],
) -> None:
    """Write choices to the right of the entities' dots, and labels under them.

    If that side is covered, use another side that is free.
    """
    size = 10.5 * unit
    edges = view.left, view.top, view.left + view.size, view.top + view.size
    margin = 3 * unit
    dots = [
        (s.x - s.radius, s.y - s.radius, s.x + s.radius, s.y + s.radius) for s in spots.values()
    ]
    free = _FreePlace(edges, [*dots, *taken])
    for texts, sides in ((words, ("lm", "rm", "mb", "mt")), (labels, ("mt", "mb", "lm", "rm"))):
        for index in [i for i in spots if texts.get(i)][:_MOST_WORDS]:
            spot = spots[index]
            text = canvas.shortened(texts[index], size, view.size / 3)
            box = canvas.text_width(text, size), size
            x, y, anchor = free.take(spot, box, sides, margin)
            color = _darker(spot.color) if texts is words else _INK
            canvas.text(x, y, text, size, color, anchor, halo=1.5 * unit)


class _FreePlace:
    """A search for a side of a dot where a text covers neither dots nor other texts.

    Args:
        edges: Left, top, right and bottom of the area for texts.
        taken: Left, top, right and bottom of each covered area.
    """

    def __init__(self, edges: _Box, taken: Sequence[_Box]) -> None:
        self._edges = edges
        self._taken = np.array(taken).reshape(-1, 4)

    def take(
        self, spot: _Spot, size: tuple[float, float], sides: Sequence[str], margin: float
    ) -> tuple[float, float, str]:
        """Return x, y and the anchor of a text of this size at the best of the sides.

        A side is the anchor of a text: ``lm`` is to the right of the dot.
        """
        (width, height), gap = size, spot.radius + margin
        best = []
        for rank, side in enumerate(sides):
            across, down = {"lm": (1, 0), "rm": (-1, 0), "mb": (0, -1), "mt": (0, 1)}[side]
            x, y = spot.x + gap * across, spot.y + gap * down
            left, top = x + (across - 1) * width / 2, y + (down - 1) * height / 2
            box = left, top, left + width, top + height
            low, high = self._taken[:, :2], self._taken[:, 2:]
            covered = ((low < box[2:]) & (high > box[:2])).all(axis=1).sum()
            is_outside = not (
                self._edges[0] <= left
                and self._edges[1] <= top
                and box[2] <= self._edges[2]
                and box[3] <= self._edges[3]
            )
            best.append((is_outside, int(covered), rank, (x, y, side), box))
        *_, place, box = min(best)
        self._taken = np.concatenate([self._taken, [box]])
        return place


def _darker(color: Color) -> Color:
    """Return a darker color, for text and lines on light ground."""
    red, green, blue = (round(0.7 * part) for part in color)
    return red, green, blue


@dataclass(frozen=True)
class _Word:
    """A word of a line: from ``x`` on to the right, or up to ``x`` if it ``ends`` there."""

    x: float
    text: str
    color: Color
    ends: bool = False


class Panel:
    """Lists of entity types, entities and global features, one line under the other.

    Args:
        canvas: The canvas.
        unit: Unit of length for the sizes of text and lines.
        left: Left edge of the lines.
        width: Largest width of a line.
    """

    def __init__(self, canvas: Canvas, unit: float, left: float, width: float) -> None:
        self.canvas, self.unit, self.left, self.width = canvas, unit, left, width
        self._indent = 18 * unit
        self._lines: list[list[_Word]] = []
        self._signs: dict[int, Sign] = {}
        self._selected: set[str] = set()
        self._marked: set[int] = set()

    def draw(
        self,
        frame: Frame,
        obs_space: ObsSpace,
        placed: Sequence[EntityName],
        owners: Mapping[EntityName, int] = MappingProxyType({}),
        chosen: Sequence[Chosen] = (),
        labels: Sequence[str] = (),
    ) -> None:
        """Draw the types with counts, tables of types that are not ``placed``, and global features.

        The legend explains the edges of dots of ``owners`` and the ``labels`` beside dots. Entities
        in tables that an actor has ``chosen`` are marked.
        """
        self._selected = {str(own.actee) for own in chosen if own.actee is not None}
        blocks = entity_blocks(frame, obs_space)
        looks = {block.name: look(i) for i, block in enumerate(blocks)}
        for block in blocks:
            if block.name in placed:
                self._add_heading(block, *looks[block.name])
        if placed:
            for meaning, sign in _other_signs(frame, obs_space, owners, chosen):
                self._add_sign(meaning, sign)
        if placed and labels:
            text = f"labels: {', '.join(labels)}"
            text = self.canvas.shortened(text, self._size, self.width)
            self._lines += [[], [_Word(0, text, _SOFT)]]
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

    def _add_heading(self, block: TextBlock, color: Color, shape: Shape) -> None:
        self._signs[len(self._lines)] = Sign("", color, shape, block.name[:1].upper())
        self._add_pair(self._indent, block.name, f"{block.count:,}", _INK)

    def _add_sign(self, meaning: str, sign: Sign) -> None:
        self._signs[len(self._lines)] = sign
        text = self.canvas.shortened(meaning, self._size, self.width - self._indent)
        self._lines.append([_Word(self._indent, text, _INK)])

    def _add_pair(self, x: float, name: str, value: str, color: Color) -> None:
        """Draw a name to the left and its value to the right."""
        right = min(self.width, 152 * self.unit)
        room = right - x - self._measure(value) - 8 * self.unit
        name = self.canvas.shortened(name, self._size, room)
        self._lines.append([_Word(x, name, color), _Word(right, value, _INK, ends=True)])

    def _add_table(self, block: TextBlock) -> None:
        """Add ids to the left and as many columns of features beside them as fit."""
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
            if block.labels[i - 1][0] in self._selected:
                self._marked.add(len(self._lines))
            words = [_Word(right, cells[i], _INK, ends=True) for right, cells in columns]
            self._lines.append([_Word(self._indent, name, _SOFT), *words])
        if block.count > len(names):
            more = f"... and {block.count - len(names):,} more"
            self._lines.append([_Word(self._indent, more, _SOFT)])

    def _write(self) -> None:
        """Write all lines, in as many columns as fit beside each other."""
        height, top, gap = 19 * self.unit, 12 * self.unit, 28 * self.unit
        most = int((self.canvas.height - 2 * top) / height)
        widest = max([0.0, *(self._end(word) for words in self._lines for word in words)])
        room = most * max(1, int((self.width + gap) / (widest + gap)))
        if len(self._lines) > room:
            more = f"... and {len(self._lines) - room + 1} more lines"
            self._lines[room - 1 :] = [[_Word(0, more, _SOFT)]]
            self._signs.pop(room - 1, None)
            self._marked.discard(room - 1)
        for i, words in enumerate(self._lines):
            left, y = self.left + i // most * (widest + gap), top + (i % most + 0.5) * height
            if i in self._marked:
                right = left + max(map(self._end, words)) + 6 * self.unit
                start = left + self._indent - 6 * self.unit
                self.canvas.box(start, y - height / 2, right, y + height / 2, _MARK)
            if i in self._signs:
                draw_sign(self.canvas, left, y, self._signs[i], self._size)
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


@dataclass(frozen=True, slots=True)
class _Entity:
    """The index in the frame, type, id, owner and visibility of an entity."""

    index: int
    kind: EntityName
    id: EntityID
    owner: int | None
    is_hidden: bool


@dataclass(frozen=True)
class _Dots:
    """The entities that have a place: ``points`` (M, 2), and a description of each."""

    points: npt.NDArray[np.float64]
    entities: list[_Entity]

    @classmethod
    def of(
        cls,
        frame: Frame,
        places: Mapping[EntityName, tuple[int, int]],
        owners: Mapping[EntityName, int],
    ) -> _Dots:
        parts: list[npt.NDArray[Any]] = [np.zeros((0, 2))]
        entities, first = [], 0
        for name, rows in frame.features.items():
            if name in places:
                parts.append(rows[:, places[name]])
                visible = frame.visible.get(name, np.ones(len(rows), np.bool_)).tolist()
                own: list[int | None] = [None] * len(rows)
                if name in owners:
                    own = rows[:, owners[name]].astype(int).tolist()
                entities += [
                    _Entity(first + i, name, frame.ids[first + i], own[i], not seen)
                    for i, seen in enumerate(visible)
                ]
            first += len(rows)
        return cls(np.concatenate(parts), entities)


def find_owners(obs_space: ObsSpace, placed: Iterable[EntityName]) -> dict[EntityName, int]:
    """Return the column of the owner for the ``placed`` entity types that have one.

    The owner is a feature ``owner``, ``own``, ``player``, ``team`` or ``seat``, with few values.
    """
    return {
        name: place
        for name in placed
        for place, feature in reversed(list(enumerate(obs_space.entities[name].features)))
        if isinstance(feature, Discrete)
        and feature.name in ("owner", "own", "player", "team", "seat")
        and feature.n <= len(OWNERS)
    }


def _other_signs(
    frame: Frame, obs_space: ObsSpace, owners: Mapping[EntityName, int], chosen: Sequence[Chosen]
) -> Iterator[tuple[str, Sign]]:
    """Yield the signs for owners, hidden entities and selections, and their meanings."""
    features = [obs_space.entities[name].features[place] for name, place in owners.items()]
    for feature in dict.fromkeys(features):
        for value, edge in enumerate(OWNERS[: feature.n if isinstance(feature, Discrete) else 0]):
            meaning = f"{feature_name(feature)} {feature_text(feature, value)}"
            yield meaning, Sign("", _WHITE, edge=edge)
    if not all(visible.all() for visible in frame.visible.values()):
        yield "hidden from the policy", Sign("", _SOFT, hollow=True)
    if any(own.actee is not None for own in chosen):
        yield "selects", Sign("", _SOFT, "arrow")


def look(place: int) -> tuple[Color, Shape]:
    """Return the colour and the shape of a type; shapes change when the colours repeat."""
    return _COLORS[place % len(_COLORS)], _SHAPES[place // len(_COLORS) % len(_SHAPES)]


def _label(canvas: Canvas, spot: _Spot, entity: tuple[EntityName, EntityID], color: Color) -> None:
    """Draw the longest label that fits into a dot."""
    name, entity_id = entity
    initial = name[:1].upper()
    text = "" if entity_id is None else _short_label(name, "", id_text(entity_id))
    number = re.search(r"\d+$", text)
    options = [initial + number.group()] if number else [text] if text else []
    for option in [*options, initial]:
        size = spot.radius * (0.95 if len(option) < 3 else 0.8)
        if canvas.text_width(option, size) <= 1.6 * spot.radius:
            canvas.text(spot.x, spot.y, option, size, color, "mm")
            return


def _short_label(name: EntityName, index: str, text: str) -> str:
    """Return an id without the type at its beginning, or the index without an id."""
    if text == "-":
        return f"#{index}"
    rest = text.removeprefix(name).strip()
    return rest or text
