"""Positions on the map: ground, obstacles, visibility, and the paths of units."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from entity_env.rows.jit import with_arrays

from .arrays import (
    ALIVE,
    GRID,
    KIND,
    NEXT,
    PLAN_LIST,
    PLANS,
    SIZE,
    SLOTS,
    TICK,
    VISION,
    WALLED,
    WALLS,
    X,
    Y,
    called,
    slots_of,
)
from .rules import PLAN_ROOM, PLAN_TICKS

__all__ = [
    "WAYS",
    "can_pass",
    "cell_of",
    "enter",
    "is_ground",
    "leave",
    "passes_straight",
    "sees",
    "single",
    "waypoint",
]


WAYS = np.array([(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)])
"""Steps (x, y) to the cells around another one: left, right, up, down, and four corners."""


@called
def single(number: float) -> float:
    """Round a number to single precision."""
    return float(np.float32(number))


@called
def cell_of(w: Any, x: float, y: float) -> int:
    """Return the number of the cell of a point."""
    return int(y + 0.5) * w.numbers[SIZE] + int(x + 0.5)


@called
def is_ground(w: Any, x: float, y: float) -> bool:
    """Return True if a point is on the map, where units can go."""
    size = w.numbers[SIZE]
    if not (x > -0.5 and y > -0.5):
        return False
    column, row = int(x + 0.5), int(y + 0.5)
    if column >= size or row >= size:
        return False
    return w.numbers[WALLED] == 0 or w.numbers[WALLS + row * size + column] == 0


@called
def can_pass(w: Any, x: float, y: float, me: int) -> bool:
    """Return True if unit ``me``, or with -1 a new one, can be at a point.

    A unit nearer than 0.5 is in one of the four cells that a square of this reach touches.
    """
    if not is_ground(w, x, y):
        return False
    size = w.numbers[SIZE]
    last_column, last_row = min(int(x + 1.0), size - 1), min(int(y + 1.0), size - 1)
    for row in range(int(y), last_row + 1):
        for column in range(int(x), last_column + 1):
            i = w.numbers[GRID + row * size + column]
            while i >= 0:
                if i != me:
                    dx, dy = w.places[i, X] - x, w.places[i, Y] - y
                    if dx * dx + dy * dy < 0.25:
                        return False
                i = w.units[i, NEXT]
    return True


@called
def enter(w: Any, i: int) -> None:
    """Add a unit to the list of its cell."""
    cell = cell_of(w, w.places[i, X], w.places[i, Y])
    w.units[i, NEXT] = w.numbers[GRID + cell]
    w.numbers[GRID + cell] = i


@called
def leave(w: Any, i: int) -> None:
    """Take a unit out of the list of its cell."""
    cell = cell_of(w, w.places[i, X], w.places[i, Y])
    at = w.numbers[GRID + cell]
    if at == i:
        w.numbers[GRID + cell] = w.units[i, NEXT]
        return
    while w.units[at, NEXT] != i:
        at = w.units[at, NEXT]
    w.units[at, NEXT] = w.units[i, NEXT]


@called
def sees(w: Any, kinds: Any, player: int, x: float, y: float) -> bool:
    """Return True if the cell of a point is visible to a player."""
    column, row = int(x + 0.5), int(y + 0.5)
    for i in slots_of(w, player):
        if w.units[i, ALIVE]:
            across = abs(int(w.places[i, X] + 0.5) - column)
            down = abs(int(w.places[i, Y] + 0.5) - row)
            if across + down <= kinds[w.units[i, KIND], VISION]:
                return True
    return False


MOST_EXPANSIONS = 1000
SAMPLE = 0.1
"""The distance between the points at which a straight line is tested."""
NEAR, NEAR_IN_CORRIDORS = 4.0, 2.25
"""Bodies block only those points of a plan that are within this squared distance of the mover; less
between walls, because a unit in a corridor would close it to all behind it."""


@called
def waypoint(w: Any, i: int, x: float, y: float) -> int:
    """Return the cell that unit ``i`` heads for, or -1: straight to the target."""
    size, tick = w.numbers[SIZE], w.numbers[TICK]
    player = i // w.numbers[SLOTS]
    start, goal = cell_of(w, w.places[i, X], w.places[i, Y]), cell_of(w, x, y)
    key, kept = start * size * size + goal, w.numbers[PLANS + player]
    for back in range(1, min(kept, PLAN_ROOM) + 1):
        at = PLAN_LIST + 3 * (player * PLAN_ROOM + (kept - back) % PLAN_ROOM)
        if tick - w.numbers[at + 1] >= PLAN_TICKS:
            break
        if w.numbers[at] == key:
            return w.numbers[at + 2]
    cell = -1
    if not passes_straight(w, i, x, y):
        cell = _around(w, i, start, goal)
    at = PLAN_LIST + 3 * (player * PLAN_ROOM + kept % PLAN_ROOM)
    w.numbers[at], w.numbers[at + 1], w.numbers[at + 2] = key, tick, cell
    w.numbers[PLANS + player] = kept + 1
    return cell


@called
def _is_open(w: Any, i: int, x: float, y: float) -> bool:
    """Return True if a planned way of a unit may lead over a point."""
    dx, dy = x - w.places[i, X], y - w.places[i, Y]
    near = NEAR_IN_CORRIDORS if w.numbers[WALLED] else NEAR
    return can_pass(w, x, y, i) if dx * dx + dy * dy < near else is_ground(w, x, y)


@called
def passes_straight(w: Any, i: int, x: float, y: float) -> bool:
    """Return True if no wall and no near body is on the line from a unit to a point of the map.

    The first sample in each cell is tested. The cells of the unit and of the point do not count:
    the unit stands in one, and its destination, a base or a resource, in the other.
    """
    from_x, from_y = w.places[i, X], w.places[i, Y]
    dx, dy = x - from_x, y - from_y
    count = int(math.sqrt(dx * dx + dy * dy) / SAMPLE) + 1
    goal, before = cell_of(w, x, y), cell_of(w, from_x, from_y)
    for step in range(1, count):
        at_x, at_y = from_x + dx * step / count, from_y + dy * step / count
        cell = cell_of(w, at_x, at_y)
        if cell == goal:
            return True
        if cell != before and not _is_open(w, i, at_x, at_y):
            return False
        before = cell
    return True


@with_arrays
def _around(w: Any, i: int, start: int, goal: int) -> int:
    """Return the farthest cell of a way by A* to which a unit can go straight; -1: there is none.

    Of cells with the same estimate the one with the smaller cost comes first, then the one with the
    larger number. As in the original engine, the first way that is found to a cell is kept, even if
    another one is shorter. Nothing blocks ``goal``.
    """
    size = w.numbers[SIZE]
    cells = size * size
    came, cost = np.full(cells, -1, np.int32), np.full(cells, -1, np.int32)
    estimates, heap = np.zeros(cells), np.empty(cells, np.int32)
    heap[0], cost[start], count = start, 0, 1
    for _ in range(MOST_EXPANSIONS):
        if count == 0:
            return -1
        cell = heap[0]
        if cell == goal:
            break
        count -= 1
        heap[0] = heap[count]
        _sink(heap, count, estimates, cost)
        for way in range(4):
            x, y = cell % size + WAYS[way, 0], cell // size + WAYS[way, 1]
            if x < 0 or y < 0 or x >= size or y >= size:
                continue
            near = y * size + x
            if cost[near] >= 0 or (near != goal and not _is_open(w, i, float(x), float(y))):
                continue
            came[near], cost[near] = cell, cost[cell] + 1
            dx, dy = x - goal % size, y - goal // size
            estimates[near] = cost[near] + math.sqrt(float(dx * dx + dy * dy))
            heap[count] = near
            _rise(heap, count, estimates, cost)
            count += 1
    if count == 0 or heap[0] != goal:
        return -1
    cell = goal
    while cell != start:
        if passes_straight(w, i, float(cell % size), float(cell // size)):
            return cell
        cell = came[cell]
    return -1


@called
def _before(a: int, b: int, estimates: Any, cost: Any) -> bool:
    """Return True if cell ``a`` is expanded before cell ``b``."""
    if estimates[a] != estimates[b]:
        return estimates[a] < estimates[b]
    return cost[a] < cost[b] or (cost[a] == cost[b] and a > b)


@called
def _rise(heap: Any, at: int, estimates: Any, cost: Any) -> None:
    while at > 0:
        above = (at - 1) // 2
        if not _before(heap[at], heap[above], estimates, cost):
            return
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@called
def _sink(heap: Any, count: int, estimates: Any, cost: Any) -> None:
    at = 0
    while True:
        least = at
        for below in (2 * at + 1, 2 * at + 2):
            if below < count and _before(heap[below], heap[least], estimates, cost):
                least = below
        if least == at:
            return
        heap[at], heap[least] = heap[least], heap[at]
        at = least
