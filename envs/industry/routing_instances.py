"""Instances of vehicle routing from files: CVRPLIB's ``.vrp``, text as Solomon's, and tables.

A table (``.csv``) has a line for the depot and then one for each customer, with the columns x, y
and demand, and perhaps name, opens, closes and service; its distances are not rounded.

The package vrplib is not used: it drops the numbers of places, so that lines in another order give
another instance; it reads Solomon's coordinates as whole numbers; and its errors name no line.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.errors import SettingError, counted, nearest, shorten

from ..given_files import check_length, read_given, read_number, read_whole, table_lines, text_lines

__all__ = [
    "CUT",
    "DISTANCES",
    "FAR",
    "MOST_CUSTOMERS",
    "MOST_VEHICLES",
    "RoutingInstance",
    "RoutingWarning",
    "find_instance",
    "lateness",
]

F64 = npt.NDArray[np.float64]

MOST_CUSTOMERS, MOST_VEHICLES = 5000, 100
FAR = 1e6
"""The greatest coordinate, distance and time of an instance, and the greatest demand."""
DISTANCES = ("usual", "rounded", "exact")
"""Rounding of distances: usual for the kind of file, to the nearest whole number, or none."""
CUT = 1e-8
"""Number added before rounding down, because in floating point 2.3 * 10 is less than 23."""
_MOST_LISTED = 1000
"""The most places of an instance whose distances are listed: each row has room for all pairs."""


class RoutingWarning(UserWarning):
    """A file whose distances are rounded as is usual for its kind, but probably should not be."""


def lateness(unit: float, day: float) -> float:
    """Return how late a vehicle may be: sums of decimal numbers are rounded.

    Args:
        unit: The extent of the map.
        day: The length of the day.
    """
    return 1e-6 * unit + 1e-12 * day


@dataclass(frozen=True)
class RoutingInstance:
    """A depot and N customers.

    Args:
        name: Name of the instance.
        names: Names of the depot and the customers, in order.
        depot: Position of the depot. Shape: (2,).
        places: Positions of the customers. Shape: (N, 2).
        demand: Shape: (N,), int64.
        capacity: Of a vehicle.
        windows: Earliest and latest beginning of service. Shape: (N, 2).
        service: Duration of service of each customer. Shape: (N,).
        has_windows: True if there are time windows.
        vehicles: Number of vehicles.
        day: Length of the day.
        parts: Distances are multiples of 1 / parts; 0: they are not rounded.
        half: Number added before rounding down; 0.5 rounds to the nearest.
        ways: Distances, where the file lists them. Shape: (N + 1, N + 1), the depot first.
    """

    name: str
    names: tuple[str, ...]
    depot: F64
    places: F64
    demand: npt.NDArray[np.int64]
    capacity: int
    windows: F64
    service: F64
    has_windows: bool
    vehicles: int
    day: float
    parts: float
    half: float
    ways: F64 | None = None

    @property
    def origin(self) -> tuple[float, float]:
        """The least coordinates."""
        x, y = np.minimum(self.places.min(0), self.depot).tolist()
        return float(x), float(y)

    @property
    def unit(self) -> float:
        """The larger one of width and height; 1 where all places are one."""
        extent = np.maximum(self.places.max(0), self.depot) - self.origin
        return float(extent.max()) or 1.0


def find_instance(named: Any, capacity: Any = None, distances: Any = "usual") -> RoutingInstance:
    """Return an instance from a file, or as it is.

    Args:
        named: The path of a file, what ``keep_files`` makes of it, or a ``RoutingInstance``.
        capacity: Capacity of a vehicle, in place of that of the file; needed if the file has none.
        distances: ``rounded`` to the nearest whole number, ``exact``, or ``usual``: rounded in the
            form of CVRPLIB, rounded down to tenths in Solomon's, exact in tables and where the file
            lists them. Those of a ``RoutingInstance`` cannot be changed.

    Raises:
        SettingError: The file is damaged, or needs rules that the game does not have.

    Warns:
        RoutingWarning: Usual rounding loses decimals of coordinates, or of the published cost.
    """
    if capacity is not None:
        capacity = check_whole("capacity", capacity, 1, int(FAR))
    is_read = isinstance(named, RoutingInstance)
    if distances not in (DISTANCES[:1] if is_read else DISTANCES):
        raise SettingError(
            "invalid distances",
            expected="usual, as the instance has been read" if is_read else " or ".join(DISTANCES),
            received=shorten(distances),
            about="distances",
        )
    if isinstance(named, RoutingInstance):
        if capacity is None:
            return named
        customers = [f"customer {name}" for name in named.names[1:]]
        _check_demands(customers, named.demand.tolist(), capacity)
        return replace(named, capacity=capacity)
    where, text = read_given("instance", named)
    if Path(where).suffix.lower() == ".csv":
        return _read_table(text, where, capacity, distances)
    lines = [(here, line) for here, line in text_lines(text, where) if line.strip()]
    if any(line.split() == ["VEHICLE"] for _, line in lines[:5]):
        return _read_solomon(lines, where, capacity, distances)
    return _read_cvrplib(lines, where, capacity, distances)


def _check_demands(places: Sequence[str], demands: Sequence[int], capacity: int) -> None:
    for here, demand in zip(places, demands, strict=True):
        if demand > capacity:
            raise SettingError(
                f"{here}: more demand than a vehicle carries",
                expected=f"at most {capacity}",
                received=demand,
            )


def _made(
    where: str,
    nodes: Sequence[_Node],
    name: str,
    capacity: Any,
    rounding: _Rounding,
    vehicles: int = 1,
    ways: F64 | None = None,
) -> RoutingInstance:
    """Return the instance of the depot and the customers, checked together."""
    if not 2 <= len(nodes) <= MOST_CUSTOMERS + 1:
        raise SettingError(
            f"{where}: no size of an instance",
            expected=f"a depot and 1 to {MOST_CUSTOMERS:,} customers",
            received=counted(len(nodes), "place"),
        )
    if capacity is None:
        raise SettingError(
            f"{where} has no capacity of a vehicle", expected="capacity=..., a whole number"
        )
    depot, *customers = nodes
    if depot.demand:
        raise SettingError(
            f"{depot.here}: the depot has a demand", expected=0, received=depot.demand
        )
    places = np.array([(own.x, own.y) for own in nodes])
    parts, half = rounding
    if ways is not None:
        ways, parts = (np.floor(ways * parts + half + CUT) / parts if parts else ways), 0.0
    back = ways[:, 0] if ways is not None else np.hypot(*(places - places[0]).T)
    if parts:
        back = np.floor(back * parts + half + CUT) / parts
    demand = [own.demand for own in customers]
    _check_demands([own.here for own in customers], demand, capacity)
    extent = float(np.ptp(places, axis=0).max()) or 1.0
    day = depot.closes if math.isfinite(depot.closes) else 6 * extent
    windows = np.array([(own.opens, own.closes) for own in customers])
    service = np.array([own.service for own in customers])
    # A vehicle that begins later would come back after the depot has closed.
    windows[:, 1] = np.minimum(windows[:, 1], depot.closes - service - back[1:])
    for own, (opens, closes) in zip(customers, windows.tolist(), strict=True):
        if opens > closes + lateness(extent, day):
            raise SettingError(
                f"{own.here}: a customer cannot be served in time",
                expected="a window that opens before it closes, and early enough to drive back",
                received=f"{own.opens:g} to {own.closes:g}",
            )
    return RoutingInstance(
        name=name, names=tuple(own.name for own in nodes), depot=places[0], places=places[1:],
        demand=np.array(demand), capacity=capacity, windows=windows, service=service,
        has_windows=bool(windows[:, 0].any() or np.isfinite(windows[:, 1]).any()),
        parts=parts, half=half, ways=ways, day=day, vehicles=vehicles,
    )  # fmt: skip


_Rounding: TypeAlias = tuple[float, float]
"""The fields ``parts`` and ``half`` of an instance."""
_EXACT, _ROUNDED, _TENTHS = (0.0, 0.0), (1.0, 0.5), (10.0, 0.0)


def _rounding(distances: str, usual: _Rounding) -> _Rounding:
    return {"usual": usual, "rounded": _ROUNDED, "exact": _EXACT}[distances]


@dataclass
class _Node:
    here: str
    name: str
    x: float = 0.0
    y: float = 0.0
    demand: int = 0
    opens: float = 0.0
    closes: float = math.inf
    service: float = 0.0


def _read_table(text: str, where: str, capacity: Any, distances: str) -> RoutingInstance:
    nodes: list[_Node] = []
    more = ("name", "opens", "closes", "service")
    for here, cells in table_lines(text, where, ("x", "y", "demand"), more):
        node = _Node(here, cells.pop("name", "") or str(len(nodes)))
        for column, cell in cells.items():
            if cell or column not in more:
                setattr(node, column, _cell(column, cell, here))
        nodes.append(node)
    return _made(where, nodes, Path(where).stem, capacity, _rounding(distances, _EXACT))


def _cell(column: str, word: str, here: str) -> float:
    if column == "demand":
        return read_whole(word, here, "demand", 0, FAR)
    return read_number(word, here, column, -FAR if column in "xy" else 0.0, FAR)


def _read_solomon(
    lines: list[tuple[str, str]], where: str, capacity: Any, distances: str
) -> RoutingInstance:
    """Return an instance in Solomon's form, whose usual distances are rounded down to tenths."""
    fleet: tuple[int, int] | None = None
    nodes: list[_Node] = []
    for here, line in lines[1:]:
        words = line.split()
        if not re.match(r"[-+.\d]", words[0]):
            continue  # headings
        if fleet is None:
            check_length(here, words, 2, "the number of vehicles and their capacity")
            fleet = (
                read_whole(words[0], here, "number of vehicles", 1, FAR),
                read_whole(words[1], here, "capacity", 1, FAR),
            )
            continue
        check_length(here, words, 7, "number, x, y, demand, opens, closes and service")
        columns = ("x", "y", "demand", "opens", "closes", "service")
        cells = {
            name: _cell(name, word, here) for name, word in zip(columns, words[1:], strict=True)
        }
        nodes.append(_Node(here, words[0], **cells))  # type: ignore[arg-type]
    if fleet is None:
        raise SettingError(f"{where}: no vehicles", expected="their number and capacity")
    return _made(
        where, nodes, lines[0][1].strip(), fleet[1] if capacity is None else capacity,
        _rounding(distances, _TENTHS), min(fleet[0], MOST_VEHICLES),
    )  # fmt: skip


_KEYS = (
    "NAME", "COMMENT", "TYPE", "DIMENSION", "EDGE_WEIGHT_TYPE", "EDGE_WEIGHT_FORMAT", "CAPACITY",
    "DISPLAY_DATA_TYPE", "NODE_COORD_TYPE", "VEHICLES", "TRUCKS",
)  # fmt: skip
_SECTIONS = (
    "NODE_COORD_SECTION", "EDGE_WEIGHT_SECTION", "DEMAND_SECTION", "DEPOT_SECTION",
    "DISPLAY_DATA_SECTION",
)  # fmt: skip
_FORMATS = (
    "FULL_MATRIX", "LOWER_ROW", "LOWER_COL", "LOWER_DIAG_ROW", "LOWER_DIAG_COL", "UPPER_ROW",
    "UPPER_COL", "UPPER_DIAG_ROW", "UPPER_DIAG_COL",
)  # fmt: skip


class _CvrpFile:
    """The keys and the sections of a file in CVRPLIB's form, by name.

    Args:
        lines: The lines of the file, with their places.
        where: The name of the file, for messages.
    """

    def __init__(self, lines: list[tuple[str, str]], where: str) -> None:
        self.where = where
        self.head: dict[str, tuple[str, str]] = {}
        self.sections: dict[str, list[tuple[str, list[str]]]] = {}
        inside: list[tuple[str, list[str]]] | None = None
        for here, line in lines:
            key, colon, value = (part.strip() for part in line.partition(":"))
            if key == "EOF":
                return
            if key in _SECTIONS and not value:
                if key in self.sections:
                    raise SettingError(
                        f"{here}: {key} is there twice", expected="each section once"
                    )
                inside = self.sections[key] = []
            elif colon and key in _KEYS:
                self.head[key] = here, value
            elif colon or inside is None or re.match("[A-Za-z]", key):
                raise SettingError(
                    f"{here}: {shorten(key)} is not known",
                    options=(*_KEYS, *_SECTIONS),
                    hint=nearest(key, (*_KEYS, *_SECTIONS)),
                )
            else:
                inside.append((here, line.split()))

    def said_of(self, key: str, options: Sequence[str] = ()) -> tuple[str, str]:
        """Return the value of a key, and its place before it."""
        if key not in self.head:
            raise SettingError(f"{self.where}: no {key}", expected=f"a line '{key} : ...'")
        here, said = self.head[key]
        if options and said not in options:
            raise SettingError(f"{here}: {key} is {shorten(said)}", expected=" or ".join(options))
        return here, said

    def whole(self, key: str, least: int) -> int:
        """Return the value of a key that is a whole number."""
        here, said = self.said_of(key)
        return read_whole(said, here, key, least, FAR)

    def numbered(self, section: str, count: int) -> Iterator[tuple[str, list[str]]]:
        """Yield the lines of a section by the numbers that they begin with, 1 to ``count``."""
        found: dict[int, tuple[str, list[str]]] = {}
        width = 3 if "COORD" in section else 2
        for here, words in self.sections.get(section, []):
            check_length(
                here, words, width, f"{counted(width, 'number')}, as all lines of {section}"
            )
            number = read_whole(words[0], here, "number of a place", 1, FAR)
            if number > count or number in found:
                raise SettingError(
                    f"{here}: no number of a place",
                    expected=f"each of 1 to {count} once",
                    received=number,
                )
            found[number] = here, words[1:]
        if len(found) != count:
            raise SettingError(
                f"{self.where}: {section} has the wrong length",
                expected=counted(count, "line"),
                received=len(found),
            )
        return (found[number] for number in range(1, count + 1))


def _read_cvrplib(
    lines: list[tuple[str, str]], where: str, capacity: Any, distances: str
) -> RoutingInstance:
    """Return an instance in CVRPLIB's form, whose usual Euclidean distances are whole numbers."""
    file = _CvrpFile(lines, where)
    file.said_of("TYPE", ("CVRP",))
    kind = file.said_of("EDGE_WEIGHT_TYPE", ("EUC_2D", "EXPLICIT"))[1]
    count = file.whole("DIMENSION", 2)
    if count > MOST_CUSTOMERS + 1:
        raise SettingError(
            f"{file.head['DIMENSION'][0]}: too many places",
            expected=f"at most {MOST_CUSTOMERS + 1:,}",
            received=count,
        )
    capacity = file.whole("CAPACITY", 1) if capacity is None else capacity
    # The number of a customer in published routes leaves the depot out.
    nodes = [
        _Node(here, str(i), demand=read_whole(words[0], here, "demand", 0, FAR))
        for i, (here, words) in enumerate(file.numbered("DEMAND_SECTION", count))
    ]
    depots = file.sections.get("DEPOT_SECTION", [])
    numbers = [word for _, words in depots for word in words]
    if numbers not in ([], ["1"], ["1", "-1"]):
        raise SettingError(
            f"{depots[0][0]}: no depot that the game has",
            expected="place 1 alone, then -1",
            received=shorten(" ".join(numbers)),
        )
    ways = _listed(file, count) if kind == "EXPLICIT" else None
    _locate(file, nodes, ways)
    fleet = [file.whole(key, 1) for key in ("VEHICLES", "TRUCKS") if key in file.head]
    if ways is None and distances == "usual":
        _warn_of_rounding(file, nodes)
    return _made(
        where, nodes, file.head.get("NAME", ("", Path(where).stem))[1], capacity,
        _rounding(distances, _ROUNDED if ways is None else _EXACT),
        min([*fleet, MOST_VEHICLES]) if fleet else 1, ways,
    )  # fmt: skip


def _warn_of_rounding(file: _CvrpFile, nodes: Sequence[_Node]) -> None:
    """Warn if coordinates, or the published cost, have decimals that whole distances lose."""
    split = next((own for own in nodes if own.x % 1 or own.y % 1), None)
    cost = re.search(
        r"value:?\s*\d+\.\d*[1-9]", file.head.get("COMMENT", ("", ""))[1], re.IGNORECASE
    )
    if split is not None or cost is not None:
        found = f"place ({split.x:g}, {split.y:g})" if split else str(cost and cost[0])
        warnings.warn(
            f"{file.where}: distances are rounded to whole numbers, as is usual for this kind of "
            f"file, but it has decimals: {found}; distances=exact does not round them, "
            "distances=rounded does without this warning",
            RoutingWarning,
            stacklevel=2,
        )


def _locate(file: _CvrpFile, nodes: list[_Node], ways: F64 | None) -> None:
    """Write where nodes are: as the file says, or else as their distances have it."""
    section = "NODE_COORD_SECTION"
    if ways is not None and section not in file.sections:
        section = "DISPLAY_DATA_SECTION"
    if ways is not None and section not in file.sections:
        for node, place in zip(nodes, _spread(ways).tolist(), strict=True):
            node.x, node.y = place
        return
    for node, (here, words) in zip(nodes, file.numbered(section, len(nodes)), strict=True):
        node.x, node.y = (read_number(word, here, "coordinate", -FAR, FAR) for word in words)


def _listed(file: _CvrpFile, count: int) -> F64:
    """Return the distances that EDGE_WEIGHT_SECTION lists. Shape: (count, count)."""
    form = file.said_of("EDGE_WEIGHT_FORMAT", _FORMATS)[1]
    if count > _MOST_LISTED:
        raise SettingError(
            f"{file.where}: too many listed distances",
            expected=f"at most {_MOST_LISTED:,} places",
            received=count,
        )
    listed = [
        read_number(word, here, "distance", 0.0, FAR)
        for here, words in file.sections.get("EDGE_WEIGHT_SECTION", [])
        for word in words
    ]
    ways = np.zeros((count, count))
    if form == "FULL_MATRIX":
        rows, columns = np.indices(ways.shape).reshape(2, -1)
    else:
        by_row = form.startswith("LOWER") == form.endswith("ROW")  # of the lower triangle
        side = 0 if "DIAG" in form else 1
        rows, columns = np.tril_indices(count, -side) if by_row else np.triu_indices(count, side)
    if len(listed) != len(rows):
        raise SettingError(
            f"{file.where}: EDGE_WEIGHT_SECTION has the wrong length",
            expected=f"{counted(len(rows), 'distance')} for {counted(count, 'place')}, {form}",
            received=f"{len(listed):,}",
        )
    ways[rows, columns] = listed
    if form != "FULL_MATRIX":
        ways[columns, rows] = listed
    np.fill_diagonal(ways, 0.0)
    return ways


def _spread(ways: F64) -> F64:
    """Return places in a plane whose distances come near those given: classical scaling.

    Source: Torgerson, "Multidimensional scaling: I. Theory and method", Psychometrika 17, 1952.
    """
    squares = ((ways + ways.T) / 2) ** 2
    centred = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    places: F64 = np.round(vectors[:, -1:-3:-1] * np.sqrt(np.maximum(values[-1:-3:-1], 0)), 6)
    return places
