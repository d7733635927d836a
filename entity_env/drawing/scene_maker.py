"""Scenes of frames: where entities are drawn, how large, and with which colours and words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.frame import Frame
from entity_env.drawing.beside import write_beside
from entity_env.drawing.chosen import Chosen
from entity_env.drawing.dots import Group, draw_cells, draw_dots
from entity_env.drawing.ground import Ground
from entity_env.drawing.legend import legend_of
from entity_env.drawing.looks import find_looks
from entity_env.drawing.plane import Extent, Spread, check_bounds
from entity_env.drawing.scene import INK, Arrows, Color, EntityList, Marks, Scene, Sign, Words
from entity_env.drawing.table_text import entity_blocks
from entity_env.hints import ViewerHints
from entity_env.spaces import EntityName, ObsSpace

__all__ = ["SceneMaker"]

_MOST_CELLS, _MOST_WHOLE = 64, 1e9
"""The largest side of a board, because dots that keep to the cells of a larger one would be too
small, and the largest coordinate of a board."""
_MOST_NEAR, _MOST_LETTERS, _MOST_SELECTIONS = 300, 600, 2000
"""Largest numbers of entities whose distances are computed, of entities with letters on them, and
of arrows."""
_MOST_LISTED, _MOST_CARDS, _MOST_PAIRS = 100, 24, 5
"""Largest numbers of entities in a list, of cards, and of features of a card."""
_NO_HINTS = ViewerHints()


class SceneMaker:
    """A maker of scenes of one space.

    The scale of the scenes follows from all frames so far, so that it rarely changes.

    Args:
        obs_space: The observation space.
        hints: Hints for drawing.
    """

    def __init__(self, obs_space: ObsSpace, hints: ViewerHints = _NO_HINTS) -> None:
        self.obs_space, self.looks = obs_space, find_looks(obs_space, hints)
        self._extent = None if hints.bounds is None else check_bounds(hints.bounds)
        is_map = any(look.is_map for look in self.looks.values())
        self._turn = 1.0 if hints.y_axis == "down" or is_map else -1.0
        self._is_plain = any(look.fills_cells for look in self.looks.values())
        self._is_whole, self._most, self._gap = True, 1, math.inf
        self._largest: dict[tuple[EntityName, int], float] = {}

    @property
    def has_places(self) -> bool:
        """True if entities of some type have places."""
        return any(look.x is not None for look in self.looks.values())

    def include(self, frame: Frame) -> None:
        """Extend the visible part of the plane to the places in a frame."""
        points = []
        for name, look in self.looks.items():
            rows = frame.features[name]
            for column in (look.size, look.bar):
                if column is not None and len(rows):
                    known = self._largest.get((name, column), 0.0)
                    most = float(np.nan_to_num(rows[:, column], posinf=0.0).max())
                    self._largest[name, column] = max(known, most)
            if look.x is not None and look.y is not None and len(rows):
                x, y = look.x(rows), look.y(rows)
                tall = max(len(look.stack) - 1, 0)
                points.append(np.stack([x, y]))
                if tall:
                    points.append(np.stack([x, y + tall]))
        every = np.concatenate([np.zeros((2, 0)), *points], axis=1)
        x, y = every = every[:, np.isfinite(every).all(axis=0)]  # a forged recording may have NaN
        extent = Extent.of(x, y)
        if extent is None:
            return
        self._extent = extent.join(self._extent)
        self._is_whole = self._is_whole and bool((every == np.floor(every)).all())
        # Whole numbers are sorted several times as fast as pairs.
        scale = (1 << 30) / (extent.side or 1.0)
        left, bottom = (x - extent.left) * scale, (y - extent.bottom) * scale
        count = len(np.unique((left.astype(np.int64) << 31) + bottom.astype(np.int64)))
        self._most = max(self._most, count)
        if 1 < count <= _MOST_NEAR and not self._is_whole:
            places = np.unique(x + 1j * y)
            apart = abs(places[:, None] - places)
            np.fill_diagonal(apart, np.inf)
            self._gap = min(self._gap, float(np.median(apart.min(axis=1))))

    def scene(self, frame: Frame, chosen: Sequence[Chosen] = (), zoom: float = 1.0) -> Scene:
        """Return the scene of a frame.

        Args:
            frame: The frame.
            chosen: The choices of its actors.
            zoom: The magnification of the scene. Entities grow less than their distances, so that
                those close to each other separate, unless they stand in cells.
        """
        self.include(frame)
        lists = self._lists(frame)
        legend = legend_of(frame, self.obs_space, self.looks, chosen)
        if not self.has_places:
            return Scene(1.0, 1.0, legend=legend, lists=lists)
        ground = self._ground()
        unit = ground.unit if ground.is_board else ground.unit / math.sqrt(zoom)
        groups, crowds = self._groups(frame, ground, unit)
        places = _Places(frame, groups)
        shapes: list[Marks | Arrows | Words] = [*ground.shapes()]
        for group in groups:
            shapes += draw_cells(group, ground)
        arrows = list(_draw_selections(chosen, places, unit))
        shapes += arrows
        has_letters = len(frame.ids) <= _MOST_LETTERS
        for group in groups:
            shapes += draw_dots(group, ground, self._largest, has_letters=has_letters)
        if len(crowds):
            x, y, counts = crowds.T
            texts = [f"x{count:.0f}" for count in counts]
            radius = self._radius(ground, unit)
            shapes.append(Words(x + radius, y - radius, texts, 0.6 * unit, INK, "lb"))
        words = _choice_texts(chosen, places)
        if words:
            taken = np.concatenate([places.areas(), _covered(arrows, unit)], axis=1)
            shapes += write_beside(places.dots, words, ground.size, unit, taken)
        return Scene(*ground.size, shapes, legend, lists)

    def _lists(self, frame: Frame) -> list[EntityList]:
        """Return the types without places."""
        placed = [name for name, look in self.looks.items() if look.x is not None]
        lists = []
        for block in entity_blocks(frame, self.obs_space, _MOST_LISTED, placed):
            look, name = self.looks[block.name], block.name
            sign = Sign(name, look.color, look.shape, name[:1].upper(), value=f"{block.count:,}")
            is_small = block.count <= _MOST_CARDS and len(block.header) <= _MOST_PAIRS
            lists.append(EntityList(sign, block, is_small))
        return lists

    def _ground(self) -> Ground:
        """Return the ground, which shows all places so far."""
        extent = self._extent or Extent(0.0, 1.0, 0.0, 1.0)
        is_small = extent.side < _MOST_CELLS and extent.farthest < _MOST_WHOLE
        if self._is_plain or (self._is_whole and is_small):
            return Ground(extent.wider(0.5), self._turn, True, self._is_plain)
        extent = extent.rounded()
        # Far from the origin, numbers have few digits for a small plane.
        side = max(extent.side or 1.0, 1e-6 * extent.farthest)
        return Ground(extent.wider(0.07 * side), self._turn, False, False)

    def _radius(self, ground: Ground, unit: float) -> float:
        """Return a radius at which most dots do not fill the plane or touch."""
        even = min(unit, 0.3 * ground.side / math.sqrt(self._most) * unit / ground.unit)
        if ground.is_board:
            return min(1.35 * even, 0.42)
        return min(even, max(0.62 * self._gap, 0.6 * unit))

    def _groups(
        self, frame: Frame, ground: Ground, unit: float
    ) -> tuple[list[Group], npt.NDArray[Any]]:
        """Return the visible entities of each type, and the places with many of them."""
        groups, first, radius = [], 0, self._radius(ground, unit)
        for name, look in self.looks.items():
            rows = frame.features[name]
            if look.x is not None and look.y is not None:
                x = ground.x(look.x(rows))
                y = ground.y(look.y(rows) + max(len(look.stack) - 1, 0) / 2)
                visible = frame.visible.get(name, np.ones(len(rows), np.bool_))
                inside = np.flatnonzero(ground.contains(x, y))
                index = first + inside
                entity = self.obs_space.entities[name]
                largest = self._largest.get((name, -1 if look.size is None else look.size), 0.0)
                size = radius * look.sizes(rows[inside], entity, largest)
                kind = (name, entity, look, rows[inside], index)
                ids = [frame.ids[i] for i in index] if len(frame.ids) <= _MOST_LETTERS else []
                hidden = ~np.asarray(visible, np.bool_)[inside]
                groups.append(Group(*kind, ids, hidden, x[inside], y[inside], size, unit))
            first += len(rows)
        dots = [group for group in groups if not group.look.fills_cells]
        if not dots:
            return groups, np.zeros((0, 3))
        places = [(group.x, group.y) for group in dots]
        every_x, every_y = (np.concatenate(parts) for parts in zip(*places, strict=True))
        spread = Spread.of(every_x, every_y, radius)
        ends = np.cumsum([len(group.x) for group in dots])[:-1]
        spreads = spread.x, spread.y, spread.radius, spread.shown
        parts = (np.split(part, ends) for part in spreads)
        for group, x, y, size, shown in zip(dots, *parts, strict=True):
            group.x, group.y, group.shown = x, y, shown
            group.size = group.size * (size / radius)
        return groups, spread.crowds


class _Places:
    """The places of the entities of a frame in its scene, by their indices.

    Attributes:
        dots: x, y and radius of each entity, NaN without a place. Shape: (3, N).
        shown: True for entities that are drawn. Shape: (N,).
    """

    def __init__(self, frame: Frame, groups: Sequence[Group]) -> None:
        count = len(frame.ids)
        self.dots = np.full((3, count), np.nan)
        self.shown = np.zeros(count, np.bool_)
        self._groups = groups
        for group in groups:
            self.dots[:, group.index] = group.x, group.y, group.size
            self.shown[group.index] = group.shown

    def has(self, index: int | None) -> bool:
        """Return True for an entity with a place."""
        return (
            index is not None
            and 0 <= index < len(self.shown)
            and not math.isnan(self.dots[0, index])
        )

    def group(self, index: int) -> Group:
        """Return the group of an entity with a place."""
        return next(group for group in self._groups if (group.index == index).any())

    def areas(self) -> npt.NDArray[np.float64]:
        """Return left, top, right and bottom of each dot. Shape: (4, K)."""
        x, y, size = self.dots[:, self.shown]
        return np.stack([x - size, y - size, x + size, y + size])


def _draw_selections(
    chosen: Sequence[Chosen], places: _Places, unit: float
) -> Iterator[Arrows | Marks]:
    """Yield arrows from actors to the entities that they select; outlines without an actor."""
    arrows: dict[Color, list[tuple[float, ...]]] = {}
    for choice in chosen[:_MOST_SELECTIONS]:
        actee = choice.actee
        if actee is None or not places.has(actee):
            continue
        if not places.has(choice.actor) or choice.actor == actee:
            yield places.group(actee).outline(actee, INK, 0.12 * unit, 0.25 * unit)
            continue
        start = complex(*places.dots[:2, choice.actor])
        x, y, radius = places.dots[:, actee].tolist()
        end = complex(x, y)
        away = (end - start) / abs(end - start) if end != start else 1.0 + 0j
        tip = end - (radius + 0.06 * unit) * away
        color = places.group(choice.actor).look.color
        arrows.setdefault(color, []).append((start.real, start.imag, tip.real, tip.imag))
    for color, ends in arrows.items():
        x, y, to_x, to_y = np.array(ends).T
        yield Arrows(x, y, to_x, to_y, color, 0.12 * unit, 0.43 * unit)


def _covered(shapes: Sequence[Arrows | Marks], unit: float) -> npt.NDArray[np.float64]:
    """Return the areas covered by arrows, in parts. Shape: (4, K)."""
    covered = [np.zeros((0, 4))]
    for shape in shapes:
        if isinstance(shape, Arrows):
            for x, y, to_x, to_y in zip(shape.x, shape.y, shape.to_x, shape.to_y, strict=True):
                count = 2 + int(math.hypot(to_x - x, to_y - y) / (0.5 * unit))
                middles = np.linspace((x, y), (to_x, to_y), count)
                covered.append(np.hstack([middles - 0.18 * unit, middles + 0.18 * unit]))
    areas: npt.NDArray[np.float64] = np.concatenate(covered).T
    return areas


def _choice_texts(chosen: Sequence[Chosen], places: _Places) -> dict[int, str]:
    """Return the choices of each actor as text, without those that an arrow shows."""
    words: dict[int, list[str]] = {}
    for choice in chosen:
        if choice.actee is None:
            words.setdefault(choice.actor, []).append(choice.what)
        elif not places.has(choice.actee):
            words.setdefault(choice.actor, []).append(f"-> {choice.what}")
    shown = (actor for actor in words if actor < len(places.shown) and places.shown[actor])
    return {actor: ", ".join(words[actor]) for actor in shown}
