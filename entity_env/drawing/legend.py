"""Legends, which explain the marks of a picture, and captions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from entity_env.batching.frame import Frame
from entity_env.drawing.canvas import Canvas, Picture
from entity_env.drawing.chosen import Chosen
from entity_env.drawing.looks import Look, value_color
from entity_env.drawing.scene import INK, SOFT, Color, Mark, Sign, sign_scene, text_width
from entity_env.drawing.table_text import feature_text
from entity_env.spaces import (
    Entity,
    EntityName,
    Feature,
    ObsSpace,
    feature_name,
    num_values,
    value_names,
)

__all__ = ["Sign", "add_caption", "add_legend", "caption_columns", "draw_sign", "legend_of"]

_LEAST_WIDTH = 280
"""The width in pixels that pictures with captions have at least."""


def legend_of(
    frame: Frame, obs_space: ObsSpace, looks: Mapping[EntityName, Look], chosen: Sequence[Chosen]
) -> list[Sign]:
    """Return the meanings of the marks of a scene."""
    signs: list[Sign] = []
    placed = {name: look for name, look in looks.items() if look.x is not None}
    for name, look in placed.items():
        count = f"{len(frame.features[name]):,}"
        is_cell = look.fills_cells and look.color_by is None
        mark: Mark = "square" if is_cell else look.shape
        color = "grid" if is_cell and not look.hints.colors else look.color
        signs.append(Sign(name, color, mark, name[:1].upper(), value=count))
        signs += _value_signs(look, obs_space.entities[name])
    owned = [
        (obs_space.entities[name].features[look.owner], tuple(look.owners))
        for name, look in placed.items()
        if look.owner is not None
    ]
    for feature, owners in dict.fromkeys(owned):
        for value in range(num_values(feature) or 0):
            edge = owners[value] if value < len(owners) else INK
            signs.append(Sign(_owner_text(feature, value), "card", edge=edge))
    if placed and not all(visible.all() for visible in frame.visible.values()):
        signs.append(Sign("hidden from the policy", SOFT, hollow=True))
    if placed and any(choice.actee is not None for choice in chosen):
        signs.append(Sign("selects", SOFT, "arrow"))
    return signs


def _value_signs(look: Look, entity: Entity) -> Iterator[Sign]:
    """Yield the colours and shapes of the named values of a type's features."""
    parts: list[tuple[int | None, Sequence[Color], Mark | None]] = [
        (look.ground, look.hints.grounds, "square"),
        (look.color_by, look.hints.colors, None),
        (look.stack[0] if look.stack else None, look.hints.colors, "circle"),
    ]
    for column, colors, mark in parts:
        names = () if column is None else value_names(entity.features[column])
        for value, text in enumerate(names):
            color = value_color(colors, value)  # type: ignore[arg-type]
            if color:
                yield Sign(text, color, mark or look.shape_of(value))


def _owner_text(feature: Feature, value: int) -> str:
    """Return the meaning of the edge of an owner."""
    name, text = feature_name(feature), feature_text(feature, value)
    if name == "own" and text in ("0", "1", "no", "yes"):
        return "own" if text in ("1", "yes") else "not own"
    return f"{name} {text}"


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
    margin, step = 0.6 * size, 1.6 * size
    widths = [
        (sign_scene(sign).width + 0.5) * size + text_width(sign.meaning, size) for sign in signs
    ]
    width = max(picture.shape[1], int(max(widths) + 2 * margin) + 1)
    places, x, line = [], margin, 0
    for across in widths:
        if x > margin and x + across > width - margin:
            x, line = margin, line + 1
        places.append((x, line))
        x += across + 1.2 * size
    canvas = Canvas(width, round((line + 1) * step + margin))
    for sign, (left, row) in zip(signs, places, strict=True):
        draw_sign(canvas, left, (row + 0.5) * step + margin / 2, sign, size)
    sides = ((0, 0), (0, width - picture.shape[1]), (0, 0))
    return np.concatenate([np.pad(picture, sides, constant_values=255), canvas.picture()])


def caption_columns(width: int) -> int:
    """Return the number of characters in a line under a picture of this width."""
    return int((max(width, _LEAST_WIDTH) / _caption_size(width) - 2) / 0.52)


def add_caption(picture: Picture, lines: Sequence[str], count: int) -> Picture:
    """Return the picture with lines of text below, and space for ``count`` of them.

    A small picture is enlarged, so that the lines can be read.
    """
    times = math.ceil(_LEAST_WIDTH / picture.shape[1])
    picture = picture.repeat(times, axis=0).repeat(times, axis=1)
    width = picture.shape[1]
    size = _caption_size(width)
    canvas = Canvas(width, round(1.5 * size * count + size))
    for i, line in enumerate(lines):
        text = canvas.shortened(line, size, width - 2 * size)
        canvas.text(size, (1.5 * i + 1.25) * size, text, size)
    return np.concatenate([picture, canvas.picture()])


def _caption_size(width: int) -> float:
    return max(12.0, width / 48)


def draw_sign(canvas: Canvas, left: float, y: float, sign: Sign, size: float) -> None:
    """Draw a mark and its meaning at the height ``y``, in text of this size."""
    mark = sign_scene(sign)
    canvas.scene(mark, left, y - size / 2, size)
    canvas.text(left + (mark.width + 0.5) * size, y, sign.meaning, size, INK)
