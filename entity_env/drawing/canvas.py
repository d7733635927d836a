"""A canvas on which Pillow paints scenes, and shapes one by one."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.drawing.scene import (
    INK,
    Arrows,
    Color,
    Marks,
    Numbers,
    Scene,
    Shape,
    Words,
    rgb,
    text_width,
)
from entity_env.errors import MissingPackageError, SettingError, shorten

__all__ = ["Canvas", "Color", "Picture", "Shape"]

Picture: TypeAlias = npt.NDArray[np.uint8]
"""Shape: (H, W, 3)."""

_FINER = 2
"""The factor of oversampling, for smooth edges and text."""


class Canvas:
    """A picture; positions and lengths are pixels from the upper left corner.

    Args:
        width: Width of the picture.
        height: Height of the picture.

    Raises:
        MissingPackageError: Pillow is not installed.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        pillow = _pillow()
        self._image = pillow.Image.new("RGB", (width * _FINER, height * _FINER), "white")
        self._draw = pillow.ImageDraw.Draw(self._image)
        self._blend = pillow.ImageDraw.Draw(self._image, "RGBA")  # several times as slow

    def picture(self) -> Picture:
        """Return the picture. Shape: (height, width, 3)."""
        return np.array(self._image.reduce(_FINER), np.uint8)

    def box(self, left: float, top: float, right: float, bottom: float, fill: Color) -> None:
        """Draw a filled rectangle, or a line as a thin one."""
        x, y = [(left + right) / 2], [(top + bottom) / 2]
        wide, tall = [abs(right - left) / 2], [abs(bottom - top) / 2]
        self._paint(Marks("box", x, y, wide, tall, fill))

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
        fill, outline = ("card", color) if hollow else (color, edge)
        line = radius * 0.14 + 0.2
        self._paint(Marks(shape, [x], [y], [radius], None, fill, outline, line))

    def arrow(
        self, start: complex, end: complex, width: float, color: Color, *, head: float
    ) -> None:
        """Draw a line between points (x + y i), with a head of this length at its end."""
        self._paint(Arrows([start.real], [start.imag], [end.real], [end.imag], color, width, head))

    def ring(self, x: float, y: float, radius: float, width: float, color: Color) -> None:
        """Draw a circle that is not filled."""
        self._paint(Marks("circle", [x], [y], [radius], None, None, color, width))

    def text(
        self, x: float, y: float, text: str, size: float, color: Color = INK, anchor: str = "lm"
    ) -> None:
        """Draw one line of text; see ``Words``."""
        self._paint(Words([x], [y], [text], size, color, anchor))

    def shortened(self, text: str, size: float, width: float) -> str:
        """Return the text, cut to a width."""
        if text_width(text, size) <= width:
            return text
        while text and text_width(text + "...", size) > width:
            text = text[:-1]
        return text + "..."

    def scene(self, scene: Scene, left: float, top: float, scale: float) -> None:
        """Draw a scene, with so many pixels for a unit of it."""
        for shape in scene.shapes:
            self._paint(shape, left, top, scale)

    def _paint(
        self, shape: Marks | Arrows | Words, left: float = 0.0, top: float = 0.0, scale: float = 1.0
    ) -> None:
        """Draw shapes of one look."""
        left, top, scale = left * _FINER, top * _FINER, scale * _FINER
        x, y = _scaled(shape.x, scale, left), _scaled(shape.y, scale, top)
        if isinstance(shape, Marks):
            self._marks(shape, x, y, scale)
        elif isinstance(shape, Words):
            self._words(shape, x, y, scale)
        else:
            to_x, to_y = _scaled(shape.to_x, scale, left), _scaled(shape.to_y, scale, top)
            for a, b, c, d in zip(x, y, to_x, to_y, strict=True):
                self._arrow(shape, complex(a, b), complex(c, d), scale)

    def _marks(self, shape: Marks, x: list[float], y: list[float], scale: float) -> None:
        wide = _scaled(shape.size, scale)
        tall = wide if shape.tall is None else _scaled(shape.tall, scale)
        alpha = () if shape.alpha >= 1 else (round(255 * shape.alpha),)
        fill = None if shape.fill is None else (*_numbers(shape.fill), *alpha)
        edge = None if shape.edge is None else (*_numbers(shape.edge), *alpha)
        draw = self._blend if alpha else self._draw
        line = max(1, round(shape.line * scale)) if edge else 0
        marks = zip(x, y, wide, tall, strict=True)
        if shape.shape == "box":
            for mark in marks:
                draw.rectangle(_corners(*mark), fill, edge, line)
        elif shape.shape == "square":
            for across, down, a, b in marks:
                box = (across - 0.86 * a, down - 0.86 * b, across + 0.86 * a, down + 0.86 * b)
                draw.rounded_rectangle(box, 0.2 * min(a, b), fill, edge, line)
        elif shape.shape == "ring":
            for across, down, a, b in marks:
                box = (across - a, down - b, across + a, down + b)
                draw.ellipse(box, None, fill or edge, max(1, round(0.3 * a)))
        elif shape.shape == "circle":
            for across, down, a, b in marks:
                box = (across - a, down - b, across + a, down + b)
                draw.ellipse(box, fill, edge, line)
        elif shape.shape == "cross":
            for across, down, a, b in marks:
                for way in (1, -1):
                    ends = (across - a, down - way * b, across + a, down + way * b)
                    draw.line(ends, fill or edge, max(1, round(0.34 * a)))
        else:
            corners = _CORNERS[shape.shape]
            for across, down, a, b in marks:
                points = [(across + u * a, down + v * b) for u, v in corners]
                draw.polygon(points, fill, edge, line)

    def _arrow(self, arrows: Arrows, start: complex, end: complex, scale: float) -> None:
        color, head = _numbers(arrows.color), arrows.head * scale
        length = abs(end - start)
        if length < head:  # draw the head only
            start = end - head * (end - start) / length if length else end - head
        along = (end - start) / (abs(end - start) or 1.0)
        neck = end - head * along
        line = [(p.real, p.imag) for p in (start, neck)]
        self._draw.line(line, color, max(1, round(arrows.line * scale)))
        if head:
            corners = (end, neck + 0.45j * head * along, neck - 0.45j * head * along)
            self._draw.polygon([(p.real, p.imag) for p in corners], color)

    def _words(self, words: Words, x: list[float], y: list[float], scale: float) -> None:
        font, color = _font(round(words.size * scale)), _numbers(words.color)
        for text, across, down in zip(words.text, x, y, strict=True):
            self._draw.text(
                (across, down),
                text,
                fill=color,
                font=font,
                anchor=words.anchor,
                stroke_width=round(words.halo * scale),
                stroke_fill="white",
            )


_CORNERS = {
    "diamond": ((0.0, -1.15), (1.15, 0.0), (0.0, 1.15), (-1.15, 0.0)),
    "hexagon": tuple(
        (float(np.sin(k * np.pi / 3)), float(np.cos(k * np.pi / 3))) for k in range(6)
    ),
}
"""The corners of shapes of size 1 around the origin."""


def _scaled(values: Numbers, scale: float, start: float = 0.0) -> list[float]:
    """Return lengths in pixels, or positions from a start on."""
    if isinstance(values, np.ndarray):
        return (start + values.astype(np.float64) * scale).tolist()  # type: ignore[no-any-return]
    return [start + value * scale for value in values]


def _corners(x: float, y: float, wide: float, tall: float) -> tuple[float, ...]:
    """Return a box in whole pixels, so that boxes beside each other touch."""
    left, top, right, bottom = (round(v) for v in (x - wide, y - tall, x + wide, y + tall))
    return left, top, max(left, right - 1), max(top, bottom - 1)


def _numbers(color: Color) -> tuple[int, int, int]:
    """Return red, green and blue."""
    found = rgb(color)
    if isinstance(found, str):
        try:
            found = _pillow().ImageColor.getrgb(found)[:3]
        except ValueError:
            raise SettingError(
                f"unknown colour {shorten(color)}", expected="such as #d04040, or a name of CSS"
            ) from None
    return found


@functools.cache
def _pillow() -> Any:
    try:
        import PIL
        import PIL.Image
        import PIL.ImageColor
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
