"""Pictures of boards of square tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.drawing import Sign, add_legend
from entity_env.drawing.canvas import Canvas, Color

from .grid import Board

__all__ = ["BOARD", "INK", "PLAYERS", "Tiled"]

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
