"""Scenes: pictures as shapes, arrows and words, painted for films and by the viewer's page.

Positions and lengths are in units of the scene, from its upper left corner, with y down. All rules
of drawing are applied before: painting needs no knowledge of the game.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.drawing.table_text import TextBlock
from entity_env.hints import Shape

__all__ = [
    "INK",
    "SOFT",
    "Arrows",
    "Color",
    "EntityList",
    "Mark",
    "Marks",
    "Numbers",
    "Scene",
    "Shape",
    "Sign",
    "Words",
    "rgb",
    "sign_json",
    "sign_scene",
    "text_color",
    "text_width",
]

Color: TypeAlias = tuple[int, int, int] | str
"""Red, green and blue, as numbers or as ``#rrggbb``, a colour of CSS such as ``gold``, or one of
the parts of a page whose colours depend on its theme: ``ink``, ``soft``, ``ground``, ``grid``,
``card``."""
Mark: TypeAlias = Shape | Literal["line", "arrow", "text"]
Numbers: TypeAlias = Sequence[float] | npt.NDArray[Any]

INK, SOFT = "ink", "soft"
_LIGHT: dict[str, tuple[int, int, int]] = {
    "ink": (38, 46, 60),
    "soft": (120, 130, 146),
    "ground": (247, 249, 251),
    "grid": (225, 230, 237),
    "card": (255, 255, 255),
}
_WIDTHS = np.array(
    [
        *(22, 24, 34, 58, 58, 74, 65, 18, 32, 32, 56, 58, 22, 27, 22, 30),
        *(58, 58, 58, 58, 58, 58, 58, 58, 58, 58, 22, 22, 58, 58, 58, 50),
        *(85, 64, 63, 70, 71, 59, 57, 71, 73, 26, 54, 61, 58, 87, 72, 74),
        *(60, 73, 62, 58, 61, 68, 62, 95, 62, 58, 59, 31, 30, 30, 58, 50),
        *(30, 53, 61, 53, 62, 55, 29, 62, 59, 24, 23, 52, 25, 86, 59, 59),
        *(61, 62, 33, 46, 31, 59, 51, 78, 48, 51, 46, 30, 25, 30, 58),
    ]
)
"""Widths of the characters from the space to the tilde in percent of the size of a text."""


@dataclass(frozen=True)
class Marks:
    """Filled shapes of one look.

    Args:
        shape: The shape; a ``box`` has sharp corners, a ``ring`` is a thick circle.
        x: The middles. Shape: (M,).
        y: The middles. Shape: (M,).
        size: Half of the widths. Shape: (M,).
        tall: Half of the heights; None for those of ``size``. Shape: (M,).
        fill: Colour inside; None for none.
        edge: Colour of the edge; None for none.
        line: Width of the edge.
        alpha: The opacity, from 0 to 1.
        index: Entity indices; None if the marks are no entities. Shape: (M,).
    """

    shape: Shape
    x: Numbers
    y: Numbers
    size: Numbers
    tall: Numbers | None = None
    fill: Color | None = None
    edge: Color | None = None
    line: float = 0.0
    alpha: float = 1.0
    index: Numbers | None = None


@dataclass(frozen=True)
class Arrows:
    """Lines of one look.

    Args:
        x: The starts. Shape: (M,).
        y: The starts. Shape: (M,).
        to_x: The ends. Shape: (M,).
        to_y: The ends. Shape: (M,).
        color: The colour.
        line: The width.
        head: Length of the head at the end; 0 for lines without.
    """

    x: Numbers
    y: Numbers
    to_x: Numbers
    to_y: Numbers
    color: Color
    line: float
    head: float = 0.0


@dataclass(frozen=True)
class Words:
    """Lines of text of one look.

    Args:
        x: The anchors. Shape: (M,).
        y: The anchors. Shape: (M,).
        text: The texts, M of them.
        size: The height of the text.
        color: The colour.
        anchor: Position of the anchor in the text, as in Pillow: l, m, r across and t, m, b down.
        halo: Width of a margin in the colour of the ground around the text.
        grows: False for texts beside shapes, which need not grow with a large picture.
    """

    x: Numbers
    y: Numbers
    text: Sequence[str]
    size: float
    color: Color = INK
    anchor: str = "mm"
    halo: float = 0.0
    grows: bool = True


class Sign(NamedTuple):
    """A mark of a picture and its meaning.

    Attributes:
        meaning: The words beside the mark.
        color: The color of the mark.
        mark: A shape; ``box`` is a filled rectangle, ``line`` and ``arrow`` are drawn from left to
            right, and ``text`` is the letter alone.
        letter: The text on the mark.
        edge: The color of the edge of a shape; None is that of the mark.
        hollow: True to draw a shape white inside.
        value: Text at the end of the line, such as a number.
    """

    meaning: str
    color: Color = INK
    mark: Mark = "circle"
    letter: str = ""
    edge: Color | None = None
    hollow: bool = False
    value: str = ""


class EntityList(NamedTuple):
    """The entities of a type without places.

    Attributes:
        sign: The mark of the type, its name and the number of entities.
        block: The entities as text.
        are_cards: True for few entities with few features, which are best shown side by side.
    """

    sign: Sign
    block: TextBlock
    are_cards: bool


@dataclass(frozen=True)
class Scene:
    """A picture of a frame.

    Args:
        width: The width.
        height: The height.
        shapes: The shapes, those behind first.
        legend: The meanings of the shapes.
        lists: The entities without places.
    """

    width: float
    height: float
    shapes: Sequence[Marks | Arrows | Words] = ()
    legend: Sequence[Sign] = ()
    lists: Sequence[EntityList] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the scene as JSON with arrays, as in ``entity_env.viewer.messages``."""
        return {
            "width": self.width,
            "height": self.height,
            "shapes": [_shape_json(shape) for shape in self.shapes],
            "legend": [sign_json(sign) for sign in self.legend],
            "lists": [
                {
                    "sign": sign_json(sign),
                    "are_cards": are_cards,
                    "first": int(block.labels[0][0]) if block.labels else 0,
                    "count": block.count,
                    "header": block.header,
                    "cells": block.cells,
                    "hidden": block.hidden,
                }
                for sign, block, are_cards in self.lists
            ],
        }


def sign_scene(sign: Sign) -> Scene:
    """Return the mark of a sign as a scene of height 1."""
    width = 1.6 if sign.mark in ("line", "arrow", "box") else 1.0
    if sign.mark == "text":
        width = text_width(sign.letter, 1.0)
    x, y = [width / 2], [0.5]
    shapes: list[Marks | Arrows | Words] = []
    if sign.mark == "box":
        shapes.append(Marks("box", x, y, x, [0.46], sign.color))
    elif sign.mark == "line" or sign.mark == "arrow":
        head = 0.6 if sign.mark == "arrow" else 0.0
        shapes.append(Arrows([0.0], y, [width], y, sign.color, 0.17, head))
    elif sign.mark != "text":
        fill, edge = ("card", sign.color) if sign.hollow else (sign.color, sign.edge)
        size = [0.4 if sign.mark == "diamond" else 0.44]
        shapes.append(Marks(sign.mark, x, y, size, None, fill, edge or sign.color, 0.1))
    if sign.letter:
        on_ground = sign.mark == "text" or sign.hollow
        ink = sign.color if on_ground else text_color(sign.color)
        shapes.append(Words(x, y, [sign.letter], 1.0 if on_ground else 0.7, ink))
    return Scene(width, 1.0, shapes)


def sign_json(sign: Sign) -> dict[str, Any]:
    """Return a sign as JSON: its mark, its meaning and its value."""
    mark = sign_scene(sign)
    shapes = [_shape_json(shape) for shape in mark.shapes]
    return {"meaning": sign.meaning, "value": sign.value, "width": mark.width, "shapes": shapes}


def rgb(color: Color) -> tuple[int, int, int] | str:
    """Return a colour as numbers, or the name of a colour of CSS."""
    if not isinstance(color, str):
        return color
    if color in _LIGHT:
        return _LIGHT[color]
    digits = color[1:] if len(color) == 7 else "".join(2 * part for part in color[1:])
    try:
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    except ValueError:
        return color


def text_color(ground: Color) -> Color:
    """Return a color of text that can be read on ``ground``."""
    numbers = rgb(ground)
    red, green, blue = (0, 0, 0) if isinstance(numbers, str) else numbers
    return _LIGHT["ink"] if 0.299 * red + 0.587 * green + 0.114 * blue > 150 else (255, 255, 255)


def text_width(text: str, size: float) -> float:
    """Return the width of a line of text, of about the font of Pillow."""
    codes = np.array([ord(character) for character in text], np.int64) - 32
    is_known = (codes >= 0) & (codes < len(_WIDTHS))
    widths = np.where(is_known, _WIDTHS[np.where(is_known, codes, 0)], 62)
    return float(np.where(codes > 4000, 100, widths).sum()) * size / 100


def _shape_json(shape: Marks | Arrows | Words) -> dict[str, Any]:
    """Return shapes of one look as JSON with arrays."""
    found: dict[str, Any] = {"kind": type(shape).__name__}
    for field in fields(shape):
        value = getattr(shape, field.name)
        if field.name in ("fill", "edge", "color"):
            value = _css(value)
        elif field.name in ("x", "y", "size", "tall", "to_x", "to_y") and not np.isscalar(value):
            value = None if value is None else np.asarray(value, np.float32)
        elif field.name == "index" and value is not None:
            value = np.asarray(value, np.int32)
        found[field.name] = value
    return found


def _css(color: Color | None) -> str | None:
    return (
        color if color is None or isinstance(color, str) else "#{:02x}{:02x}{:02x}".format(*color)
    )
