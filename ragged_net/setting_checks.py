"""Checks of the settings of networks, declared beside the default of each field."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from entity_env.spaces import Discrete, Grid, ObsSpace
from ragged_net.errors import NetConfigError, RaggedNetError, nearest, shown

__all__ = [
    "Check",
    "above_0",
    "check_feature",
    "check_fields",
    "checked",
    "flag",
    "one_of",
    "or_none",
]

Check: TypeAlias = Callable[[str, Any], Any]
"""A function of a setting's name and value that returns the value or raises NetConfigError."""


def checked(check: Check, default: Any = dataclasses.MISSING) -> Any:
    """Return the field of a setting with a check."""
    return dataclasses.field(default=default, metadata={"check": check})


def check_fields(config: Any) -> None:
    """Check all fields of a frozen dataclass, and replace values by what their checks return."""
    for own in dataclasses.fields(config):
        if "check" in own.metadata:
            try:
                value = own.metadata["check"](own.name, getattr(config, own.name))
            except RaggedNetError as error:
                error.where, error.about = type(config).__name__, own.name
                raise
            object.__setattr__(config, own.name, value)


def one_of(*options: str) -> Check:
    """Return the check of a name among ``options``."""

    def check(where: str, value: Any) -> Any:
        if not isinstance(value, str) or value not in options:
            raise NetConfigError(
                f"{where} does not exist",
                received=shown(value),
                options=options,
                hint=nearest(value, options),
            )
        return value

    return check


def or_none(check: Check) -> Check:
    """Return the check of a value that may be None."""
    return lambda where, value: None if value is None else check(where, value)


def above_0(where: str, value: Any, hint: str | None = None) -> Any:
    """Return ``value`` as a finite number above 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= sys.float_info.max:
        raise NetConfigError(
            f"{where} is out of range",
            expected="a finite number > 0",
            received=shown(value),
            hint=hint,
        )
    return value


def flag(where: str, value: Any) -> bool:
    """Return ``value`` as a bool."""
    if not isinstance(value, bool):
        raise NetConfigError(
            f"{where} is not a bool", expected="true or false", received=shown(value)
        )
    return value


def check_feature(
    obs_space: ObsSpace, where: str, name: str, feature: str | None = None, discrete: bool = False
) -> None:
    """Raise NetConfigError unless the space has an entity type, not a grid, with such a feature.

    Args:
        obs_space: Space with the entity types.
        where: Name of the setting.
        name: Name of the entity type.
        feature: Name of its feature; None for any feature.
        discrete: True if the feature may be discrete.
    """
    entity = obs_space.entities.get(name)
    if entity is None:
        raise NetConfigError(
            f"{where} has an unknown entity type {name!r}",
            options=obs_space.entities,
            hint=nearest(name, obs_space.entities),
        )
    if isinstance(entity, Grid):
        raise NetConfigError(
            f"{where} names the Grid {name!r}",
            expected="an entity type that is a list of rows; cells have positions in their grid",
        )
    if feature is None:
        return
    if feature not in entity.names:
        raise NetConfigError(
            f"{where}: entity type {name!r} has no feature {feature!r}",
            options=entity.names,
            hint=nearest(feature, entity.names),
        )
    if not discrete and isinstance(entity.features[entity.names.index(feature)], Discrete):
        raise NetConfigError(
            f"{where}: {feature!r} of {name!r} is a discrete feature", expected="a continuous one"
        )
