"""RelativePosition and Translation: the use of the positions of entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entity_env.arguments import ABOVE_0, check_fields, check_flag, checked, one_of, or_none
from entity_env.errors import SettingError, nearest, shorten
from entity_env.spaces import Grid, ObsSpace, Position, num_values

__all__ = ["RelativePosition", "Translation", "check_feature", "positions_of"]


def _coordinates(where: str, features: object) -> dict[str, tuple[str, ...]]:
    """Return the names of coordinates by entity type, checked without a space."""
    hint = f"{where}: {{Mine: [x, y], Robot: [x, y]}}"
    if not isinstance(features, Mapping) or not features:
        raise SettingError(
            f"{where} does not name an entity type",
            expected="a mapping from entity types to the names of their coordinates",
            received=shorten(features),
            hint=hint,
        )
    for name, own in features.items():
        if (
            isinstance(own, str)
            or not isinstance(own, Sequence)
            or not 1 <= len(own) <= 3
            or not all(isinstance(part, str) and part for part in own)
            or len(set(own)) < len(own)
        ):
            raise SettingError(
                f"{where} of {name!r} are not coordinates",
                expected="the names of one to three different features",
                received=shorten(own),
                hint=hint,
            )
    return {name: tuple(own) for name, own in features.items()}


def _headings(where: str, headings: object) -> dict[str, str]:
    if not isinstance(headings, Mapping) or not all(
        isinstance(own, str) for own in headings.values()
    ):
        raise SettingError(
            f"{where} is not a mapping",
            expected="names of features by entity type, such as {Vehicle: direction}",
            received=shorten(headings),
        )
    return dict(headings)


def _scales(where: str, scale: object) -> dict[str, float]:
    if not isinstance(scale, Mapping) or not all(isinstance(name, str) for name in scale):
        raise SettingError(
            f"{where} is not a mapping",
            expected="lengths by entity type, such as {Mine: 5.0}",
            received=shorten(scale),
        )
    return {name: float(ABOVE_0(f"{where} of {name!r}", own)) for name, own in scale.items()}


def _name(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{where} is not a name", expected="a string", received=shorten(value))
    return value


@dataclass(frozen=True)
class RelativePosition:
    """The use of relative positions of pairs of entities.

    Args:
        features: Names of the coordinates of each entity type with positions, such as ``{"Mine":
            ["x", "y"], "Robot": ["x", "y"]}``. None stands for the types whose ``Position`` the
            space declares.
        kind: ``waves`` rotates queries, keys and values (``turns.py``); it is compiled,
            and works with every attention backend. ``mlp`` adds a bias to the attention scores
            (``attention.py``); it supports headings, and takes a pass over all pairs in torch.
            ``none`` ignores declared positions.
        unit: Smallest offset that matters, in the units of the coordinates. A smaller one
            distinguishes nearer entities, but spreads the waves over a wider range.
        extent: Largest offset along one axis that is distinguished from smaller ones, in the units
            of the coordinates. A larger one sees farther, with less detail between.
        absolute: True to embed coordinates as features, too, so that the network can learn places
            of one map. Without them it plays on larger maps as on those of the training.
        heading: Feature with the heading of an entity type: an angle in radians, counterclockwise
            from the x axis, or a ``Discrete`` fraction of a full turn. These entities see offsets
            rotated by it: x ahead, y to the left. Supported by ``mlp`` only, for two coordinates.

    Raises:
        SettingError: A value is out of range, or values contradict each other.
    """

    features: Mapping[str, Sequence[str]] | None = checked(or_none(_coordinates), None)
    kind: str = checked(one_of("waves", "mlp", "none"), "waves")
    unit: float = checked(ABOVE_0, 1.0)
    extent: float = checked(ABOVE_0, 16.0)
    absolute: bool = checked(check_flag, False)
    heading: Mapping[str, str] | None = checked(or_none(_headings), None)

    def __post_init__(self) -> None:
        """Check all values."""
        check_fields(self)
        if self.extent < self.unit:
            raise SettingError(
                "extent is smaller than its unit",
                expected=f"extent >= {self.unit:g}",
                received=f"{self.extent:g}",
                where="RelativePosition",
                about="extent unit",
            )
        if self.heading and self.kind != "mlp":
            raise SettingError(
                f"heading is not supported by kind={self.kind!r}",
                expected="kind='mlp', or net.translation with a heading",
                received=shorten(self.heading),
                where="RelativePosition",
                about="heading kind",
            )


@dataclass(frozen=True)
class Translation:
    """A transformation of the positions of a frame to those relative to a reference entity.

    Args:
        reference: Entity type of the reference, of which a frame has at most one entity.
            Situations that differ by a shift then look alike; places of the map are lost.
        features: Coordinates of each entity type, as in ``RelativePosition``.
        heading: Feature of the reference by which positions are rotated, too: x ahead, y to the
            left. Situations that differ by a rotation then look alike; absolute directions are
            lost.
        distance: True to append the distance to the reference, and the unit vector from it, to the
            features. These are easier to learn from than coordinates, and make the rows of features
            wider.
        scale: Distance that becomes 1 before embedding, by entity type, such as ``{"Mine": 5.0}``
            if the difference between 3 and 8 matters, but not that between 50 and 55. Other types
            keep their own scale: the declared one, or that of running statistics, which the
            farthest entities dominate.

    Raises:
        SettingError: A value has the wrong type.
    """

    reference: str = checked(_name)
    features: Mapping[str, Sequence[str]] | None = checked(or_none(_coordinates), None)
    heading: str | None = checked(or_none(_name), None)
    distance: bool = checked(check_flag, False)
    scale: Mapping[str, float] | None = checked(or_none(_scales), None)

    def __post_init__(self) -> None:
        """Check all values."""
        check_fields(self)


Setting = RelativePosition | Translation


def positions_of(
    obs_space: ObsSpace, setting: Setting | None, where: str = "relative_position"
) -> dict[str, Position]:
    """Return the position of each entity type whose positions the network uses.

    Raises:
        SettingError: The space lacks a name, or types have different numbers of coordinates.
    """
    if isinstance(setting, RelativePosition) and setting.kind == "none":
        return {}
    found = {
        name: entity.position
        for name, entity in obs_space.entities.items()
        if entity.position is not None
    }
    if setting is not None and setting.features is not None:
        found = {name: Position(*own) for name, own in setting.features.items()}
    elif setting is not None and not found:
        raise SettingError(
            f"{where} names no features, and the space declares no Position",
            expected=f"{where}.features={{Mine: [x, y], ...}}, or an entity type with "
            'Position("x", "y") among its features',
        )
    for name, position in found.items():
        for feature in position.names:
            check_feature(obs_space, f"{where}.features", name, feature)
    numbers = {name: len(position.names) for name, position in found.items()}
    if len(set(numbers.values())) > 1:
        raise SettingError(
            f"{where} compares positions with different numbers of coordinates",
            expected="the same number for all entity types",
            received=", ".join(f"{name!r}: {number}" for name, number in numbers.items()),
        )
    for name, feature in _headings_of(setting).items():
        check_feature(obs_space, f"{where}.heading", name, feature, discrete=True)
        if numbers.get(name) != 2:
            raise SettingError(
                f"{where}.heading: {name!r} has no position in a plane",
                expected="a position with two coordinates",
                received=f"{numbers.get(name, 0)}",
            )
    if isinstance(setting, Translation):
        check_feature(obs_space, f"{where}.reference", setting.reference)
        if setting.reference not in found:
            raise SettingError(
                f"{where}.reference: {setting.reference!r} has no position", options=found
            )
        for name in setting.scale or ():
            if name not in found:
                check_feature(obs_space, f"{where}.scale", name)
                raise SettingError(f"{where}.scale: {name!r} has no position", options=found)
    # In the order of the space, not of the setting.
    return {name: found[name] for name in obs_space.entities if name in found}


def _headings_of(setting: Setting | None) -> dict[str, str]:
    if isinstance(setting, Translation):
        return {} if setting.heading is None else {setting.reference: setting.heading}
    return dict((setting.heading if setting is not None else None) or {})


def check_feature(
    obs_space: ObsSpace, where: str, name: str, feature: str | None = None, discrete: bool = False
) -> None:
    """Raise SettingError unless the space has an entity type, not a grid, with such a feature.

    Args:
        obs_space: Space with the entity types.
        where: Name of the setting.
        name: Name of the entity type.
        feature: Name of its feature; None for any feature.
        discrete: True if the feature may be discrete.
    """
    entity = obs_space.entities.get(name)
    if entity is None:
        raise SettingError(
            f"{where} has an unknown entity type {name!r}",
            options=obs_space.entities,
            hint=nearest(name, obs_space.entities),
        )
    if isinstance(entity, Grid):
        raise SettingError(
            f"{where} names the Grid {name!r}",
            expected="an entity type that is a list of rows; cells have positions in their grid",
        )
    if feature is None:
        return
    if feature not in entity.names:
        raise SettingError(
            f"{where}: entity type {name!r} has no feature {feature!r}",
            options=entity.names,
            hint=nearest(feature, entity.names),
        )
    if not discrete and num_values(entity.features[entity.names.index(feature)]) is not None:
        raise SettingError(
            f"{where}: {feature!r} of {name!r} is a discrete feature", expected="a continuous one"
        )
