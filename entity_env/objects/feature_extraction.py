"""Features of objects, read from their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, cast, get_args, get_origin

import numpy as np
import numpy.typing as npt

from entity_env.batching.features import feature_rows, shape_of_numbers
from entity_env.errors import (
    EntityEnvError,
    FeatureError,
    ObservationError,
    check_known,
    nearest,
    shorten,
)
from entity_env.objects.dataclass_spaces import annotations_of
from entity_env.spaces import EntityName, Feature, ObsSpace, discrete_features, feature_name

__all__ = ["extract_features", "extract_global_features"]

Floats = npt.NDArray[np.float32]


def extract_features(
    entities: Mapping[EntityName, Iterable[Any]], obs_space: ObsSpace
) -> dict[EntityName, Floats]:
    """Return the features of objects, read from the attributes of the same names.

    Args:
        entities: The objects of each entity type, which may be any objects with these attributes. A
            feature ``position.x`` is the attribute ``x`` of ``position``. The value of a discrete
            feature is a number, a member of an Enum, or a string of the Literal in the dataclass.
        obs_space: The entity types and their features.

    Returns:
        For each given type an array. Shape: (N, F), float32.

    Raises:
        EntityEnvError: A type is unknown, an attribute is missing, or a value is not a number, not
            finite or out of range; the error names the entity type, the row and the feature.
    """
    if not isinstance(entities, Mapping):
        raise ObservationError(
            "the entities are not a mapping",
            expected="a dict from entity types to lists of objects",
            received=shorten(entities),
        )
    check_known(ObservationError, "unknown entity type {}", entities, obs_space.entities)
    return {
        name: _rows(f"entity type {name!r}", objects, obs_space.entities[name].features)
        for name, objects in entities.items()
    }


def extract_global_features(state: Any, obs_space: ObsSpace) -> Floats:
    """Return the global features (G,), read from an object's attributes."""
    row: Floats = _rows("the global features", [state], obs_space.global_features)[0]
    return row


def _rows(what: str, objects: Any, features: Sequence[Feature]) -> Floats:
    """Return a row of features for each object. Shape: (N, F)."""
    if isinstance(objects, str | Mapping):
        raise _not_a_list(what, objects)
    try:
        objects = list(objects)
    except Exception as error:  # iterating may raise anything
        raise _not_a_list(what, objects) from error
    names = [feature_name(feature) for feature in features]
    if not objects or not names:
        return np.zeros((len(objects), len(names)), dtype=np.float32)
    get = attrgetter(*names)
    try:
        rows = [get(thing) for thing in objects]
    except AttributeError as error:
        raise _missing(what, objects, names) from error
    if len(names) == 1:
        rows = [(value,) for value in rows]
    for place, feature in discrete_features(features).items():
        rows = _with_codes(what, objects, rows, place, feature.name)
    try:
        return feature_rows(what, rows, features)
    except FeatureError as error:
        wrong = _not_a_number(what, rows, names)
        if wrong is None:
            raise
        raise wrong from error


def _not_a_list(what: str, objects: Any) -> ObservationError:
    return ObservationError(
        f"the objects of {what} are not a list",
        expected="a list of objects",
        received=f"{type(objects).__name__}: {shorten(objects)}",
        hint="pass the values() of the dict" if isinstance(objects, Mapping) else None,
    )


def _not_a_number(
    what: str, rows: Sequence[Sequence[Any]], names: Sequence[str]
) -> FeatureError | None:
    """Return an error that names the first value that is no number; None if there is none."""
    places = ((i, j) for i, row in enumerate(rows) for j in range(len(row)))
    found = next((at for at in places if shape_of_numbers(rows[at[0]][at[1]]) != ()), None)
    if found is None:
        return None
    i, j = found
    return FeatureError(
        f"{what}, row {i}: feature {names[j]!r} is not a number",
        expected="one real number",
        received=f"{type(rows[i][j]).__name__}: {shorten(rows[i][j])}",
    )


def _with_codes(
    what: str, objects: Sequence[Any], rows: list[Any], place: int, name: str
) -> list[Any]:
    """Return the rows with numbers instead of Enum members and strings in one column."""
    kinds = {type(row[place]) for row in rows}
    if not any(issubclass(kind, Enum | str) for kind in kinds):
        return rows
    coded = []
    for i, (thing, row) in enumerate(zip(objects, rows, strict=True)):
        value, known = row[place], None
        if isinstance(value, Enum):
            known = _members(type(value))
        elif isinstance(value, str):
            known = _literals(cast(Any, type(thing)), name)
        if known is not None and value not in known:
            raise FeatureError(
                f"{what}, row {i}: discrete feature {name!r} has an unknown value",
                received=shorten(value),
                options=known,
                hint=nearest(value, known),
            )
        code = value if known is None else known[value]
        coded.append((*row[:place], code, *row[place + 1 :]))
    return coded


@lru_cache(maxsize=256)
def _members(kind: Any) -> Mapping[Any, int]:
    return {member: place for place, member in enumerate(kind)}


@lru_cache(maxsize=256)
def _literals(cls: type, path: str) -> Mapping[Any, int] | None:
    """Return the strings that the dataclass ``cls`` allows at ``path``, or None."""
    name, _, rest = path.partition(".")
    kind = annotations_of(cls).get(name) if is_dataclass(cls) else None
    if rest:
        return _literals(kind, rest) if isinstance(kind, type) else None
    if get_origin(kind) is not Literal:
        return None
    return {text: place for place, text in enumerate(get_args(kind))}


def _missing(what: str, objects: Sequence[Any], names: Sequence[str]) -> EntityEnvError:
    for row, thing in enumerate(objects):
        for name in names:
            try:
                attrgetter(name)(thing)
            except AttributeError as error:
                public = [name for name in dir(thing) if not name.startswith("_")]
                return FeatureError(
                    f"{what}, row {row}: feature {name!r} is missing",
                    expected=f"an object with the attributes {', '.join(names)}",
                    received=f"{shorten(thing)}: {error}",
                    hint=nearest(name.partition(".")[0], public),
                )
    return FeatureError(f"{what}: an attribute was missing at first, but not later")
