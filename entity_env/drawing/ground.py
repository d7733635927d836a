"""The ground of a scene: the visible part of the plane, its cells or round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.drawing.plane import Extent, nice_step
from entity_env.drawing.scene import SOFT, Arrows, Marks, Words

__all__ = ["Ground"]

_PARTS = 22
"""Number of units, such as the height of a line of text, along the longer side of the plane."""


@dataclass(frozen=True)
class Ground:
    """The visible part of the plane, and its place in a scene in the game's own unit of length.

    Args:
        extent: The visible part, up to the edge of the ground.
        turn: -1 if greater y are further up, 1 if they are further down.
        is_board: True if entities stand in cells, which reach half a unit from whole numbers.
        is_plain: True to draw nothing below the entities, because they fill their cells.
    """

    extent: Extent
    turn: float
    is_board: bool
    is_plain: bool

    @property
    def unit(self) -> float:
        """The unit of length for text, lines and margins."""
        return self.side / _PARTS

    @property
    def side(self) -> float:
        """The longer side of the visible part."""
        return self.extent.side

    @property
    def plane(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the visible part in the scene."""
        left, top = (0.4, 0.4) if self.is_plain else (2.2, 0.6)
        left, top, e = left * self.unit, top * self.unit, self.extent
        return left, top, left + e.right - e.left, top + e.top - e.bottom

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the scene."""
        _, _, right, bottom = self.plane
        return right + 0.6 * self.unit, bottom + (0.4 if self.is_plain else 1.7) * self.unit

    def x(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return horizontal places in the scene."""
        return self.plane[0] + (values - self.extent.left)

    def y(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return vertical places in the scene."""
        from_top = self.extent.top - values if self.turn < 0 else values - self.extent.bottom
        return self.plane[1] + from_top

    def contains(self, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return True for places in the scene that are on the ground."""
        left, top, right, bottom = self.plane
        inside: npt.NDArray[np.bool_] = (left <= x) & (x <= right) & (top <= y) & (y <= bottom)
        return inside

    def shapes(self) -> Iterator[Marks | Arrows | Words]:
        """Yield the ground with its lines and numbers."""
        if self.is_plain:
            return
        left, top, right, bottom = self.plane
        middle, half = ((left + right) / 2, (top + bottom) / 2), (right - left, bottom - top)
        box = [middle[0]], [middle[1]], [half[0] / 2], [half[1] / 2]
        yield Marks("box", *box, "ground", "grid", self.unit / 20)
        xs, columns = self._ticks(self.extent.left, self.extent.right)
        ys, rows = self._ticks(self.extent.bottom, self.extent.top)
        x, y = self.x(columns), self.y(rows)
        yield Arrows(
            np.concatenate([x, np.full(len(y), left)]),
            np.concatenate([np.full(len(x), top), y]),
            np.concatenate([x, np.full(len(y), right)]),
            np.concatenate([np.full(len(x), bottom), y]),
            "grid",
            self.unit / 20,
        )
        size, below, beside = 0.6 * self.unit, bottom + 0.35 * self.unit, left - 0.35 * self.unit
        texts = [f"{value:g}" for value in xs.tolist()]
        yield Words(self.x(xs), [below] * len(xs), texts, size, SOFT, "mt", grows=False)
        texts = [f"{value:g}" for value in ys.tolist()]
        yield Words([beside] * len(ys), self.y(ys), texts, size, SOFT, "rm", grows=False)

    def _ticks(self, low: float, high: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return round numbers between two numbers, and where the lines are: between cells."""
        step = max(nice_step(self.side, 8), 1.0 if self.is_board else 0.0)
        first = math.ceil(low / step - 1e-9)
        values = (first + np.arange(int((high - low) / step) + 2.0)) * step
        values = values[values <= high]
        return values, np.arange(low + 1.0, high - 0.5) if self.is_board else values
