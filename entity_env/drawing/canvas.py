"""A canvas for pictures."""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.errors import MissingPackageError

__all__ = ["Canvas", "Color", "Picture", "Shape"]

Picture: TypeAlias = npt.NDArray[np.uint8]
"""Shape: (H, W, 3)."""
Color: TypeAlias = tuple[int, int, int]
Shape: TypeAlias = Literal["circle", "square", "diamond"]

_FINER = 2
"""The factor of oversampling, for smooth edges and text."""


class Canvas:
    """A canvas; positions and lengths are pixels from the upper left corner.

    Args:
        width: Width of the picture.
        height: Height of the picture.
    """

    def __init__(self, width: int, height: int) -> None:
        self._pillow = _pillow()
        self.width, self.height = width, height
        self._image = self._pillow.Image.new("RGB", (width * _FINER, height * _FINER), "white")
        self._draw = self._pillow.ImageDraw.Draw(self._image)

    def picture(self) -> Picture:
        """Return the picture. Shape: (height, width, 3)."""
        return np.array(self._image.reduce(_FINER), np.uint8)

    def box(self, left: float, top: float, right: float, bottom: float, fill: Color) -> None:
        """Draw a filled rectangle, or a line as a thin one."""
        corners = [round(v * _FINER) for v in (left, top, right, bottom)]
        corners[2:] = max(corners[0], corners[2] - 1), max(corners[1], corners[3] - 1)
        self._draw.rectangle(corners, fill=fill)

    def dot(
        self,
        x: float,
        y: float,
        radius: float,
        color: Color,
        shape: Shape,
        *,
        edge: Color,
        hollow: bool = False,
    ) -> None:
        """Draw a filled shape with an edge; a ``hollow`` one is white inside."""
        x, y, radius = x * _FINER, y * _FINER, radius * _FINER
        fill: Color = (255, 255, 255) if hollow else color
        outline, width = (color if hollow else edge), max(1, round(radius * 0.14 + 0.4))
        if shape == "circle":
            box = (x - radius, y - radius, x + radius, y + radius)
            self._draw.ellipse(box, fill=fill, outline=outline, width=width)
            return
        turn = {"square": (0.86, 0.86), "diamond": (0.0, 1.15)}[shape]
        corners = [complex(*turn) * 1j**quarter * radius + complex(x, y) for quarter in range(4)]
        points = [(corner.real, corner.imag) for corner in corners]
        self._draw.polygon(points, fill=fill, outline=outline, width=width)

    def arrow(
        self, start: complex, end: complex, width: float, color: Color, *, head: float
    ) -> None:
        """Draw a line between points (x + y i), with a head of this length at its end."""
        length = abs(end - start)
        if length < head:  # draw the head only
            start = end - head * (end - start) / length if length else end - head
        along = (end - start) / abs(end - start)
        neck = end - head * along
        self._draw.line(
            [(p.real * _FINER, p.imag * _FINER) for p in (start, neck)],
            fill=color,
            width=round(width * _FINER),
        )
        corners = (end, neck + 0.45j * head * along, neck - 0.45j * head * along)
        self._draw.polygon([(p.real * _FINER, p.imag * _FINER) for p in corners], fill=color)

    def ring(self, x: float, y: float, radius: float, width: float, color: Color) -> None:
        """Draw a circle that is not filled."""
        box = [v * _FINER for v in (x - radius, y - radius, x + radius, y + radius)]
        self._draw.ellipse(box, outline=color, width=round(width * _FINER))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        color: Color,
        anchor: str = "lm",
        halo: float = 0.0,
    ) -> None:
        """Draw one line of text; the anchor is Pillow's: l, m, r across and t, m, b down.

        A white ``halo`` of this many pixels separates it from the background.
        """
        font = _font(round(size * _FINER))
        self._draw.text(
            (x * _FINER, y * _FINER),
            text,
            fill=color,
            font=font,
            anchor=anchor,
            stroke_width=round(halo * _FINER),
            stroke_fill="white",
        )

    def text_width(self, text: str, size: float) -> float:
        """Return the width of a line of text."""
        return float(_font(round(size * _FINER)).getlength(text)) / _FINER

    def shortened(self, text: str, size: float, width: float) -> str:
        """Return the text, cut to a width."""
        if self.text_width(text, size) <= width:
            return text
        while text and self.text_width(text + "...", size) > width:
            text = text[:-1]
        return text + "..."


@functools.cache
def _pillow() -> Any:
    try:
        import PIL
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise MissingPackageError(
            "pictures need Pillow, which is not installed", hint="pip install pillow"
        ) from error
    return PIL


@functools.lru_cache(maxsize=64)
def _font(size: int) -> Any:
    return _pillow().ImageFont.load_default(max(size, 6))
