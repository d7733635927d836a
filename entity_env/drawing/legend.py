"""Legends: the marks of a picture, each with its meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from entity_env.drawing.canvas import Canvas, Color, Picture, Shape

__all__ = ["Sign", "add_legend", "draw_sign"]

Mark: TypeAlias = Shape | Literal["box", "line", "arrow", "text"]
_INK: Color = (38, 46, 60)
_WHITE: Color = (255, 255, 255)


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
    """

    meaning: str
    color: Color = _INK
    mark: Mark = "circle"
    letter: str = ""
    edge: Color | None = None
    hollow: bool = False


def add_legend(picture: Picture, signs: Sequence[Sign], size: float = 12.0) -> Picture:
    """Return the picture with a legend below, in as many lines as its width needs.

    Legends with the same signs have the same size, so that all pictures of an episode have the same
    size. A picture that is narrower than the longest meaning gets a white margin on the right.

    Args:
        picture: Shape: (H, W, 3), uint8.
        signs: The marks and their meanings; without any, the picture is not changed.
        size: The height of the text in pixels.

    Returns:
        The picture, at least as wide and high. Shape: (H, W, 3), uint8.
    """
    if not signs:
        return picture
    ruler, margin, step = Canvas(1, 1), 0.6 * size, 1.6 * size
    widths = [sign_width(ruler, sign, size) for sign in signs]
    width = max(picture.shape[1], int(max(widths) + 2 * margin) + 1)
    places, x, line = [], margin, 0
    for own in widths:
        if x > margin and x + own > width - margin:
            x, line = margin, line + 1
        places.append((x, line))
        x += own + 1.2 * size
    canvas = Canvas(width, round((line + 1) * step + margin))
    for sign, (left, row) in zip(signs, places, strict=True):
        draw_sign(canvas, left, (row + 0.5) * step + margin / 2, sign, size)
    sides = ((0, 0), (0, width - picture.shape[1]), (0, 0))
    return np.concatenate([np.pad(picture, sides, constant_values=255), canvas.picture()])


def draw_sign(canvas: Canvas, left: float, y: float, sign: Sign, size: float) -> None:
    """Draw a mark and its meaning at the height ``y``, in text of this size."""
    across = _mark_width(canvas, sign, size)
    x, half = left + across / 2, 0.46 * size
    if sign.mark == "box":
        canvas.box(left, y - half, left + across, y + half, sign.color)
    elif sign.mark == "line":
        canvas.box(left, y - 1, left + across, y + 1, sign.color)
    elif sign.mark == "arrow":
        canvas.arrow(complex(left, y), complex(left + across, y), 2, sign.color, head=0.6 * size)
    elif sign.mark != "text":
        edge = sign.edge or sign.color
        canvas.dot(x, y, half, sign.color, sign.mark, edge=edge, hollow=sign.hollow)
    if sign.letter:
        on_ground = sign.mark == "text" or sign.hollow
        ink = sign.color if on_ground else text_color(sign.color)
        canvas.text(x, y, sign.letter, size * (1 if on_ground else 0.75), ink, "mm")
    canvas.text(left + across + 0.5 * size, y, sign.meaning, size, _INK)


def sign_width(canvas: Canvas, sign: Sign, size: float) -> float:
    """Return the width in pixels of a mark with its meaning."""
    return _mark_width(canvas, sign, size) + 0.5 * size + canvas.text_width(sign.meaning, size)


def text_color(ground: Color) -> Color:
    """Return a color of text that can be read on ``ground``."""
    brightness = 0.299 * ground[0] + 0.587 * ground[1] + 0.114 * ground[2]
    return _INK if brightness > 150 else _WHITE


def _mark_width(canvas: Canvas, sign: Sign, size: float) -> float:
    if sign.mark == "text":
        return canvas.text_width(sign.letter, size)
    return size * (1.6 if sign.mark in ("line", "arrow", "box") else 0.92)
