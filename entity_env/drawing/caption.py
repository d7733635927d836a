"""Lines of text under a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from entity_env.drawing.canvas import Canvas, Picture

__all__ = ["Caption"]

_LEAST_WIDTH = 280
_INK = (38, 46, 60)


class Caption:
    """A writer of lines of text under pictures of one size; small pictures are enlarged.

    Args:
        height: Height of the pictures in pixels.
        width: Width of the pictures in pixels.
    """

    def __init__(self, height: int, width: int) -> None:
        self._times = math.ceil(_LEAST_WIDTH / width) if width < _LEAST_WIDTH else 1
        self._width, self._height = width * self._times, height * self._times
        self._size = max(12.0, self._width / 48)
        self._ruler = Canvas(1, 1)

    @property
    def room(self) -> float:
        """The largest width of a line."""
        return self._width - 2 * self._size

    def measure(self, text: str) -> float:
        """Return the width of a line of text."""
        return self._ruler.text_width(text, self._size)

    def add(self, picture: Picture, lines: Sequence[str], count: int) -> Picture:
        """Return the picture with its lines, and space for ``count`` of them."""
        step = 1.5 * self._size
        canvas = Canvas(self._width, round(step * count + self._size))
        for i, line in enumerate(lines):
            text = canvas.shortened(line, self._size, self.room)
            canvas.text(self._size, (i + 0.5) * step + self._size / 2, text, self._size, _INK)
        enlarged = picture.repeat(self._times, axis=0).repeat(self._times, axis=1)
        return np.concatenate([enlarged, canvas.picture()])
