"""Paths of units: straight on, or by the cells that A* finds."""

from __future__ import annotations

import heapq
import math
from typing import Any

from envs.rts.rules import PLAN_ROOM, PLAN_TICKS

__all__ = ["Planner"]

MOST_EXPANSIONS = 1000
SAMPLE = 0.1
"""The distance between the points at which a straight line is tested."""
NEAR = 1.0
"""Between walls only bodies within this squared distance block a plan."""


class Planner:
    """Plans the ways of one player's units, and keeps each plan for ten ticks."""

    def __init__(self) -> None:
        self.plans: list[tuple[int, int, int]] = []  # (start and target, tick, cell or -1)

    def waypoint(self, world: Any, unit: Any, target: tuple[float, float]) -> int:
        """Return the cell to head for, or -1: straight to the target."""
        size = world.rules.size
        start = world.cell(unit.x, unit.y)
        goal = world.cell(*target)
        key = start * size * size + goal
        for known, tick, cell in self.plans:
            if known == key and world.tick - tick < PLAN_TICKS:
                return cell
        cell = -1
        if not passes_straight(world, unit, *target):
            cell = farthest_in_sight(world, unit, path(world, unit, start, goal))
        self.plans = [(key, world.tick, cell), *self.plans][:PLAN_ROOM]
        return cell


def is_open(world: Any, unit: Any, x: float, y: float) -> bool:
    """Return whether a planned way of a unit may lead over a point.

    Bodies block at any distance. Only where there are walls do those farther away than ``NEAR`` not
    count, or whoever walks in a corridor would close it to all behind.
    """
    dx, dy = x - unit.x, y - unit.y
    if world.rules.has_walls and dx * dx + dy * dy >= NEAR:
        return world.is_ground(x, y)
    return world.can_pass(x, y, unit)


def passes_straight(world: Any, unit: Any, x: float, y: float) -> bool:
    """Return whether no wall and no body is on the line from a unit to a point.

    The cells of the unit and of the point do not count: the unit stands in one, and what it heads
    for, a base or a resource, in the other.
    """
    dx, dy = x - unit.x, y - unit.y
    count = int(math.sqrt(dx * dx + dy * dy) / SAMPLE) + 1
    ends = world.cell(unit.x, unit.y), world.cell(x, y)
    for i in range(1, count):
        at_x, at_y = unit.x + dx * i / count, unit.y + dy * i / count
        if world.cell(at_x, at_y) not in ends and not is_open(world, unit, at_x, at_y):
            return False
    return True


def path(world: Any, unit: Any, start: int, goal: int) -> list[int]:
    """Return the cells behind ``start`` on a shortest way to ``goal``, by A*; empty: there is none.

    Four neighbours in the order left, right, up, down; of cells with the same estimate the one
    that was found first is looked at first. Nothing blocks ``goal``.
    """
    size = world.rules.size
    goal_x, goal_y = goal % size, goal // size
    came, cost = {start: -1}, {start: 0}
    queue, found, closed = [(0.0, 0, start)], 1, set[int]()
    for _ in range(MOST_EXPANSIONS):
        while queue and queue[0][2] in closed:
            heapq.heappop(queue)
        if not queue:
            return []
        cell = heapq.heappop(queue)[2]
        if cell == goal:
            cells = []
            while came[cell] >= 0:
                cells.append(cell)
                cell = came[cell]
            return cells[::-1]
        closed.add(cell)
        for step_x, step_y in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            x, y = cell % size + step_x, cell // size + step_y
            if not (0 <= x < size and 0 <= y < size):
                continue
            near = y * size + x
            if near in closed or cost.get(near, size * size) <= cost[cell] + 1:
                continue
            if near != goal and not is_open(world, unit, x, y):
                continue
            came[near], cost[near] = cell, cost[cell] + 1
            dx, dy = x - goal_x, y - goal_y
            estimate = cost[near] + math.sqrt(dx * dx + dy * dy)
            heapq.heappush(queue, (estimate, found, near))
            found += 1
    return []


def farthest_in_sight(world: Any, unit: Any, cells: list[int]) -> int:
    """Return the last cell of a path on a straight line, or the first cell."""
    size = world.rules.size
    for cell in reversed(cells):
        if passes_straight(world, unit, cell % size, cell // size):
            return cell
    return cells[0] if cells else -1
