"""Settings for tables in an observation whose rows become entities.

GymnasiumEnv("highway-v0", entities={"Vehicle": Rows("presence")})

python -m ppo_trainer env=gymnasium env.env=my_pkg:Traffic-v0 "env.entities={Vehicle: 0}"

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from entity_env.arguments import named_arguments, unknown_argument
from entity_env.errors import SettingError, shorten
from entity_env.spaces import EntityName

__all__ = ["Entities", "Rows", "read_entities", "read_ignore"]

SYNTAX = 'entities={"Vehicle": Rows("presence")}'


@named_arguments(SettingError)
@dataclass(frozen=True)
class Rows:
    """A table, a two-dimensional part of the observation with one object in each row.

    The rows become entities of one type. These entities do not act: the action is global. An
    observation may have more or fewer rows than its space.

    Args:
        presence: The column, by name or index, that is 0 in rows without an object. These rows are
            left out, and the column, too. None: every row has an object.
        features: The names of all columns, including the presence column. None uses the names in
            observations of highway-env, or ``value[0]``, ... for others.
        part: The name of the part with the table, such as ``vehicles`` or ``obs/0``. None uses the
            part with the name of the entity type, or else the only part with two dimensions.
        rows: The first row and the row after the last one, such as (1, 6), for a table with several
            types.
        zeros_absent: True to leave out rows of zeros, too.

    Raises:
        SettingError: An argument has the wrong type.
    """

    presence: int | str | None = None
    features: Sequence[str] | None = None
    part: str | None = None
    rows: tuple[int, int] | None = None
    zeros_absent: bool = False

    def __post_init__(self) -> None:
        """Check the types of the arguments."""
        named = isinstance(self.presence, str | int | np.integer)
        if self.presence is not None and (not named or isinstance(self.presence, bool)):
            raise _wrong("presence", "the name or index of a column, or None", self.presence)
        if self.features is not None:
            if not _are_names(self.features):
                raise _wrong("features", "a list of names, one for each column", self.features)
            object.__setattr__(self, "features", tuple(self.features))
        if self.part is not None and not isinstance(self.part, str):
            raise _wrong("part", "the name of a part of the observation", self.part)
        if self.rows is not None:
            if not _is_span(self.rows):
                raise _wrong("rows", "two whole numbers, 0 <= first < end", self.rows)
            object.__setattr__(self, "rows", tuple(map(int, self.rows)))
        if not isinstance(self.zeros_absent, bool | np.bool_):
            raise _wrong("zeros_absent", "true or false", self.zeros_absent)


Entities: TypeAlias = Mapping[EntityName, Rows | str | int | Mapping[str, Any] | None]
"""The rows of each new entity type; a name or an index alone is the presence column."""


def read_entities(entities: Any) -> dict[EntityName, Rows]:
    """Return the setting ``entities``, given in Python or on the command line, as ``Rows``.

    Raises:
        SettingError: The setting is not a mapping, or a value is not valid.
    """
    if entities is None:
        return {}
    if not isinstance(entities, Mapping):
        raise SettingError(
            "entities is not a mapping from entity types to rows",
            expected=f"{SYNTAX}, or env.entities={{Vehicle: presence}} on the command line",
            about="entities",
            received=shorten(entities),
        )
    for name in entities:
        if not isinstance(name, str) or not name:
            raise SettingError(
                "an entity type has no name",
                expected=SYNTAX,
                received=shorten(name),
                about="entities",
            )
    return {name: _read_rows(name, given) for name, given in entities.items()}


def read_ignore(ignore: Any) -> tuple[str, ...]:
    """Return the setting ``ignore``, a name or a list of names of parts, as a tuple.

    Raises:
        SettingError: The setting is something else.
    """
    if ignore is None:
        return ()
    names = (ignore,) if isinstance(ignore, str) else ignore
    if not isinstance(names, Iterable) or isinstance(names, Mapping):
        names = (None,)
    names = tuple(names)
    if not all(isinstance(name, str) for name in names):
        raise SettingError(
            "ignore is not a list of names",
            expected='the parts of the observation to leave out, such as ignore=["mission"]',
            about="ignore",
            received=shorten(ignore),
        )
    return names


def _read_rows(name: EntityName, given: Any) -> Rows:
    if isinstance(given, Rows):
        return given
    if given is None or isinstance(given, str | int):
        return Rows(given)
    if not isinstance(given, Mapping):
        raise SettingError(
            f"entity type {name!r} has no rows",
            expected=f"Rows(...), or the name or index of its presence column: {SYNTAX}",
            about="entities",
            received=shorten(given),
        )
    valid = [field.name for field in fields(Rows)]
    if unknown := [key for key in given if key not in valid]:
        raise unknown_argument(SettingError, f"entity type {name!r}", unknown, valid)
    return Rows(**given)


def _are_names(names: Any) -> bool:
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    return listed and all(isinstance(name, str) for name in names)


def _is_span(span: Any) -> bool:
    listed = isinstance(span, Sequence) and not isinstance(span, str) and len(span) == 2
    whole = listed and all(isinstance(i, int | np.integer) for i in span)
    return whole and not any(isinstance(i, bool) for i in span) and 0 <= span[0] < span[1]


def _wrong(argument: str, expected: str, received: object) -> SettingError:
    return SettingError(
        f"{argument} of Rows is wrong", expected=expected, received=shorten(received)
    )
