"""Hints on how the viewer draws a game; without them it finds places, owners and names itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from entity_env.arguments import named_arguments
from entity_env.errors import SettingError, check_known
from entity_env.spaces import EntityName, ObsSpace

__all__ = ["EntityHints", "ViewerHints"]


@named_arguments(SettingError)
@dataclass(frozen=True)
class EntityHints:
    """Hints on the entities of one type. Features are given by their names.

    Args:
        x: The feature of the place from left to right.
        y: The feature of the place upwards, or downwards as the game's ``y_axis`` says; without it
            all lie at 0.
        owner: The feature of the owner, which colours the edge.
        color: The feature whose value, a whole number, chooses among ``colors``.
        colors: A colour for each value, such as ``#d04040``; an empty text draws nothing. Without
            ``color`` and ``stack`` the first one is that of all.
        size: The feature that the size of the dots is in proportion to.
        heading: The feature with the direction in radians.
        bar: The feature that is shown as a bar, such as health.
        range: The feature, or the number, of the radius of a circle around the entity.
        label: The feature whose value is written on the entity.
        shape: The shape of the dots.
        tile: Fill the whole cell of a board with a ``square`` or ``hexagon``, and draw a dot on it
            only where ``color`` is given.
        ground: The feature whose value chooses the colour of the cell among ``grounds``.
        grounds: A colour for each value.
        stack: Features that are spaces one above the other, as in the columns of connect four; each
            is drawn as a disc in the one of ``colors`` that its value chooses.
    """

    x: str | None = None
    y: str | None = None
    owner: str | None = None
    color: str | None = None
    colors: Sequence[str] = ()
    size: str | None = None
    heading: str | None = None
    bar: str | None = None
    range: str | float | None = None
    label: str | None = None
    shape: Literal["circle", "square", "diamond"] | None = None
    tile: Literal["square", "hexagon"] | None = None
    ground: str | None = None
    grounds: Sequence[str] = ()
    stack: Sequence[str] = ()

    @property
    def features(self) -> list[str]:
        """The names of all features that are mentioned."""
        named = [getattr(self, own.name) for own in fields(self) if own.name not in _NO_FEATURES]
        return [name for name in [*named, *self.stack] if isinstance(name, str)]


_NO_FEATURES = ("colors", "grounds", "shape", "tile", "stack")


@named_arguments(SettingError)
@dataclass(frozen=True)
class ViewerHints:
    """Hints on a game, as ``viewer_hints`` of an environment returns them.

    Args:
        entities: Those on entity types.
        bounds: What part of the plane is always shown: left, right, bottom, top.
        owners: The colours of the edges of owner 0, 1, ...; else those of ``entity_env.drawing``.
    """

    entities: Mapping[EntityName, EntityHints] = field(default_factory=dict)
    bounds: tuple[float, float, float, float] | None = None
    owners: Sequence[str] = ()

    def check(self, obs_space: ObsSpace) -> None:
        """Check that the names are those of a game.

        Raises:
            SettingError: There is no such entity type, or it has no such feature.
        """
        types = obs_space.entities
        check_known(SettingError, "viewer_hints of an unknown type {}", self.entities, types)
        for name, own in self.entities.items():
            what = f"viewer_hints of {name!r} with an unknown feature {{}}"
            check_known(SettingError, what, own.features, types[name].names)
