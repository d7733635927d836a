"""Tables in an observation whose rows become entities, and parts that are left out.

GymnasiumEnv("my_pkg:Traffic-v0", entities={"Vehicle": Rows(presence=0)})

python -m ppo_trainer env=gymnasium env.env=my_pkg:Traffic-v0 "env.entities={Vehicle: 0}"

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.arguments import named_arguments, unknown_argument, whole
from entity_env.errors import SettingError, counted, shorten
from entity_env.spaces import EntityName

__all__ = ["Entities", "RowTable", "Rows", "read_entities", "read_ignore", "table_of"]


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


@dataclass(frozen=True)
class RowTable:
    """The conversion of the rows of a table to entities.

    Args:
        features: The names of the features of the entities.
        kept: The column of each feature. Shape: (F,).
        width: The number of columns.
        presence: The column that is 0 in rows without an object.
    """

    features: list[str]
    kept: npt.NDArray[np.int64]
    width: int
    presence: int | None

    def read(self, given: Any) -> npt.NDArray[Any]:
        """Return a copy of the features of the objects. Shape: (N, F)."""
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


def table_of(space: spaces.Space[Any], entity: EntityName, rows: Rows) -> RowTable:
    """Return the conversion of a table to entities of a type.

    Raises:
        SettingError: The space is not a table, a column does not exist, or the number of names is
            wrong.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) != 2:
        raise SettingError(
            f"the part for the rows of entity type {entity!r} is not a table",
            expected="part=... with the name of a Box that has two dimensions",
            received=shorten(space),
        )
    width = space.shape[1]
    names = [f"value[{i}]" for i in range(width)] if rows.features is None else rows.features
    if not _are_names(names) or isinstance(names, str):
        raise _wrong(entity, "features", "a list of names, one for each column", names)
    if len(names) != width:
        expected = f"{counted(width, 'name')}, one for each column"
        raise _wrong(entity, "features", expected, names)
    presence = rows.presence
    if presence is not None:
        column = whole(presence)
        if column is None or not -width <= column < width:
            raise _wrong(
                entity, "presence", f"the index of a column, from 0 to {width - 1}", presence
            )
        presence = column % width
    kept = [column for column in range(width) if column != presence]
    return RowTable([names[i] for i in kept], np.array(kept, np.int64), width, presence)


def read_entities(entities: Any) -> dict[EntityName, Rows]:
    """Return the setting ``entities``, given in Python or on the command line, as ``Rows``.

    Raises:
        SettingError: The setting is not a mapping, or a value is not valid.
    """
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


def read_ignore(ignore: Any) -> tuple[str, ...]:
    """Return the setting ``ignore``, a name or a list of names of parts, as a tuple.

    Raises:
        SettingError: The setting is something else.
    """
    names = () if ignore is None else (ignore,) if isinstance(ignore, str) else ignore
    if not _are_names(names):
        raise SettingError(
            "ignore is not a list of names",
            expected='the parts of the observation to leave out, such as ignore=["mission"]',
            about="ignore",
            received=shorten(ignore),
        )
    return tuple(names)


def _read_rows(name: EntityName, given: Any) -> Rows:
    if isinstance(given, Rows):
        return given
    if isinstance(given, Mapping):
        valid = [field.name for field in fields(Rows)]
        if unknown := [key for key in given if key not in valid]:
            raise unknown_argument(SettingError, f"Rows of entity type {name!r}", unknown, valid)
        return Rows(**given)
    if given is None or whole(given) is not None:
        return Rows(given)
    raise _wrong(name, "value", "Rows(...), or the index of the presence column", given)


def _are_names(names: Any) -> bool:
    listed = isinstance(names, Iterable) and not isinstance(names, Mapping)
    return listed and all(isinstance(name, str) for name in names)


def _wrong(entity: EntityName, what: str, expected: str, received: object) -> SettingError:
    return SettingError(
        f"the rows of entity type {entity!r} have a wrong {what}",
        expected=expected,
        received=shorten(received),
        about="entities",
    )
