"""Pictures of board games, with spaces and pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entity_env.drawing import Sign, add_legend
from entity_env.drawing.canvas import Canvas, Color

from .errors import check_whole

__all__ = ["Space", "draw_spaces", "player_signs"]

PLAYERS: tuple[Color, ...] = ((38, 114, 214), (232, 76, 61), (24, 150, 118), (214, 150, 24))
BOARD: Color = (228, 232, 238)
EMPTY: Color = (250, 251, 253)
INK: Color = (44, 52, 66)


class Space(NamedTuple):
    """A space of a board.

    Args:
        x: Horizontal position of its middle, in spaces.
        y: Vertical position of its middle, from top to bottom.
        owner: The number of the player whose piece is on the space; -1 without a piece.
        size: Part of the space that the piece fills, above 0 and up to 1.
        text: Text on the piece.
    """

    x: float
    y: float
    owner: int = -1
    size: float = 1.0
    text: str = ""


def player_signs(names: Sequence[str], letters: str = "") -> list[Sign]:
    """Return the colors of the players with their names, and the letters of their pieces."""
    return [
        Sign(name, PLAYERS[i % len(PLAYERS)], letter=letters[i : i + 1])
        for i, name in enumerate(names)
    ]


def draw_spaces(
    spaces: Sequence[Space], title: str = "", cell: int = 48, signs: Sequence[Sign] = ()
) -> npt.NDArray[np.uint8]:
    """Draw a board.

    Args:
        spaces: All spaces of the board.
        title: A line above it.
        cell: Pixels of a space, 8 to 400.
        signs: The legend below it.

    Returns:
        The picture. Shape: (H, W, 3).
    """
    check_whole("cell", cell, 8, 400)
    columns, rows = [space.x for space in spaces], [space.y for space in spaces]
    left, right, top, bottom = min(columns), max(columns), min(rows), max(rows)
    head = cell if title else 0
    width, height = round((right - left + 1) * cell), round((bottom - top + 1) * cell) + head
    canvas = Canvas(width, height)
    canvas.box(0, 0, width, height, BOARD)
    if title:
        line = canvas.shortened(title, cell * 0.34, width - cell * 0.4)
        canvas.text(cell * 0.2, head / 2, line, cell * 0.34, INK)
    for space in spaces:
        x, y = (space.x - left + 0.5) * cell, (space.y - top + 0.5) * cell + head
        canvas.dot(x, y, cell * 0.42, EMPTY, "circle", edge=BOARD)
        if space.owner >= 0:
            color = PLAYERS[space.owner % len(PLAYERS)]
            canvas.dot(x, y, cell * 0.4 * space.size, color, "circle", edge=color)
        if space.text:
            ink = INK if space.owner < 0 else EMPTY
            canvas.text(x, y, space.text, cell * 0.34, ink, anchor="mm")
    return add_legend(canvas.picture(), signs, max(10.0, cell * 0.27))
