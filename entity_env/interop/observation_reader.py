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

Tables that are named in ``entities`` become entities, too, one for each row (see ``Rows``). Any
other space needs a wrapper that returns these, or is left out with ``ignore``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.arguments import named_arguments, whole
from entity_env.errors import (
    ObservationError,
    SettingError,
    SpaceError,
    counted,
    nearest,
    shorten,
    unknown_name,
)
from entity_env.spaces import Discrete, Entity, EntityName, Feature, ObsSpace

__all__ = [
    "Entities",
    "ObservationReader",
    "Rows",
    "SpacePart",
    "counts_of",
    "names_of",
    "parts_of",
]

SUPPORTED = (
    "Box, Discrete, MultiDiscrete, MultiBinary or Sequence, or a Dict or Tuple of them; a Box of "
    "at most 8,192 numbers"
)
MOST_NUMBERS = 8192
"""The largest size of a box that is read as features; Go has 6,137 and chess 7,104 numbers."""
Array = npt.NDArray[Any]


@named_arguments(SettingError)
@dataclass(frozen=True)
class Rows:
    """A table, a ``Box`` with two dimensions that holds one object in each row.

    The rows become entities of one type. These entities do not act: the action is global. An
    observation may have more or fewer rows than its space.

    Args:
        presence: The index of the column that is 0 in rows without an object. These rows are left
            out, and the column, too. None: every row has an object.
        features: The names of all columns, including the presence column. None names them
            ``value[0]``, ``value[1]``, ...
        part: The name of the part with the table, such as ``vehicles`` or ``obs/0``. None is the
            part with the name of the entity type, or an observation that is a single table.
    """

    presence: int | None = None
    features: Sequence[str] | None = None
    part: str | None = None


Entities: TypeAlias = Mapping[EntityName, Rows | int | Mapping[str, Any] | None]
"""The rows of each new entity type; an index alone is that of the presence column."""


class SpacePart(NamedTuple):
    """A part of a space that is neither a ``Dict`` nor a ``Tuple``.

    Args:
        name: Its name, such as ``arm/speed``.
        path: The keys and places that lead to it.
        space: Its space.
    """

    name: str
    path: tuple[Any, ...]
    space: spaces.Space[Any]

    def value_in(self, value: Any) -> Any:
        """Return the part of an observation or action."""
        for key in self.path:
            if isinstance(value, Mapping) and key not in value:
                raise KeyError(f"the part {key!r} is missing")
            value = value[key]
        return value


def parts_of(
    space: spaces.Space[Any], root: str, name: str = "", path: tuple[Any, ...] = ()
) -> Iterator[SpacePart]:
    """Yield the parts of a space, through all ``Dict``s and ``Tuple``s.

    Args:
        space: The space.
        root: The name of a space without parts, and of a ``Tuple`` before the places of its parts.
        name: The name of ``space`` within a larger one.
        path: The path to ``space`` within a larger one.
    """
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from parts_of(inner, root, f"{name}/{key}" if name else str(key), (*path, key))
    elif isinstance(space, spaces.Tuple):
        for place, inner in enumerate(space.spaces):
            yield from parts_of(inner, root, f"{name or root}/{place}", (*path, place))
    else:
        yield SpacePart(name or root, path, space)


def names_of(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return a name for each number of an array: ``name``, ``name[2]``, ``name[0,2]``."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, place))}]" for place in np.ndindex(*shape)]


def counts_of(
    space: spaces.Space[Any],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return the number of values of each number of a discrete space, and the first value.

    Returns:
        Two arrays of the shape of the space; None for a space that is not discrete.
    """
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.n), np.asarray(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec, space.start
    if isinstance(space, spaces.MultiBinary):
        return np.full(space.shape, 2), np.zeros(space.shape, np.int64)
    return None


class ObservationReader:
    """A reader of the observations of one Gymnasium space.

    Args:
        space: The space.
        ignore: The names of parts to leave out, or one name.
        entities: The rows of a table for each new entity type.

    Raises:
        SpaceError: A part of the space cannot be read as features.
        SettingError: ``ignore`` or ``entities`` name a part that does not exist, or are not valid.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        ignore: str | Iterable[str] | None = (),
        entities: Entities | None = None,
    ) -> None:
        self.space = space
        parts = _without(list(parts_of(space, "obs")), _read_ignore(ignore))
        tables = _tables(parts, _read_entities(entities))
        _check_readable([part for part in parts if part.name not in tables])
        self._numbers: list[_Numbers] = []
        self._lists: list[_Elements | _Table] = []
        for part in parts:
            if part.name in tables:
                self._lists.append(tables[part.name])
            elif isinstance(part.space, spaces.Sequence):
                self._lists.append(_elements(part, part.space))
            else:
                self._numbers.append(_numbers(part))
        types: dict[EntityName, Entity] = {}
        for rows in self._lists:
            if rows.entity in types:
                raise SpaceError(f"the space has two parts with the name {rows.entity!r}")
            types[rows.entity] = Entity(rows.features)
        self.obs_space = ObsSpace([f for numbers in self._numbers for f in numbers.features], types)

    def read(self, observation: Any) -> tuple[Array, dict[EntityName, Array]]:
        """Return global features (G,) and rows of each type (N, F), as copies."""
        try:
            flat = [
                numbers.read(numbers.part.value_in(observation)).ravel()
                for numbers in self._numbers
            ]
            rows = {
                objects.entity: objects.read(objects.part.value_in(observation))
                for objects in self._lists
            }
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ObservationError(
                f"the observation does not fit its space: {type(error).__name__}: {error}",
                expected=shorten(self.space),
                received=shorten(observation),
            ) from error
        return (np.concatenate(flat) if flat else np.zeros(0, np.float32)), rows


@dataclass(frozen=True)
class _Numbers:
    """Numbers of a fixed shape; ``start`` is the first value of discrete ones."""

    part: SpacePart
    features: list[Feature]
    start: Array | None = None

    def read(self, given: Any) -> Array:
        """Return the numbers; discrete ones are counted from 0."""
        array = np.asarray(given)
        return array if self.start is None else array - self.start


@dataclass(frozen=True)
class _Elements:
    """A ``Sequence``, whose elements are entities."""

    part: SpacePart
    entity: EntityName
    numbers: list[_Numbers]
    is_stacked: bool

    @property
    def features(self) -> list[Feature]:
        return [feature for numbers in self.numbers for feature in numbers.features]

    def read(self, elements: Any) -> Array:
        if self.is_stacked:
            columns = [numbers.part.value_in(elements) for numbers in self.numbers]
        else:
            columns = [[numbers.part.value_in(one) for one in elements] for numbers in self.numbers]
        count = len(columns[0])
        tables = [
            numbers.read(column).reshape(count, len(numbers.features))
            for numbers, column in zip(self.numbers, columns, strict=True)
        ]
        return np.concatenate([np.zeros((count, 0), np.float32), *tables], axis=1)


@dataclass(frozen=True)
class _Table:
    """A table of ``width`` columns, whose rows are entities; the ``kept`` columns are features."""

    part: SpacePart
    entity: EntityName
    features: list[str]
    kept: list[int]
    width: int
    presence: int | None

    def read(self, given: Any) -> Array:
        table = np.asarray(given)
        if table.ndim != 2 or table.shape[1] != self.width:
            raise ValueError(
                f"a table of {counted(self.width, 'column')} has the shape {table.shape}"
            )
        if self.presence is not None:
            present = table[:, self.presence]
            if np.isnan(present).any():
                raise ValueError(f"the presence column {self.presence} holds NaN")
            table = table[present != 0]
        return table[:, self.kept]


def _numbers(part: SpacePart) -> _Numbers:
    counts_and_starts = counts_of(part.space)
    if counts_and_starts is None:
        assert part.space.shape is not None
        return _Numbers(part, list(names_of(part.name, part.space.shape)))
    counts, starts = counts_and_starts
    each = zip(names_of(part.name, counts.shape), counts.ravel().tolist(), strict=True)
    features: list[Feature] = [Discrete(name, n) for name, n in each]
    return _Numbers(part, features, starts if starts.any() else None)


def _elements(part: SpacePart, space: spaces.Sequence) -> _Elements:
    numbers = [_numbers(inner) for inner in parts_of(space.feature_space, "value")]
    return _Elements(part, part.name, numbers, space.stack)


def _tables(parts: Iterable[SpacePart], entities: Mapping[EntityName, Rows]) -> dict[str, _Table]:
    """Return the table of each part that is one."""
    named = {part.name: part for part in parts}
    found: dict[str, _Table] = {}
    for entity, rows in entities.items():
        name = rows.part if rows.part is not None else entity if entity in named else "obs"
        if name not in named:
            raise SettingError(
                f"there is no table for the rows of entity type {entity!r}",
                expected="part=... with the name of a part of the observation",
                received=shorten(name),
                options=list(named),
                hint=nearest(name, named),
            )
        if name in found:
            raise SettingError(f"part {name!r} has the rows of two entity types", received=entity)
        found[name] = _table(named[name], entity, rows)
    return found


def _table(part: SpacePart, entity: EntityName, rows: Rows) -> _Table:
    if not isinstance(part.space, spaces.Box) or len(part.space.shape) != 2:
        raise SettingError(
            f"the part for the rows of entity type {entity!r} is not a table",
            expected="part=... with the name of a Box that has two dimensions",
            received=shorten(part.space),
        )
    width = part.space.shape[1]
    names = names_of("value", (width,)) if rows.features is None else rows.features
    if not _are_names(names) or isinstance(names, str) or len(names) != width:
        expected = f"a list of names, one for each column: {counted(width, 'name')}"
        raise _wrong_rows(entity, "features", expected, names)
    presence = None if rows.presence is None else whole(rows.presence)
    if (presence is None and rows.presence is not None) or not -width <= (presence or 0) < width:
        expected = f"the index of a column, from 0 to {width - 1}"
        raise _wrong_rows(entity, "presence", expected, rows.presence)
    presence = None if presence is None else presence % width
    kept = [column for column in range(width) if column != presence]
    return _Table(part, entity, [names[i] for i in kept], kept, width, presence)


def _check_readable(parts: Iterable[SpacePart]) -> None:
    """Raise SpaceError if parts are of another kind, too large, or lists within lists."""
    reasons = {part.name: reason for part in parts if (reason := _reason(part.space))}
    if reasons:
        listed, typed = ", ".join(f'"{name}"' for name in reasons), ",".join(reasons)
        name, reason = next(iter(reasons.items()))
        raise SpaceError(
            f"the part {name!r} of the observation {reason}",
            expected=SUPPORTED,
            hint=f"ignore=[{listed}] leaves out what cannot be read (env.ignore=[{typed}] on the "
            "command line), or a gymnasium.ObservationWrapper returns lists of objects: see "
            "docs/wrap.md",
        )


def _reason(space: spaces.Space[Any], *, is_element: bool = False) -> str | None:
    """Return why a space cannot be read, or None."""
    if isinstance(space, spaces.Sequence) and not is_element:
        inner = list(parts_of(space.feature_space, "value"))
        reasons = ((part.name, _reason(part.space, is_element=True)) for part in inner)
        wrong = [f"has elements whose {name!r} {reason}" for name, reason in reasons if reason]
        return wrong[0] if wrong else None if inner else "has elements without numbers"
    if isinstance(space, spaces.Box):
        size = int(np.prod(space.shape))
        return f"is a Box of {size:,} numbers" if size > MOST_NUMBERS else None
    return f"is a {type(space).__name__}" if counts_of(space) is None else None


def _without(parts: list[SpacePart], ignore: Collection[str]) -> list[SpacePart]:
    """Return the parts that are not ignored; a name stands for all parts below it, too."""
    names = [part.name for part in parts]
    for name in ignore:
        if not any(_is_within(part, name) for part in names):
            mistake = f"ignore names {name!r}, which is not a part of the observation"
            raise unknown_name(SettingError, mistake, name, names)
    return [part for part in parts if not any(_is_within(part.name, name) for name in ignore)]


def _is_within(name: str, outer: str) -> bool:
    return name == outer or name.startswith(f"{outer}/")


def _read_entities(entities: Any) -> dict[EntityName, Rows]:
    """Return the setting ``entities``, given in Python or on the command line, as ``Rows``."""
    if entities is None:
        return {}
    if not isinstance(entities, Mapping) or not all(
        isinstance(name, str) and name for name in entities
    ):
        raise SettingError(
            "entities is not a mapping from entity types to rows",
            expected='entities={"Vehicle": Rows(presence=0)}, or "env.entities={Vehicle: 0}" on '
            "the command line",
            about="entities",
            received=shorten(entities),
        )
    return {name: _read_rows(name, given) for name, given in entities.items()}


def _read_rows(name: EntityName, given: Any) -> Rows:
    if isinstance(given, Rows):
        return given
    if isinstance(given, Mapping):
        return Rows(**{str(argument): value for argument, value in given.items()})
    if given is None or whole(given) is not None:
        return Rows(given)
    raise _wrong_rows(name, "value", "Rows(...), or the index of the presence column", given)


def _read_ignore(ignore: Any) -> tuple[str, ...]:
    """Return the setting ``ignore``, a name or a list of names, as a tuple."""
    names = () if ignore is None else (ignore,) if isinstance(ignore, str) else ignore
    if not _are_names(names):
        raise SettingError(
            "ignore is not a list of names",
            expected='the parts of the observation to leave out, such as ignore=["mission"]',
            about="ignore",
            received=shorten(ignore),
        )
    return tuple(names)


def _are_names(names: Any) -> bool:
    listed = isinstance(names, Iterable) and not isinstance(names, Mapping)
    return listed and all(isinstance(name, str) for name in names)


def _wrong_rows(entity: EntityName, what: str, expected: str, received: object) -> SettingError:
    return SettingError(
        f"the rows of entity type {entity!r} have a wrong {what}",
        expected=expected,
        received=shorten(received),
        about="entities",
    )
