"""Looks of entity types: which features give places, colours and sizes, by hints or by names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.coordinates import named_places
from entity_env.drawing.scene import Color, Shape
from entity_env.hints import EntityHints, ViewerHints
from entity_env.spaces import (
    Entity,
    EntityName,
    Grid,
    ObsSpace,
    discrete_features,
    feature_name,
    num_values,
    value_names,
)

__all__ = ["OWNERS", "Look", "find_looks", "find_place", "shades", "type_look", "value_color"]

Rows: TypeAlias = npt.NDArray[Any]
"""The features of the entities of one type. Shape: (n, F)."""
Values: TypeAlias = Callable[[Rows], npt.NDArray[np.float64]]
"""A number for each entity. Shape: (n,)."""

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
OWNERS: tuple[Color, ...] = ("ink", (220, 40, 40), (250, 180, 0), (110, 60, 190))
"""The edges of the entities of each owner."""
_BOARD: Color = "#2b5fb8"
_OWNERS = ("owner", "own", "player", "team", "seat")
_HEADINGS, _BARS, _KINDS = ("heading", "angle", "orientation"), ("hp", "health"), ("kind", "type")
_SHADES = tuple(f"#{237 - 29 * k:02x}{241 - 22 * k:02x}{250 - 5 * k:02x}" for k in range(8))
"""The colours of cells for the values of a feature that is not discrete."""


@dataclass(frozen=True)
class Look:
    """The look of an entity type; features are given by their columns.

    Args:
        color: The colour of the type.
        shape: The shape of the type.
        x: Horizontal positions; None if the entities have no places.
        y: Vertical positions.
        hints: Hints for drawing.
        owner: The column of the owner.
        owners: The colours of owners.
        color_by: The column of the value that selects a colour among ``hints.colors``.
        size: The column of the size.
        heading: The column of the direction.
        bar: The column of the bar.
        reach: The radius of a circle around each entity.
        label: The column of the feature that is written on the entities.
        ground: The column that selects the colour of the cell.
        stack: The columns of discs one above the other.
        is_map: True for a grid whose first feature is drawn as a map, with the first row on top.
    """

    color: Color
    shape: Shape
    x: Values | None
    y: Values | None
    hints: EntityHints
    owner: int | None = None
    owners: Sequence[Color] = OWNERS
    color_by: int | None = None
    size: int | None = None
    heading: int | None = None
    bar: int | None = None
    reach: Values | None = None
    label: int | None = None
    ground: int | None = None
    stack: Sequence[int] = ()
    is_map: bool = False

    @property
    def fills_cells(self) -> bool:
        """True if the entities are cells of a board."""
        return bool(self.hints.tile or self.stack)

    def sizes(self, rows: Rows, entity: Entity, largest: float) -> npt.NDArray[np.float64]:
        """Return the radius of each entity as a part of the usual one.

        Args:
            rows: The features. Shape: (n, F).
            entity: The space of the type.
            largest: The largest size so far.
        """
        if self.size is None:
            return np.ones(len(rows))
        feature, values = entity.features[self.size], rows[:, self.size].astype(np.float64)
        count = num_values(feature)
        part = values / (largest or 1.0) if count is None else (values + 1) / count
        return 0.4 + 0.75 * np.clip(part, 0, 1)

    def shape_of(self, value: int) -> Shape:
        """Return the shape of entities with this value of ``hints.color``."""
        shapes = self.hints.shapes
        return shapes[value] if 0 <= value < len(shapes) else self.shape


def find_looks(obs_space: ObsSpace, hints: ViewerHints) -> dict[EntityName, Look]:
    """Return the look of each type."""
    looks = _looks(obs_space, hints)
    maps = {
        name: EntityHints(tile="square", ground=entity.names[0])
        for name, entity in obs_space.entities.items()
        if isinstance(entity, Grid) and entity.names
    }
    if not maps or any(look.x for look in looks.values()):
        return looks
    looks = _looks(obs_space, replace(hints, entities={**hints.entities, **maps}))
    return looks | {name: replace(looks[name], is_map=True) for name in maps}


def _looks(obs_space: ObsSpace, hints: ViewerHints) -> dict[EntityName, Look]:
    looks = {}
    for order, (name, entity) in enumerate(obs_space.entities.items()):
        hint = hints.entities.get(name, EntityHints())
        at = {feature: place for place, feature in enumerate(entity.names)}
        color, shape = type_look(order)
        if hint.stack:
            color = _BOARD
        elif hint.colors and hint.color is None:
            color = hint.colors[0]
        kinds = (feature for feature in entity.features if value_names(feature))
        kind = next((feature_name(f) for f in kinds if feature_name(f) in _KINDS), "")
        x, y = find_place(entity, hint)
        looks[name] = Look(
            color=color,
            shape=hint.shape or shape,
            x=x,
            y=y,
            hints=hint,
            owner=at.get(hint.owner or "", _owner(entity)),
            owners=tuple(hints.owners) or OWNERS,
            color_by=at.get(hint.color or ""),
            size=at.get(hint.size or ""),
            heading=_first(at, hint.heading, _HEADINGS),
            bar=_first(at, hint.bar, _BARS),
            reach=_values(at, hint.range),
            label=at.get(hint.label or kind),
            ground=at.get(hint.ground or ""),
            stack=[at[feature] for feature in hint.stack if feature in at],
        )
    return looks


def type_look(order: int) -> tuple[Color, Shape]:
    """Return the colour and the shape of a type; shapes change when the colours repeat."""
    return _COLORS[order % len(_COLORS)], _SHAPES[order // len(_COLORS) % len(_SHAPES)]


def find_place(entity: Entity, hints: EntityHints) -> tuple[Values | None, Values | None]:
    """Return the positions of the entities of a type, or None if they have none.

    They are those of the hints, else ``x`` and ``y``, else a pair such as ``position.x`` and
    ``position.y``. Cells of a grid that is drawn as tiles lie in its columns and rows.
    """
    at = {feature: place for place, feature in enumerate(entity.names)}
    if hints.x is not None:
        x, y = _values(at, hints.x), _values(at, 0.0 if hints.y is None else hints.y)
        return (None, None) if x is None or y is None else (x, y)
    if isinstance(entity, Grid) and hints.tile:
        width = entity.shape[1]
        return partial(_cells, width=width, axis=1), partial(_cells, width=width, axis=0)
    places = [own for own in named_places("", entity.names) if own.is_plain]
    if not places:
        return None, None
    x, y = (partial(_column, place=at[places[0].axes[axis]]) for axis in (0, 1))
    return x, y


def value_color(colors: Sequence[str], value: int) -> Color:
    """Return the colour of a value; an empty string draws nothing."""
    if not colors:
        return _COLORS[abs(value) % len(_COLORS)]
    return colors[value] if 0 <= value < len(colors) else ""


def shades(values: Rows) -> tuple[Rows, Sequence[str]]:
    """Return for each value of a feature that is not discrete a number, and the colours of these.

    The lightest colour is that of the least value.
    """
    numbers = np.nan_to_num(values.astype(np.float64))
    low, high = float(numbers.min(initial=0.0)), float(numbers.max(initial=0.0))
    part = (numbers - low) / (high - low or 1.0)
    return np.minimum((part * len(_SHADES)).astype(int), len(_SHADES) - 1), _SHADES


def _owner(entity: Entity) -> int | None:
    """Return the column of a feature with few values that is named like an owner."""
    found = [
        place
        for place, feature in discrete_features(entity.features).items()
        if feature.name in _OWNERS and feature.n <= len(OWNERS)
    ]
    return found[0] if found else None


def _first(at: Mapping[str, int], hint: str | None, usual: Sequence[str]) -> int | None:
    """Return the column of the feature named by a hint, or else of one with a common name.

    An empty hint stands for none.
    """
    if hint == "":
        return None
    return next((at[name] for name in (hint or "", *usual) if name in at), None)


def _values(at: Mapping[str, int], hint: str | float | None) -> Values | None:
    """Return the values of a feature, or a constant; None if the feature has been left out."""
    if isinstance(hint, str):
        return partial(_column, place=at[hint]) if hint in at else None
    return None if hint is None else partial(_constant, value=float(hint))


def _column(rows: Rows, place: int) -> npt.NDArray[np.float64]:
    return rows[:, place].astype(np.float64)


def _constant(rows: Rows, value: float) -> npt.NDArray[np.float64]:
    return np.full(len(rows), value)


def _cells(rows: Rows, width: int, axis: int) -> npt.NDArray[np.float64]:
    return np.divmod(np.arange(len(rows)), width)[axis].astype(np.float64)
