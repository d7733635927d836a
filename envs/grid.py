"""Boards of square tiles: moves, distances around obstacles, and text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = ["MOVES", "STEPS", "Board", "Tile", "distances", "is_on", "next_tile"]

Tile: TypeAlias = tuple[int, int]
"""x and y."""
MOVES = ("Right", "Left", "Up", "Down")
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""The change of x and y by each move."""


def is_on(tile: Tile, size: int) -> bool:
    """Return True if a tile is on the board of ``size`` x ``size`` tiles from (0, 0) on."""
    return 0 <= tile[0] < size and 0 <= tile[1] < size


def next_tile(tile: Tile, move: int) -> Tile:
    """Return the tile that a move leads to."""
    return tile[0] + STEPS[move][0], tile[1] + STEPS[move][1]


def distances(start: Tile, is_free: Callable[[Tile], bool]) -> dict[Tile, int]:
    """Return the number of moves from ``start`` to each tile that can be reached."""
    reached = {start: 0}
    waiting = deque([start])
    while waiting:
        tile = waiting.popleft()
        for move in range(len(MOVES)):
            near = next_tile(tile, move)
            if near not in reached and is_free(near):
                reached[near] = reached[tile] + 1
                waiting.append(near)
    return reached


class Board(NamedTuple):
    """A board with y up, to be written or drawn.

    Args:
        head: The line above it.
        signs: A character for each tile that is not empty.
        xs: The columns.
        ys: The rows.
    """

    head: str
    signs: Mapping[Any, str]
    xs: Sequence[int]
    ys: Sequence[int]

    def text(self) -> str:
        """Return the board as text; an empty tile is a dot."""
        rows = [" ".join(self.signs.get((x, y), ".") for x in self.xs) for y in reversed(self.ys)]
        return "\n".join([self.head, *rows])
