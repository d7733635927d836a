"""Texts beside dots, where they cover neither dots nor other texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.drawing.scene import INK, Words, text_width

__all__ = ["Box", "write_beside"]

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""
_MOST_WORDS = 200
"""The largest number of entities with text beside them, for readability."""
_SIDES = {"lm": (1, 0), "rm": (-1, 0), "mb": (0, -1), "mt": (0, 1)}
"""The sides of a dot, best first, by the anchor of a text there: ``lm`` is to the right of it."""


def write_beside(
    dots: npt.NDArray[np.float64],
    words: Mapping[int, str],
    room: tuple[float, float],
    unit: float,
    taken: npt.NDArray[np.float64],
) -> Iterator[Words]:
    """Yield texts to the right of dots, or at another side that is free.

    Args:
        dots: Middle and radius of each dot, NaN for entities without. Shape: (3, N).
        words: The texts, by the index of the entity.
        room: Width and height of the scene.
        unit: Unit of length for the size of text.
        taken: Left, top, right and bottom of covered areas. Shape: (4, K).
    """
    size, margin = 0.64 * unit, 0.2 * unit
    found: dict[str, list[tuple[float, float, str]]] = {}
    placed = (index for index in words if words[index] and not np.isnan(dots[0, index]))
    for index in itertools.islice(placed, _MOST_WORDS):
        text = words[index] if len(words[index]) <= 40 else f"{words[index][:37]}..."
        box = text_width(text, size), size
        x, y, side, area = _free_side(dots[:, index].tolist(), box, room, taken, margin)
        taken = np.column_stack([taken, area])
        found.setdefault(side, []).append((x, y, text))
    for side, texts in found.items():
        xs, ys, written = zip(*texts, strict=True)
        yield Words(xs, ys, written, size, INK, side, 0.09 * unit, grows=False)


def _free_side(
    dot: Sequence[float],
    size: tuple[float, float],
    room: tuple[float, float],
    taken: npt.NDArray[np.float64],
    margin: float,
) -> tuple[float, float, str, Box]:
    """Return the place and the anchor of a text at the best side of a dot, and its area."""
    (width, height), gap = size, dot[2] + margin
    reach = max(width, height) + gap + height
    left, _, right, _ = taken
    near = abs(left + right - 2 * dot[0]) < 2 * reach + right - left
    taken = taken[:, near].T
    best = []
    for rank, (side, (across, down)) in enumerate(_SIDES.items()):
        x, y = dot[0] + gap * across, dot[1] + gap * down
        left, top = x + (across - 1) * width / 2, y + (down - 1) * height / 2
        area = left, top, left + width, top + height
        covered = ((taken[:, :2] < area[2:]) & (taken[:, 2:] > area[:2])).all(axis=1).sum()
        is_inside = left >= 0 and top >= 0 and area[2] <= room[0] and area[3] <= room[1]
        best.append((not is_inside, int(covered), rank, (x, y, side, area)))
    return min(best)[-1]
