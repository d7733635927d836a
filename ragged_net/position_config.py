"""RelativePosition and Translation: what a network is told about the positions of entities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entity_env.spaces import Discrete, ObsSpace, Position
from ragged_net.errors import NetConfigError, nearest

__all__ = ["KINDS", "RelativePosition", "not_embedded", "positions_of"]

KINDS = ("waves", "none")


@dataclass(frozen=True)
class RelativePosition:
    """How pairs of entities see each other's positions.

    Args:
        features: For each entity type with positions, the names of its coordinates, such as
            ``{"Mine": ["x", "y"], "Robot": ["x", "y"]}``; types that are left out have none. None:
            the types whose ``Position`` the space declares.
        kind: ``waves`` or ``none``, which leaves declared positions alone.
        unit: The smallest offset that matters.
        extent: The largest offset, along one axis, that is told from smaller ones.
        absolute: Whether coordinates are embedded as features, too. Without, a network cannot tell
            where on the map something happens, and plays on larger maps as on those it knows.

    Raises:
        NetConfigError: A value out of range.
    """

    features: Mapping[str, Sequence[str]] | None = None
    kind: str = "waves"
    unit: float = 1.0
    extent: float = 16.0
    absolute: bool = False

    def __post_init__(self) -> None:
        """Check all values."""
        if self.kind not in KINDS:
            raise NetConfigError(
                "relative_position.kind does not exist",
                received=repr(self.kind),
                options=KINDS,
                hint=nearest(self.kind, KINDS),
            )
        for name in ("unit", "extent"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 < value < math.inf
            ):
                raise NetConfigError(
                    f"relative_position.{name} is out of range",
                    expected="a finite number > 0",
                    received=repr(value),
                )
        if self.extent < self.unit:
            raise NetConfigError(
                "relative_position.extent is smaller than its unit",
                expected=f"extent >= {self.unit:g}",
                received=f"{self.extent:g}",
            )
        if not isinstance(self.absolute, bool):
            raise NetConfigError(
                "relative_position.absolute is no truth value",
                expected="true or false",
                received=repr(self.absolute),
            )
        if self.features is not None:
            object.__setattr__(self, "features", _checked(self.features))


def _checked(features: object) -> dict[str, tuple[str, ...]]:
    hint = "relative_position.features: {Mine: [x, y], Robot: [x, y]}"
    if not isinstance(features, Mapping) or not features:
        raise NetConfigError(
            "relative_position.features names no entity type",
            expected="a mapping from entity types to the names of their coordinates",
            received=repr(features),
            hint=hint,
        )
    found = {}
    for name, own in features.items():
        if (
            isinstance(own, str)
            or not isinstance(own, Sequence)
            or not 1 <= len(own) <= 3
            or not all(isinstance(part, str) for part in own)
            or len(set(own)) < len(own)
        ):
            raise NetConfigError(
                f"relative_position.features of {name!r} are no coordinates",
                expected="one to three names of features",
                received=repr(own),
                hint=hint,
            )
        found[name] = tuple(own)
    return found


def positions_of(obs_space: ObsSpace, setting: RelativePosition | None) -> dict[str, Position]:
    """The position of each entity type that has one for the network; empty where it wants none.

    Raises:
        NetConfigError: Names that the space does not have, or coordinates of different numbers.
    """
    if setting is not None and setting.kind == "none":
        return {}
    declared = {
        name: entity.position
        for name, entity in obs_space.entities.items()
        if entity.position is not None
    }
    if setting is None or setting.features is None:
        if setting is not None and not declared:
            raise NetConfigError(
                "relative_position names no features, and the space declares no Position",
                expected="relative_position.features={Mine: [x, y], ...}, or an entity type with "
                'Position("x", "y") among its features',
            )
        found = declared
    else:
        found = {name: Position(*own) for name, own in setting.features.items()}
    for name, position in found.items():
        _check_features(obs_space, name, position)
    numbers = {name: len(position.names) for name, position in found.items()}
    if len(set(numbers.values())) > 1:
        raise NetConfigError(
            "relative_position compares positions with different numbers of coordinates",
            expected="the same number for all entity types",
            received=", ".join(f"{name!r}: {number}" for name, number in numbers.items()),
        )
    # In the order of the space, whatever order the setting has.
    return {name: found[name] for name in obs_space.entities if name in found}


def not_embedded(
    obs_space: ObsSpace, setting: RelativePosition | None
) -> dict[str, tuple[str, ...]]:
    """For each entity type, the coordinates that are seen by offsets alone."""
    if setting is not None and setting.absolute:
        return {}
    return {name: own.names for name, own in positions_of(obs_space, setting).items()}


def _check_features(obs_space: ObsSpace, name: str, position: Position) -> None:
    if name not in obs_space.entities:
        raise NetConfigError(
            f"relative_position.features has an unknown entity type {name!r}",
            options=obs_space.entities,
            hint=nearest(name, obs_space.entities),
        )
    entity = obs_space.entities[name]
    for feature in position.names:
        if feature not in entity.names:
            raise NetConfigError(
                f"relative_position.features: entity type {name!r} has no feature {feature!r}",
                options=entity.names,
                hint=nearest(feature, entity.names),
            )
        if isinstance(entity.features[entity.names.index(feature)], Discrete):
            raise NetConfigError(
                f"relative_position.features: {feature!r} of {name!r} is a discrete feature",
                expected="a continuous one",
            )
