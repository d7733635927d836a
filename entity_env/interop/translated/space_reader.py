"""Gymnasium observation spaces, read as global features and entity types.

Parts of a fixed size become global features, lists of any length become entities:

==================  ===============================================================================
``Box``             continuous features, one for each number: ``speed``, ``speed[0]``, ``map[0,1]``
``Discrete``        one discrete feature, counted from ``start``
``MultiDiscrete``   as many discrete features
``MultiBinary``     discrete features with two values
``Dict``            its parts, named after their keys: ``arm/speed[0]``
``Tuple``           its parts, named after their places: ``obs/0[1]``
``Sequence``        an entity type whose entities are the elements
``Graph``           the entity types ``nodes`` and ``edges``
==================  ===============================================================================

Parts that are named in ``ignore`` are left out; tables that are named in ``entities`` become
entities, one for each row (see ``Rows``).

A node also has its ``index``. An edge has its own features, the indices ``from`` and ``to`` of its
two nodes, and the features of both nodes (``from/value[0]``), because a network that attends to
entities does not know their positions in a list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.errors import (
    ObservationError,
    SettingError,
    SpaceError,
    check_known,
    nearest,
    shorten,
)
from entity_env.interop.translated.rows import Rows
from entity_env.interop.translated.space_parts import counts_of, named_parts, names_of
from entity_env.interop.translated.tables import RowTable, is_table, table_of
from entity_env.spaces import Discrete, Entity, EntityName, Feature, ObsSpace

__all__ = ["ObservationReader"]

SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple, Sequence and Graph"
MOST_NUMBERS = 65536
"""The largest size of a box that is read as features; Go has 6,137 and chess 7,104 numbers."""
KINDS = (
    spaces.Box,
    spaces.Discrete,
    spaces.MultiDiscrete,
    spaces.MultiBinary,
    spaces.Dict,
    spaces.Tuple,
    spaces.Sequence,
    spaces.Graph,
)
PICTURE = 64
"""The least height and width of a box of bytes that is a picture; MiniGrid's boards are smaller."""
Path = tuple[Any, ...]
Array = npt.NDArray[Any]


class ObservationReader:
    """A reader of the observations of one Gymnasium space.

    Args:
        space: The space.
        ignore: The names of parts to leave out.
        tables: The rows of a table for each new entity type.
        columns: The names of a table's columns, for tables of this width without names.

    Raises:
        SpaceError: A part of the space cannot be read as features.
        SettingError: ``ignore`` or ``tables`` name a part that does not exist.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        ignore: Collection[str] = (),
        tables: Mapping[EntityName, Rows] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.space = space
        every = dict(_named(space, "", "obs"))
        check_known(
            SettingError, "ignore names {}, which is not a part of the observation", ignore, every
        )
        found = _tables(every, ignore, tables or {}, columns)
        unread = [name for name, part in every.items() if not isinstance(part, KINDS)]
        asked = _Asked("", frozenset(ignore), found, [n for n in unread if not _within(n, ignore)])
        parts = list(_parts(space, (), "", "obs", asked))
        self._leaves = [part for part in parts if isinstance(part, _Leaf)]
        self._lists = [part for part in parts if not isinstance(part, _Leaf)]
        entities: dict[EntityName, Entity] = {}
        for part in self._lists:
            for name, features in part.types().items():
                if name in entities:
                    raise SpaceError(f"the space has two parts with the name {name!r}")
                entities[name] = Entity(features)
        self.obs_space = ObsSpace([f for leaf in self._leaves for f in leaf.features], entities)

    def read(self, observation: Any) -> tuple[Array, dict[EntityName, Array]]:
        """Return global features (G,) and rows of each type (N, F), as copies."""
        try:
            flat = [leaf.values(_at(observation, leaf.path)).ravel() for leaf in self._leaves]
            rows: dict[EntityName, Array] = {}
            for part in self._lists:
                rows |= part.rows(_at(observation, part.path))
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

    def values(self, given: Any) -> Array:
        """Return the numbers; discrete ones are counted from 0."""
        array = np.asarray(given)
        return array if self.start is None else array - self.start

    def rows(self, given: Any, count: int) -> Array:
        """Return the numbers of ``count`` elements. Shape: (count, F)."""
        return self.values(given).reshape(count, len(self.features))


@dataclass(frozen=True)
class _Elements:
    """A ``Sequence``."""

    path: Path
    name: str
    leaves: list[_Leaf]
    stacked: bool

    def types(self) -> dict[EntityName, list[Feature]]:
        return {self.name: [feature for leaf in self.leaves for feature in leaf.features]}

    def rows(self, elements: Any) -> dict[EntityName, Array]:
        if self.stacked:
            columns = [_at(elements, leaf.path) for leaf in self.leaves]
        else:
            columns = [[_at(one, leaf.path) for one in elements] for leaf in self.leaves]
        count = len(columns[0]) if columns else len(elements)
        parts = [
            leaf.rows(column, count) for leaf, column in zip(self.leaves, columns, strict=True)
        ]
        return {self.name: np.concatenate([np.zeros((count, 0), np.float32), *parts], axis=1)}


@dataclass(frozen=True)
class _Nodes:
    """A ``Graph``: its nodes, and its edges with the features of both ends."""

    path: Path
    prefix: str
    node: _Leaf
    edge: _Leaf | None

    def types(self) -> dict[EntityName, list[Feature]]:
        own = [] if self.edge is None else self.edge.features
        ends = [_renamed(f, end) for end in ("from", "to") for f in self.node.features]
        return {
            f"{self.prefix}nodes": [*self.node.features, "index"],
            f"{self.prefix}edges": [*own, "from", "to", *ends],
        }

    def rows(self, graph: Any) -> dict[EntityName, Array]:
        nodes = self.node.rows(graph.nodes, len(graph.nodes))
        given = graph.edge_links
        links = np.zeros((0, 2), np.int64) if given is None else np.asarray(given).reshape(-1, 2)
        if ((links < 0) | (links >= len(nodes))).any():
            raise IndexError(f"an edge leads to a node that is not one of the {len(nodes)} nodes")
        parts = [links, nodes[links[:, 0]], nodes[links[:, 1]]]
        if self.edge is not None:
            own = np.zeros(0) if graph.edges is None else graph.edges
            parts.insert(0, self.edge.rows(own, len(links)))
        index = np.arange(len(nodes))[:, None]
        return {
            f"{self.prefix}nodes": np.concatenate([nodes, index], axis=1),
            f"{self.prefix}edges": np.concatenate(parts, axis=1),
        }


@dataclass(frozen=True)
class _Rows:
    """A table that a user named."""

    path: Path
    name: str
    table: RowTable

    def types(self) -> dict[EntityName, list[Feature]]:
        return {self.name: self.table.features}

    def rows(self, given: Any) -> dict[EntityName, Array]:
        return {self.name: self.table.read(given)}


@dataclass(frozen=True)
class _Asked:
    """The requests of a user.

    Args:
        base: Prefix of the names of the parts.
        ignore: The parts to leave out.
        tables: The entity types of each part that is a table.
        unread: The parts that cannot be read, for messages.
    """

    base: str
    ignore: frozenset[str]
    tables: Mapping[str, Mapping[EntityName, RowTable]]
    unread: Sequence[str]


def _parts(
    space: spaces.Space[Any], path: Path, name: str, root: str, asked: _Asked
) -> Iterator[_Leaf | _Elements | _Nodes | _Rows]:
    """Yield the parts of a space, in order; ``root`` is the name of a part without one."""
    where = name or root
    if asked.base + where in asked.ignore:
        return
    if asked.base + where in asked.tables:
        for entity, table in asked.tables[where].items():
            yield _Rows(path, entity, table)
    elif isinstance(space, spaces.Dict | spaces.Tuple):
        for key, inner, part in named_parts(space, name, root):
            yield from _parts(inner, (*path, key), part, root, asked)
    elif isinstance(space, spaces.Sequence):
        inside = _Asked(f"{asked.base}{where}/", asked.ignore, {}, asked.unread)
        yield _Elements(path, where, _element(space.feature_space, where, inside), space.stack)
    elif isinstance(space, spaces.Graph):
        edge = None if space.edge_space is None else _leaf(space.edge_space, (), "value")
        prefix = f"{name}/" if name else ""
        yield _Nodes(path, prefix, _leaf(space.node_space, (), "value"), edge)
    elif isinstance(space, KINDS):
        yield _leaf(space, path, where, asked.base)
    else:
        raise SpaceError(
            f"observation {where!r} is a {type(space).__name__}",
            expected=SUPPORTED,
            received=shorten(space),
            hint=_leave_out(*asked.unread) + "wrap the environment so that it returns numbers",
        )


def _named(
    space: spaces.Space[Any], name: str, root: str
) -> Iterator[tuple[str, spaces.Space[Any]]]:
    """Yield all parts with their names, including those that hold other parts."""
    where = name or root
    yield where, space
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for _, inner, part in named_parts(space, name, root):
            yield from _named(inner, part, root)
    elif isinstance(space, spaces.Sequence):
        for part, inner in _named(space.feature_space, "", "value"):
            yield f"{where}/{part}", inner


def _tables(
    every: Mapping[str, spaces.Space[Any]],
    ignore: Collection[str],
    wanted: Mapping[EntityName, Rows],
    columns: Sequence[str] | None,
) -> dict[str, dict[EntityName, RowTable]]:
    """Return the tables that become entities, by the name of the part."""
    tables = [n for n, space in every.items() if is_table(space) and not _within(n, ignore)]
    found: dict[str, dict[EntityName, RowTable]] = {}
    for entity, rows in wanted.items():
        part = rows.part or (entity if entity in every or len(tables) != 1 else tables[0])
        if part not in tables:
            raise SettingError(
                f"there is no table for the rows of entity type {entity!r}"
                if rows.part is None and part not in every
                else f"the part {part!r} for the rows of entity type {entity!r} is not a table",
                expected="part=... with the name of a part that has two dimensions, a row for each "
                "entity",
                received=shorten(every[part]) if part in every else None,
                options=tables,
                hint=nearest(part, tables),
            )
        found.setdefault(part, {})[entity] = table_of(every[part], entity, rows, columns)
    return found


def _element(space: spaces.Space[Any], where: str, asked: _Asked) -> list[_Leaf]:
    """Return the features of a ``Sequence``'s elements."""
    leaves = []
    for part in _parts(space, (), "", "value", asked):
        if not isinstance(part, _Leaf):
            inner = "/".join(map(str, part.path))
            raise SpaceError(
                f"the elements of {where!r} contain lists"
                + (f", in their part {inner!r}" if inner else ""),
                expected="a Sequence whose elements have a fixed size",
                received=shorten(space),
                hint=_leave_out(asked.base + (inner or "value"))
                + "use two entity types, where the inner one has the index of its outer one",
            )
        leaves.append(part)
    if not leaves:
        raise SpaceError(f"the elements of {where!r} have no numbers", received=shorten(space))
    return leaves


def _leaf(space: spaces.Space[Any], path: Path, name: str, base: str = "") -> _Leaf:
    counted = counts_of(space)
    if counted is not None:
        counts, starts = counted
        each = zip(names_of(name, counts.shape), counts.ravel().tolist(), strict=True)
        return _Leaf(
            path, [Discrete(part, n) for part, n in each], starts if starts.any() else None
        )
    assert isinstance(space, spaces.Box)
    size = int(np.prod(space.shape))
    picture = _is_picture(space)
    if picture or size > MOST_NUMBERS:
        rows = f'entities={{"Row": Rows(part="{base + name}")}} makes an entity of each row, '
        raise SpaceError(
            f"observation {name!r} is a Box of {size} numbers" + ", a picture" * picture,
            expected=f"at most {MOST_NUMBERS}, and not a picture",
            received=shorten(space),
            hint=(rows if is_table(space) and not picture else "")
            + _leave_out(base + name)
            + "wrap the environment so that it returns the objects in it",
        )
    return _Leaf(path, list(names_of(name, space.shape)))


def _is_picture(space: spaces.Box) -> bool:
    """Return True for a high and wide array of bytes with all their values."""
    large = sum(side >= PICTURE for side in space.shape) >= 2
    return large and bool(space.dtype == np.uint8 and np.all(space.high == 255))


def _leave_out(*names: str) -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    them = "them" if len(names) > 1 else "it"
    typed = f"env.ignore=[{','.join(names)}]"
    return f"ignore=[{listed}] leaves {them} out ({typed} on the command line), or "


def _within(name: str, parts: Collection[str]) -> bool:
    """Return True if a part is one of ``parts``, or belongs to one of them."""
    return any(name == part or name.startswith(f"{part}/") or part == "obs" for part in parts)


def _renamed(feature: Feature, end: str) -> Feature:
    if isinstance(feature, Discrete):
        return Discrete(f"{end}/{feature.name}", feature.n)
    return f"{end}/{feature}"


def _at(observation: Any, path: Path) -> Any:
    for key in path:
        if isinstance(observation, Mapping) and key not in observation:
            raise KeyError(f"the part {key!r} is missing")
        observation = observation[key]
    return observation
