"""Space on the map: ground, obstacles and visibility."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import ALIVE, GRID, KIND, NEXT, SIZE, VISION, WALLED, WALLS, X, Y, called, slots_of

__all__ = ["WAYS", "can_pass", "cell_of", "enter", "is_ground", "leave", "sees", "single"]


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
