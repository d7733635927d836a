"""Hints for the viewer on features to draw; without them it recognises common names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, get_args

from entity_env.arguments import named_arguments
from entity_env.errors import SettingError, check_known, shorten
from entity_env.spaces import EntityName, ObsSpace

__all__ = ["EntityHints", "Shape", "ViewerHints", "YAxis"]

YAxis: TypeAlias = Literal["up", "down"]
"""The direction of greater y in a picture: up as in mathematics, or down as on a screen."""

Shape: TypeAlias = Literal["circle", "square", "diamond", "hexagon", "box", "cross", "ring"]
"""The shapes of marks; a ``box`` has sharp corners."""


@named_arguments(SettingError)
@dataclass(frozen=True)
class EntityHints:
    """Hints for drawing the entities of one type; features are given by name.

    Args:
        x: The feature of the horizontal position, or a number.
        y: The feature of the vertical position, or a number; 0 if it is left out.
        owner: The feature of the owner, which colours the edge.
        color: The feature whose value, a whole number, selects one of ``colors``.
        colors: A colour for each value, such as ``#d04040`` or ``gold``; an empty string draws
            nothing. Without ``color`` and ``stack``, the first one is used for all entities.
        size: The feature that the size of the dots is proportional to.
        heading: The feature with the direction in radians.
        bar: The feature that is shown as a bar, such as health; an empty string for none.
        range: The radius of a circle around the entity, as a feature or a number.
        label: The feature whose value is written on the entity.
        shape: The shape of the dots.
        shapes: A shape for each value of ``color``, in place of ``shape``.
        tile: The shape that fills the cell of the entity on a board: ``square`` or ``hexagon``. A
            dot is drawn on it only if ``color`` is given. Cells of a ``Grid`` then lie in its
            columns and rows.
        ground: The feature whose value selects the colour of the cell among ``grounds``.
        grounds: A colour for each value.
        stack: Features that are drawn as discs one above the other, as in the columns of connect
            four, each in the one of ``colors`` that its value selects.
    """

    x: str | float | None = None
    y: str | float | None = None
    owner: str | None = None
    color: str | None = None
    colors: Sequence[str] = ()
    size: str | None = None
    heading: str | None = None
    bar: str | None = None
    range: str | float | None = None
    label: str | None = None
    shape: Shape | None = None
    shapes: Sequence[Shape] = ()
    tile: Literal["square", "hexagon"] | None = None
    ground: str | None = None
    grounds: Sequence[str] = ()
    stack: Sequence[str] = ()

    @property
    def features(self) -> list[str]:
        """The names of all features in the hints."""
        named = [
            getattr(self, field.name) for field in fields(self) if field.name not in _NO_FEATURES
        ]
        return [name for name in [*named, *self.stack] if isinstance(name, str) and name]


_COLOR = re.compile(r"(#([0-9a-fA-F]{3}){1,2}|[a-z]+)?")
_NO_FEATURES = ("colors", "grounds", "shape", "shapes", "tile", "stack")


@named_arguments(SettingError)
@dataclass(frozen=True)
class ViewerHints:
    """Hints for drawing a game, returned by ``viewer_hints`` of an environment.

    Args:
        entities: Hints by entity type.
        bounds: The part of the plane that is always shown: left, right, bottom, top.
        owners: The colours of the edges of owner 0, 1, ...; by default those of
            ``entity_env.drawing``.
        y_axis: Direction of greater y: ``down`` if the first row is on top.
    """

    entities: Mapping[EntityName, EntityHints] = field(default_factory=dict)
    bounds: tuple[float, float, float, float] | None = None
    owners: Sequence[str] = ()
    y_axis: YAxis = "up"

    def check(self, obs_space: ObsSpace) -> None:
        """Check the names of entity types, features, shapes and colours, and the y axis.

        Raises:
            SettingError: One of them does not exist.
        """
        what = "viewer_hints name an unknown y_axis {}"
        check_known(SettingError, what, [self.y_axis], get_args(YAxis))
        types = obs_space.entities
        check_known(SettingError, "viewer_hints name an unknown type {}", self.entities, types)
        for name, entity in self.entities.items():
            what = f"viewer_hints of {name!r} name an unknown feature {{}}"
            check_known(SettingError, what, entity.features, types[name].names)
            shapes = [*entity.shapes, *([] if entity.shape is None else [entity.shape])]
            what = f"viewer_hints of {name!r} name an unknown shape {{}}"
            check_known(SettingError, what, shapes, get_args(Shape))
        every = [
            color
            for entity in self.entities.values()
            for color in (*entity.colors, *entity.grounds)
        ]
        for color in [*every, *self.owners]:
            if not (isinstance(color, str) and _COLOR.fullmatch(color)):
                raise SettingError(
                    "viewer_hints name an unknown colour",
                    expected="such as #d04040, or a name of CSS such as gold",
                    received=shorten(color),
                )
