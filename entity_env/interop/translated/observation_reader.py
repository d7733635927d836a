"""Gymnasium observations, read as global features and entity types.

Parts of a fixed size become global features, lists of any length become entities:

==================  ===============================================================================
``Box``             continuous features, one for each number: ``speed``, ``speed[0]``, ``map[0,1]``
``Discrete``        one discrete feature, counted from ``start``
``MultiDiscrete``   as many discrete features
``MultiBinary``     discrete features with two values
``Dict``            its parts, named after their keys: ``arm/speed[0]``
``Tuple``           its parts, named after their places: ``obs/0[1]``
``Sequence``        an entity type whose entities are the elements
==================  ===============================================================================

Parts that are named in ``ignore`` are left out; tables that are named in ``entities`` become
entities, one for each row (see ``Rows``). Any other space needs a wrapper that returns these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.errors import ObservationError, SettingError, SpaceError, nearest, shorten
from entity_env.interop.translated.rows import Rows, RowTable, table_of
from entity_env.interop.translated.space_parts import (
    Path,
    counts_of,
    named_parts,
    names_of,
    value_at,
)
from entity_env.spaces import Discrete, Entity, EntityName, Feature, ObsSpace

__all__ = ["ObservationReader"]

SUPPORTED = (
    "Box, Discrete, MultiDiscrete, MultiBinary or Sequence, or a Dict or Tuple of them; a Box of "
    "at most 8,192 numbers"
)
MOST_NUMBERS = 8192
"""The largest size of a box that is read as features; Go has 6,137 and chess 7,104 numbers."""
Array = npt.NDArray[Any]


class ObservationReader:
    """A reader of the observations of one Gymnasium space.

    Args:
        space: The space.
        ignore: The names of parts to leave out.
        tables: The rows of a table for each new entity type.

    Raises:
        SpaceError: A part of the space cannot be read as features.
        SettingError: ``ignore`` or ``tables`` name a part that does not exist.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        ignore: Collection[str] = (),
        tables: Mapping[EntityName, Rows] | None = None,
    ) -> None:
        self.space = space
        parts = list(named_parts(space, "obs"))
        _check_ignored(ignore, [name for name, _ in _with_elements(parts)])
        parts = [part for part in parts if not _is_ignored(part[0], ignore)]
        of_part = _tables(parts, tables or {})
        read_as_features = [part for part in parts if part[0] not in of_part]
        _check_readable(_with_elements(read_as_features), ignore)
        self._leaves: list[_Leaf] = []
        self._lists: list[_Elements | _Table] = []
        for name, path, inner in parts:
            if name in of_part:
                self._lists.append(_Table(path, *of_part[name]))
            elif isinstance(inner, spaces.Sequence):
                self._lists.append(_elements(inner, name, path, ignore))
            else:
                self._leaves.append(_leaf(inner, path, name))
        entities: dict[EntityName, Entity] = {}
        for part in self._lists:
            if part.entity in entities:
                raise SpaceError(f"the space has two parts with the name {part.entity!r}")
            entities[part.entity] = Entity(part.features)
        self.obs_space = ObsSpace([f for leaf in self._leaves for f in leaf.features], entities)

    def read(self, observation: Any) -> tuple[Array, dict[EntityName, Array]]:
        """Return global features (G,) and rows of each type (N, F), as copies."""
        try:
            flat = [leaf.read(value_at(observation, leaf.path)).ravel() for leaf in self._leaves]
            rows = {own.entity: own.read(value_at(observation, own.path)) for own in self._lists}
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ObservationError(
                f"the observation does not fit its space: {type(error).__name__}: {error}",
                expected=shorten(self.space),
                received=shorten(observation),
            ) from error
        return (np.concatenate(flat) if flat else np.zeros(0, np.float32)), rows


@dataclass(frozen=True)
class _Leaf:
    """Numbers at a ``path`` of the observation; ``start`` is the first value of discrete ones."""

    path: Path
    features: list[Feature]
    start: Array | None = None

    def read(self, given: Any) -> Array:
        """Return the numbers; discrete ones are counted from 0."""
        array = np.asarray(given)
        return array if self.start is None else array - self.start


@dataclass(frozen=True)
class _Elements:
    """A ``Sequence``, whose elements are entities."""

    path: Path
    entity: EntityName
    leaves: list[_Leaf]
    is_stacked: bool

    @property
    def features(self) -> list[Feature]:
        return [feature for leaf in self.leaves for feature in leaf.features]

    def read(self, elements: Any) -> Array:
        if self.is_stacked:
            columns = [value_at(elements, leaf.path) for leaf in self.leaves]
        else:
            columns = [[value_at(one, leaf.path) for one in elements] for leaf in self.leaves]
        count = len(columns[0])
        parts = [
            leaf.read(column).reshape(count, len(leaf.features))
            for leaf, column in zip(self.leaves, columns, strict=True)
        ]
        return np.concatenate([np.zeros((count, 0), np.float32), *parts], axis=1)


@dataclass(frozen=True)
class _Table:
    """A table, whose rows are entities."""

    path: Path
    entity: EntityName
    table: RowTable

    @property
    def features(self) -> list[str]:
        return self.table.features

    def read(self, given: Any) -> Array:
        return self.table.read(given)


def _elements(space: spaces.Sequence, name: str, path: Path, ignore: Collection[str]) -> _Elements:
    inner = [
        _leaf(own, place, part)
        for part, place, own in named_parts(space.feature_space, "value")
        if not _is_ignored(f"{name}/{part}", ignore)
    ]
    if not inner:
        raise SpaceError(f"the elements of {name!r} have no numbers", received=shorten(space))
    return _Elements(path, name, inner, space.stack)


def _leaf(space: spaces.Space[Any], path: Path, name: str) -> _Leaf:
    counted = counts_of(space)
    if counted is None:
        assert space.shape is not None
        return _Leaf(path, list(names_of(name, space.shape)))
    counts, starts = counted
    each = zip(names_of(name, counts.shape), counts.ravel().tolist(), strict=True)
    return _Leaf(path, [Discrete(part, n) for part, n in each], starts if starts.any() else None)


def _tables(
    parts: Iterable[tuple[str, Path, spaces.Space[Any]]], wanted: Mapping[EntityName, Rows]
) -> dict[str, tuple[EntityName, RowTable]]:
    """Return the entity type and the table of each part that is a table."""
    space_of = {name: space for name, _, space in parts}
    found: dict[str, tuple[EntityName, RowTable]] = {}
    for entity, rows in wanted.items():
        part = rows.part if rows.part is not None else entity if entity in space_of else "obs"
        if part not in space_of:
            raise SettingError(
                f"there is no table for the rows of entity type {entity!r}",
                expected="part=... with the name of a part of the observation",
                received=shorten(part),
                options=list(space_of),
                hint=nearest(part, space_of),
            )
        if part in found:
            raise SettingError(f"part {part!r} has the rows of two entity types", received=entity)
        found[part] = entity, table_of(space_of[part], entity, rows)
    return found


def _with_elements(
    parts: Iterable[tuple[str, Path, spaces.Space[Any]]],
) -> Iterable[tuple[str, spaces.Space[Any]]]:
    """Yield the name and the space of each part, and of the parts of the elements of lists."""
    for name, _, space in parts:
        yield name, space
        if isinstance(space, spaces.Sequence):
            for inner, _, own in named_parts(space.feature_space, "value"):
                yield f"{name}/{inner}", own


def _check_readable(
    parts: Iterable[tuple[str, spaces.Space[Any]]], ignore: Collection[str]
) -> None:
    """Raise SpaceError if a part is of another kind, too large, or a list within a list."""
    lists: set[str] = set()
    reasons: dict[str, str] = {}
    for name, space in parts:
        if isinstance(space, spaces.Sequence):
            if any(_is_within(name, outer) for outer in lists):
                reasons[name] = "is a Sequence within a Sequence"
            lists.add(name)
        elif isinstance(space, spaces.Box):
            size = int(np.prod(space.shape))
            if size > MOST_NUMBERS:
                reasons[name] = f"is a Box of {size:,} numbers"
        elif counts_of(space) is None:
            reasons[name] = f"is a {type(space).__name__}"
    names = [name for name in reasons if not _is_ignored(name, ignore)]
    if names:
        listed, typed = ", ".join(f'"{name}"' for name in names), ",".join(names)
        raise SpaceError(
            f"the part {names[0]!r} of the observation {reasons[names[0]]}",
            expected=SUPPORTED,
            hint=f"ignore=[{listed}] leaves out what cannot be read (env.ignore=[{typed}] on the "
            "command line), or a gymnasium.ObservationWrapper returns lists of objects: see "
            "docs/wrap.md",
        )


def _check_ignored(ignore: Collection[str], names: Collection[str]) -> None:
    for name in ignore:
        if not any(_is_within(own, name) for own in names):
            raise SettingError(
                f"ignore names {name!r}, which is not a part of the observation",
                options=names,
                hint=nearest(name, names),
            )


def _is_ignored(name: str, ignore: Collection[str]) -> bool:
    return any(_is_within(name, own) for own in ignore)


def _is_within(name: str, part: str) -> bool:
    """Return True if ``name`` is ``part``, or one of its parts; ``obs`` is the observation."""
    return name == part or name.startswith(f"{part}/")
