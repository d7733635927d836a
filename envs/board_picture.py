"""Pictures of board games, with spaces and pieces, or tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.drawing import Sign, add_legend
from entity_env.drawing.canvas import Canvas, Color

from .grid import Board

__all__ = ["Space", "Tiled", "draw_spaces", "player_signs"]

PLAYERS: tuple[Color, ...] = (
    (38, 114, 214),
    (232, 76, 61),
    (24, 150, 118),
    (214, 150, 24),
    (132, 78, 190),
    (96, 108, 122),
)
BOARD: Color = (228, 232, 238)
EMPTY: Color = (250, 251, 253)
INK: Color = (44, 52, 66)


_WIDTH = 288
"""Least width of a board of tiles in pixels, as long as nobody asks for a size."""
_TITLE = 24
"""Pixels of the line above tiles."""


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


class Tiled:
    """A game on a board of square tiles, written and drawn with y up."""

    looks: ClassVar[Mapping[str, Sign]]
    """The mark of each character of the board; those with a meaning are the legend."""

    def board(self) -> Board:
        """Return the board."""
        raise NotImplementedError

    def render_text(self) -> str:
        """Return the board as text."""
        return self.board().text()

    def render(self, cell: int | None = None, **_: Any) -> npt.NDArray[np.uint8]:
        """Return a picture of the board; shape (H, W, 3). ``cell`` are the pixels of a tile."""
        board = self.board()
        if cell is None:
            cell = max(20, math.ceil(_WIDTH / len(board.xs)))
        check_whole("cell", cell, 8, 400)
        width, height = len(board.xs) * cell, len(board.ys) * cell + _TITLE
        canvas = Canvas(width, height)
        canvas.text(6, _TITLE / 2, canvas.shortened(board.head, 12, width - 12), 12, INK)
        canvas.box(0, _TITLE, width, height, BOARD)
        for row, y in enumerate(reversed(board.ys)):
            for column, x in enumerate(board.xs):
                left, top = column * cell, row * cell + _TITLE
                canvas.box(left + 0.5, top + 0.5, left + cell - 0.5, top + cell - 0.5, EMPTY)
                if (character := board.signs.get((x, y))) is not None:
                    _draw_mark(canvas, left, top, cell, self.looks[character])
        return add_legend(canvas.picture(), [own for own in self.looks.values() if own.meaning])


def _draw_mark(canvas: Canvas, left: float, top: float, cell: int, sign: Sign) -> None:
    x, y, inset = left + cell / 2, top + cell / 2, cell * 0.1
    if sign.mark in ("circle", "square", "diamond"):
        canvas.dot(x, y, cell * 0.4, sign.color, sign.mark, edge=sign.color)
    else:
        canvas.box(left + inset, top + inset, left + cell - inset, top + cell - inset, sign.color)
    if sign.letter:
        canvas.text(x, y, sign.letter, cell * 0.45, EMPTY, anchor="mm")
