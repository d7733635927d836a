"""Paths of units: straight on, or by the cells that A* finds. Each plan is kept for ten ticks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from entity_env.rows.jit import with_arrays

from .arrays import PLAN_LIST, PLANS, SIZE, SLOTS, TICK, WALLED, X, Y, called
from .rules import PLAN_ROOM, PLAN_TICKS
from .space import WAYS, can_pass, cell_of, is_ground

__all__ = ["passes_straight", "waypoint"]

MOST_EXPANSIONS = 1000
SAMPLE = 0.1
"""The distance between the points at which a straight line is tested."""
NEAR = 1.0
"""Between walls only bodies within this squared distance block a plan."""


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
    """Return True if a planned way of a unit may lead over a point.

    Bodies block at any distance. With walls, those farther away than ``NEAR`` do not count, because
    otherwise a unit in a corridor would close it to all behind.
    """
    dx, dy = x - w.places[i, X], y - w.places[i, Y]
    if w.numbers[WALLED] and dx * dx + dy * dy >= NEAR:
        return is_ground(w, x, y)
    return can_pass(w, x, y, i)


@called
def passes_straight(w: Any, i: int, x: float, y: float) -> bool:
    """Return True if no wall and no body is on the line from a unit to a point of the map.

    The cells of the unit and of the point do not count: the unit stands in one, and what it heads
    for, a base or a resource, in the other.
    """
    from_x, from_y = w.places[i, X], w.places[i, Y]
    dx, dy = x - from_x, y - from_y
    count = int(math.sqrt(dx * dx + dy * dy) / SAMPLE) + 1
    start, goal = cell_of(w, from_x, from_y), cell_of(w, x, y)
    for step in range(1, count):
        at_x, at_y = from_x + dx * step / count, from_y + dy * step / count
        cell = cell_of(w, at_x, at_y)
        if cell != start and cell != goal and not _is_open(w, i, at_x, at_y):
            return False
    return True


@with_arrays
def _around(w: Any, i: int, start: int, goal: int) -> int:
    """Return the farthest cell in sight of a shortest way, by A*; -1: there is none.

    Four neighbours in the order left, right, up, down; of cells with the same estimate the one that
    was found first is looked at first, so that the queue is a heap of both. Nothing blocks
    ``goal``.
    """
    size = w.numbers[SIZE]
    cells = size * size
    goal_x, goal_y = goal % size, goal // size
    came, cost = np.full(cells, -1, np.int32), np.full(cells, cells, np.int32)
    closed = np.zeros(cells, np.bool_)
    estimates, queued = np.empty(4 * cells + 4), np.empty(4 * cells + 4, np.int32)
    heap = np.empty(4 * cells + 4, np.int32)
    estimates[0], queued[0], heap[0] = 0.0, start, 0
    count, found, reached = 1, 1, False
    cost[start] = 0
    for _ in range(MOST_EXPANSIONS):
        cell = -1
        while count > 0:
            cell = queued[heap[0]]
            count -= 1
            heap[0] = heap[count]
            _sink(heap, count, estimates)
            if not closed[cell]:
                break
            cell = -1
        if cell < 0:
            return -1
        if cell == goal:
            reached = True
            break
        closed[cell] = True
        for way in range(4):
            x, y = cell % size + WAYS[way, 0], cell // size + WAYS[way, 1]
            if x < 0 or y < 0 or x >= size or y >= size:
                continue
            near = y * size + x
            if closed[near] or cost[near] <= cost[cell] + 1:
                continue
            if near != goal and not _is_open(w, i, float(x), float(y)):
                continue
            came[near], cost[near] = cell, cost[cell] + 1
            dx, dy = x - goal_x, y - goal_y
            estimates[found] = cost[near] + math.sqrt(float(dx * dx + dy * dy))
            queued[found] = near
            heap[count] = found
            _rise(heap, count, estimates)
            count += 1
            found += 1
    if not reached:
        return -1
    cell, last = goal, -1
    while came[cell] >= 0:
        if passes_straight(w, i, float(cell % size), float(cell // size)):
            return cell
        last, cell = cell, came[cell]
    return last


@called
def _before(a: int, b: int, estimates: Any) -> bool:
    return estimates[a] < estimates[b] or (estimates[a] == estimates[b] and a < b)


@called
def _rise(heap: Any, at: int, estimates: Any) -> None:
    while at > 0:
        above = (at - 1) // 2
        if not _before(heap[at], heap[above], estimates):
            return
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@called
def _sink(heap: Any, count: int, estimates: Any) -> None:
    at = 0
    while True:
        least = at
        for below in (2 * at + 1, 2 * at + 2):
            if below < count and _before(heap[below], heap[least], estimates):
                least = below
        if least == at:
            return
        heap[at], heap[least] = heap[least], heap[at]
        at = least
