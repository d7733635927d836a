"""MineSweeper boards as pictures and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.errors import counted

__all__ = ["MineBoard", "Tile"]

Picture = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Color = tuple[int, int, int]
Tile = tuple[int, int]

LIGHT: Color = (238, 241, 245)
DARK: Color = (228, 232, 238)
LINE: Color = (205, 211, 220)
BAR: Color = (44, 52, 66)
MINE: Color = (48, 52, 60)
SPARK: Color = (232, 76, 61)
ROBOTS: tuple[Color, ...] = ((38, 114, 214), (24, 150, 118), (142, 84, 190), (214, 128, 24))
WHITE: Color = (255, 255, 255)
EYE: Color = (28, 36, 48)
READY: Color = (86, 204, 120)
WAITING: Color = (240, 178, 64)
OFF: Color = (74, 84, 102)


class MineBoard(NamedTuple):
    """A board to be written or drawn, with y up.

    Args:
        size: Width and height.
        mines: Their tiles.
        robots: Their tiles; several may share one.
        cooldowns: Of each cannon.
        period: The longest cooldown.
    """

    size: tuple[int, int]
    mines: Sequence[Tile]
    robots: Sequence[Tile]
    cooldowns: Sequence[int]
    period: int

    def draw(self, tile: int = 24) -> Picture:
        """Return a picture; with cannons it has a status bar of one tile's height.

        Shape: (height * tile, width * tile, 3), one ``tile`` more in height with the status bar.
        """
        (width, height), tile = self.size, check_whole("tile", tile, 8)
        bar = tile if self.cooldowns else 0
        picture = np.empty((height * tile + bar, width * tile, 3), np.uint8)
        picture[:bar] = BAR
        for y in range(height):
            for x in range(width):
                cell = _cell(picture, x, y, height, tile, bar)
                cell[:] = LIGHT if (x + y) % 2 else DARK
                cell[-1] = cell[:, -1] = LINE
        for x, y in self.mines:
            _draw_mine(_cell(picture, x, y, height, tile, bar))
        for shared in dict.fromkeys(self.robots):
            here = [i for i, robot in enumerate(self.robots) if robot == shared]
            x, y = shared
            _draw_robots(_cell(picture, x, y, height, tile, bar), here)
        if self.cooldowns:
            _draw_cannons(picture[:bar], self.cooldowns, self.period)
        return picture

    def text(self) -> str:
        """Return a head line with counts and cannons, then the board and its coordinates."""
        width, height = self.size
        words: dict[Tile, str] = {}
        for letter, tiles in (("M", self.mines), ("R", self.robots)):
            for i, tile in enumerate(tiles):
                words[tile] = words.get(tile, "") + f"{letter}{i}"
        column = max([2, *map(len, words.values())]) + 1
        edge = len(str(height - 1))
        head = f"{counted(len(self.mines), 'mine')}, {counted(len(self.robots), 'robot')}"
        for i, cooldown in enumerate(self.cooldowns):
            head += f", cannon {i} " + (f"ready in {cooldown}" if cooldown else "ready")
        lines = [head]
        for y in reversed(range(height)):
            row = "".join(words.get((x, y), ".").rjust(column) for x in range(width))
            lines.append(str(y).rjust(edge) + row)
        lines.append(" " * edge + "".join(str(x).rjust(column) for x in range(width)))
        return "\n".join(lines)


def _cell(picture: Picture, x: int, y: int, height: int, tile: int, bar: int) -> Picture:
    """Return the pixels of a tile, a view. Row 0 of the picture is the largest y."""
    top = bar + (height - 1 - y) * tile
    return picture[top : top + tile, x * tile : (x + 1) * tile]


def _draw_mine(cell: Picture) -> None:
    u, v = _grid(cell)
    distance, angle = np.hypot(u, v), np.arctan2(v, u)
    spikes = 0.05 - np.minimum(np.abs(np.sin(angle * 2)) * distance, 0.5)
    spikes = np.where(distance < 0.38, spikes, -1.0)
    _paint(cell, np.maximum(0.28 - distance, spikes), MINE)
    _paint(cell, 0.12 - distance, SPARK)
    _paint(cell, 0.045 - np.hypot(u + 0.12, v + 0.13), WHITE)


def _draw_robots(cell: Picture, numbers: Sequence[int]) -> None:
    """Draw the robots of one tile, side by side."""
    u, v = _grid(cell)
    shown = min(len(numbers), 3)
    scale = 1.0 if shown == 1 else 1.15 / shown
    for place, number in enumerate(numbers[:shown]):
        middle = (place - (shown - 1) / 2) * 0.9 / shown
        _draw_robot(cell, (u - middle) / scale, v / scale, ROBOTS[number % len(ROBOTS)], scale)


def _draw_robot(cell: Picture, u: Floats, v: Floats, color: Color, scale: float) -> None:
    stalk = np.minimum(0.035 - np.abs(u), 0.08 - np.abs(v + 0.32))
    _paint(cell, stalk, color, scale)
    _paint(cell, 0.07 - np.hypot(u, v + 0.38), color, scale)
    _paint(cell, _box(u, v - 0.07, 0.33, 0.29, 0.1), color, scale)
    _paint(cell, _box(u, v, 0.24, 0.11, 0.08), WHITE, scale)
    for side in (-0.11, 0.11):
        _paint(cell, 0.06 - np.hypot(u - side, v), EYE, scale)
    _paint(cell, _box(u, v - 0.24, 0.15, 0.03, 0.02), WHITE, scale)


def _draw_cannons(bar: Picture, cooldowns: Sequence[int], period: int) -> None:
    """Draw for each cannon a lamp, and a bar with the part of its cooldown that has passed."""
    size = bar.shape[0]
    room = bar.shape[1] // len(cooldowns)
    for i, cooldown in enumerate(cooldowns):
        part = bar[:, i * room : (i + 1) * room]
        lamp = part[:, : min(size, room)]
        if lamp.shape[1] < 4:
            continue
        u, v = _grid(lamp)
        color = WAITING if cooldown else READY
        _paint(lamp, 0.3 - np.hypot(u, v), color)
        _paint(lamp, 0.2 - np.hypot(u, v), BAR)
        _paint(lamp, 0.11 - np.hypot(u, v), color)
        length = room - size - size // 4
        if length < 4:
            continue
        gauge = part[size * 3 // 8 : size * 5 // 8, size : size + length]
        gauge[:] = OFF
        gauge[:, : round(length * (1 - cooldown / max(period, 1)))] = color


def _grid(cell: Picture) -> tuple[Floats, Floats]:
    """Return coordinates, -0.5 to 0.5, of each pixel's middle, v down; the last row is a line."""
    v, u = np.mgrid[: cell.shape[0], : cell.shape[1]].astype(float)
    size = cell.shape[0]
    return (u - (cell.shape[1] - 2) / 2) / size, (v - (size - 2) / 2) / size


def _box(u: Floats, v: Floats, half_width: float, half_height: float, corner: float) -> Floats:
    """Return the depth of points inside a rounded box, negative outside."""
    across, down = np.abs(u) - half_width + corner, np.abs(v) - half_height + corner
    outside = np.hypot(np.maximum(across, 0), np.maximum(down, 0))
    depth: Floats = corner - outside - np.minimum(np.maximum(across, down), 0)
    return depth


def _paint(cell: Picture, inside: Floats, color: Color, scale: float = 1.0) -> None:
    """Blend a colour where ``inside`` (in tiles) is positive, with edges one pixel soft."""
    alpha = np.clip(inside * scale * cell.shape[0] + 0.5, 0, 1)[:, :, None]
    cell[:] = np.rint(cell * (1 - alpha) + np.array(color) * alpha).astype(np.uint8)
