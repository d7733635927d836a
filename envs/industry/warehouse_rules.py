"""Spaces and floor plans of warehouses."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.errors import SettingError, counted
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Entity,
    ObsSpace,
    Position,
    SelectEntityActionSpace,
)

__all__ = [
    "ACTION_SPACE",
    "CARRIED",
    "CLAIMED",
    "FAR",
    "OBS_SPACE",
    "WAITING",
    "FloorPlan",
    "make_floor_plan",
]

OBS_SPACE = ObsSpace(
    entities={
        "Robot": Entity([Position("x", "y"), "asked", "carried", "room", "battery", "busy"]),
        "Item": Entity(
            [Position("x", "y"), "distance", "onward", "nearer", "order left", "age", "own order"]
        ),
        "Station": Entity([Position("x", "y"), "distance", "carried here"]),
        "Charger": Entity([Position("x", "y"), "distance", "taken"]),
        "Clock": Entity(["time", "items", "robots", "size"]),
    }
)
ACTION_SPACE: dict[ActionName, ActionSpace] = {"Task": SelectEntityActionSpace()}

WAITING, CLAIMED, CARRIED = 1, 2, 3
"""The states of an item; 0: there is none."""
FAR = 30_000
"""Further than any way."""
MOST_CELLS = 2_000


@dataclass(frozen=True)
class FloorPlan:
    """Floors that robots drive on, and the ways between them.

    Args:
        width: Cells from left to right.
        height: Cells from bottom to top.
        cells: Of each floor cell, x and y. Shape: (cells, 2), int32.
        next: The neighbours that one may drive to from each cell, -1 where there are fewer. Shape:
            (cells, 4), int32.
        shelves: The cells beside shelves, where items are picked. int32.
        stations: Cells where items are handed over. int32.
        chargers: Cells where batteries are charged. int32.
        ways: The steps from each cell to each other one, ``FAR`` where there is no way. Shape:
            (cells, cells), int32.
    """

    width: int
    height: int
    cells: npt.NDArray[np.int32]
    next: npt.NDArray[np.int32]
    shelves: npt.NDArray[np.int32]
    stations: npt.NDArray[np.int32]
    chargers: npt.NDArray[np.int32]
    ways: npt.NDArray[np.int32]


def make_floor_plan(aisles: int, shelves: int, stations: int, chargers: int) -> FloorPlan:
    """Aisles from bottom to top between shelves, one way up and down by turns, and two ways across.

    Args:
        aisles: Number of aisles, at least 2, because each is one-way.
        shelves: The length of an aisle in cells.
        stations: Along the lower edge, from the left.
        chargers: Along the upper edge, from the left.

    Raises:
        SettingError: A number out of range, stations or chargers for which there is no room, or
            too many cells.
    """
    aisles = check_whole("aisles", aisles, 2, 100)
    shelves = check_whole("shelves", shelves, 1, 200)
    stations = check_whole("stations", stations, 1, 100)
    chargers = check_whole("chargers", chargers, 1, 100)
    width, height = 3 * aisles - 1, shelves + 4
    if max(stations, chargers) > width:
        raise SettingError(
            "there is no room for so many stations or chargers",
            expected=f"at most {width} along an edge of {aisles} aisles",
            received=f"{counted(stations, 'station')}, {counted(chargers, 'charger')}",
            about="stations chargers aisles",
        )
    # Row 0 holds stations, row 1 and the one below the chargers are ways across.
    floor = {(x, y) for x in range(width) for y in (1, height - 2)}
    floor |= {(3 * i + (i % 2), y) for i in range(aisles) for y in range(2, height - 2)}
    at = [(round((i + 0.5) * width / stations - 0.5), 0) for i in range(stations)]
    up = [(round((i + 0.5) * width / chargers - 0.5), height - 1) for i in range(chargers)]
    floor |= set(at) | set(up)
    cells = sorted(floor, key=lambda cell: (cell[1], cell[0]))
    if len(cells) > MOST_CELLS:
        raise SettingError(
            "the warehouse is too large",
            expected=f"at most {MOST_CELLS:,} cells",
            received=f"{len(cells):,}",
            about="aisles shelves",
        )
    number = {cell: i for i, cell in enumerate(cells)}
    following = np.full((len(cells), 4), -1, np.int32)
    beside = []
    for i, (x, y) in enumerate(cells):
        steps = [(1, 0), (-1, 0), (0, 1), (0, -1)]
        if 2 <= y < height - 2:
            beside.append(i)
            steps = [(0, 1 if _aisle(x) % 2 == 0 else -1)]
        for k, (dx, dy) in enumerate(steps):
            there = (x + dx, y + dy)
            if there not in number:
                continue
            # Into an aisle only at its beginning.
            enters = 2 <= there[1] < height - 2 and y in (1, height - 2)
            if enters and (dy > 0) != (_aisle(there[0]) % 2 == 0):
                continue
            following[i, k] = number[there]
    return FloorPlan(
        width,
        height,
        np.array(cells, np.int32),
        following,
        np.array(beside, np.int32),
        np.array([number[cell] for cell in at], np.int32),
        np.array([number[cell] for cell in up], np.int32),
        _ways(following),
    )


def _aisle(x: int) -> int:
    return (x + 1) // 3


def _ways(following: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the steps between all cells, by breadth-first search from each."""
    count = len(following)
    onward = [[int(there) for there in row if there >= 0] for row in following]
    ways = np.full((count, count), FAR, np.int32)
    for start in range(count):
        ways[start, start] = 0
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for there in onward[here]:
                if ways[start, there] == FAR:
                    ways[start, there] = ways[start, here] + 1
                    queue.append(there)
    return ways
