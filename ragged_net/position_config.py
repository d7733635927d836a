"""RelativePosition and Translation: what a network is told about the positions of entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entity_env.spaces import ObsSpace, Position
from ragged_net.errors import NetConfigError, shown
from ragged_net.setting_checks import (
    above_0,
    check_feature,
    check_fields,
    checked,
    flag,
    one_of,
    or_none,
)

__all__ = ["RelativePosition", "Translation", "positions_of"]


def _coordinates(where: str, features: object) -> dict[str, tuple[str, ...]]:
    """Return the names of coordinates by entity type, checked as far as no space is needed."""
    hint = f"{where}: {{Mine: [x, y], Robot: [x, y]}}"
    if not isinstance(features, Mapping) or not features:
        raise NetConfigError(
            f"{where} names no entity type",
            expected="a mapping from entity types to the names of their coordinates",
            received=shown(features),
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
            raise NetConfigError(
                f"{where} of {name!r} are no coordinates",
                expected="one to three different names of features",
                received=shown(own),
                hint=hint,
            )
    return {name: tuple(own) for name, own in features.items()}


def _headings(where: str, headings: object) -> dict[str, str]:
    if not isinstance(headings, Mapping) or not all(
        isinstance(own, str) for own in headings.values()
    ):
        raise NetConfigError(
            f"{where} is no mapping",
            expected="names of features by entity type, such as {Vehicle: direction}",
            received=shown(headings),
        )
    return dict(headings)


def _scales(where: str, scale: object) -> dict[str, float]:
    if not isinstance(scale, Mapping) or not all(isinstance(name, str) for name in scale):
        raise NetConfigError(
            f"{where} is no mapping",
            expected="lengths by entity type, such as {Mine: 5.0}",
            received=shown(scale),
        )
    return {name: float(above_0(f"{where} of {name!r}", own)) for name, own in scale.items()}


def _name(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise NetConfigError(f"{where} is no name", expected="a string", received=shown(value))
    return value


@dataclass(frozen=True)
class RelativePosition:
    """The use of relative positions of pairs of entities.

    Args:
        features: For each entity type with positions, the names of its coordinates, such as
            ``{"Mine": ["x", "y"], "Robot": ["x", "y"]}``; types that are left out have none. None:
            the types whose ``Position`` the space declares.
        kind: ``waves`` turns queries, keys and values (``relative_position.py``): compiled, and at
            home in every attention backend. ``mlp`` adds a bias to the scores
            (``position_bias.py``): it knows headings and costs a pass over all pairs in torch.
            ``none`` leaves declared positions alone.
        unit: The smallest offset that matters.
        extent: The largest offset along one axis that is told from smaller ones.
        absolute: Whether coordinates are embedded as features, too. Without, a network cannot tell
            where on the map something happens, and plays on larger maps as on those it knows.
        heading: For an entity type the feature with its heading, radians from the x axis to the
            left or a ``Discrete`` share of a full turn. These entities see offsets turned into it:
            x ahead, y to the left. With ``mlp`` alone, and two coordinates.

    Raises:
        NetConfigError: A value out of range, or values that contradict each other.
    """

    features: Mapping[str, Sequence[str]] | None = checked(or_none(_coordinates), None)
    kind: str = checked(one_of("waves", "mlp", "none"), "waves")
    unit: float = checked(above_0, 1.0)
    extent: float = checked(above_0, 16.0)
    absolute: bool = checked(flag, False)
    heading: Mapping[str, str] | None = checked(or_none(_headings), None)

    def __post_init__(self) -> None:
        """Check all values."""
        check_fields(self, "relative_position")
        if self.extent < self.unit:
            raise NetConfigError(
                "relative_position.extent is smaller than its unit",
                expected=f"extent >= {self.unit:g}",
                received=f"{self.extent:g}",
            )
        if self.heading and self.kind != "mlp":
            raise NetConfigError(
                f"relative_position.heading cannot be had with kind={self.kind!r}",
                expected="kind='mlp', or net.translation with a heading",
                received=shown(self.heading),
            )


@dataclass(frozen=True)
class Translation:
    """Moves the positions of a frame into that of a reference entity, before they are embedded.

    Args:
        reference: The entity type of the reference.
        features: The coordinates of each entity type, as in ``RelativePosition``.
        heading: A feature of the reference: positions are turned, too, x ahead and y to the left.
        distance: Whether the distance to the reference, and the unit vector to the entity, are
            appended to the features.
        each_actor: Each actor sees the frame from where it is itself, with its own heading if it is
            of the reference's type. That takes a pass through the network for each action, in which
            there is a frame for each actor, and one for the value, which sees positions from the
            middle of each frame. Without, a frame may hold no second reference entity.
        scale: For entity types with positions, how far away is one unit of what the embedding gets,
            such as ``{"Mine": 5.0}`` where the difference between 3 and 8 matters and that between
            50 and 55 does not. Types that are left out keep their own scale: the declared one, or
            that of running statistics, which the farthest entities decide.

    Raises:
        NetConfigError: A value of another kind.
    """

    reference: str = checked(_name)
    features: Mapping[str, Sequence[str]] | None = checked(or_none(_coordinates), None)
    heading: str | None = checked(or_none(_name), None)
    distance: bool = checked(flag, False)
    each_actor: bool = checked(flag, False)
    scale: Mapping[str, float] | None = checked(or_none(_scales), None)

    def __post_init__(self) -> None:
        """Check all values."""
        check_fields(self, "translation")


Setting = RelativePosition | Translation


def positions_of(
    obs_space: ObsSpace, setting: Setting | None, where: str = "relative_position"
) -> dict[str, Position]:
    """Return the position of each entity type that has one for the network.

    Raises:
        NetConfigError: Names that the space does not have, or coordinates of different numbers.
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
        raise NetConfigError(
            f"{where} names no features, and the space declares no Position",
            expected=f"{where}.features={{Mine: [x, y], ...}}, or an entity type with "
            'Position("x", "y") among its features',
        )
    for name, position in found.items():
        for feature in position.names:
            check_feature(obs_space, f"{where}.features", name, feature)
    numbers = {name: len(position.names) for name, position in found.items()}
    if len(set(numbers.values())) > 1:
        raise NetConfigError(
            f"{where} compares positions with different numbers of coordinates",
            expected="the same number for all entity types",
            received=", ".join(f"{name!r}: {number}" for name, number in numbers.items()),
        )
    for name, feature in _headings_of(setting).items():
        check_feature(obs_space, f"{where}.heading", name, feature, discrete=True)
        if numbers.get(name) != 2:
            raise NetConfigError(
                f"{where}.heading: {name!r} has no position in a plane",
                expected="a position with two coordinates",
                received=f"{numbers.get(name, 0)}",
            )
    if isinstance(setting, Translation):
        check_feature(obs_space, f"{where}.reference", setting.reference)
        if setting.reference not in found:
            raise NetConfigError(
                f"{where}.reference: {setting.reference!r} has no position", options=found
            )
        for name in setting.scale or ():
            if name not in found:
                check_feature(obs_space, f"{where}.scale", name)
                raise NetConfigError(f"{where}.scale: {name!r} has no position", options=found)
    # In the order of the space, whatever order the setting has.
    return {name: found[name] for name in obs_space.entities if name in found}


def _headings_of(setting: Setting | None) -> dict[str, str]:
    if isinstance(setting, Translation):
        return {} if setting.heading is None else {setting.reference: setting.heading}
    return dict((setting.heading if setting is not None else None) or {})
