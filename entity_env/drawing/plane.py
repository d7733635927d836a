"""Rectangles of the plane, and places of entities that lie in the same point."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from entity_env.errors import SettingError, shorten

__all__ = ["Extent", "Spread", "check_bounds", "nice_step"]

Floats = npt.NDArray[np.float64]

_RING = 6
"""The number of entities in the same place that are drawn beside each other."""
_SAME = 0.08
"""Distances below this part of the radius of a dot count as the same place."""


@dataclass(frozen=True)
class Extent:
    """A rectangle of the plane."""

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def of(cls, x: Floats, y: Floats) -> Extent | None:
        """Return the smallest rectangle around points, or None without points. Shapes: (N,)."""
        if not len(x):
            return None
        return cls(float(x.min()), float(x.max()), float(y.min()), float(y.max()))

    @property
    def side(self) -> float:
        """The longer side."""
        return max(self.right - self.left, self.top - self.bottom)

    @property
    def farthest(self) -> float:
        """The largest size of a coordinate."""
        return max(map(abs, (self.left, self.right, self.bottom, self.top)))

    def join(self, other: Extent | None) -> Extent:
        """Return the smallest rectangle around both."""
        if other is None:
            return self
        return Extent(
            min(self.left, other.left),
            max(self.right, other.right),
            min(self.bottom, other.bottom),
            max(self.top, other.top),
        )

    def wider(self, margin: float) -> Extent:
        """Return the extent with a margin on each side."""
        return Extent(
            self.left - margin, self.right + margin, self.bottom - margin, self.top + margin
        )

    def rounded(self) -> Extent:
        """Return the extent enlarged to round numbers, so that it rarely grows."""
        step = nice_step(self.side, 8)
        low, high = math.floor, math.ceil
        return Extent(
            low(self.left / step) * step,
            high(self.right / step) * step,
            low(self.bottom / step) * step,
            high(self.top / step) * step,
        )


def check_bounds(bounds: object) -> Extent:
    """Return bounds (left, right, bottom, top) as an Extent, or raise SettingError.

    Those of a board of one column or row have no width or height.
    """
    try:
        left, right, bottom, top = map(float, bounds)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        left = right = bottom = top = math.nan
    is_finite = all(map(math.isfinite, (left, right, bottom, top)))
    if not is_finite or left > right or bottom > top:
        raise SettingError(
            "the bounds are not a rectangle",
            expected="(left, right, bottom, top), four numbers with left <= right, bottom <= top",
            received=shorten(bounds),
        )
    return Extent(left, right, bottom, top)


def nice_step(length: float, parts: int) -> float:
    """Return 1, 2 or 5 times a power of ten, about ``length / parts``."""
    rough = (length or 1.0) / parts
    power = 10.0 ** math.floor(math.log10(rough))
    return next((power * n for n in (1.0, 2.0, 5.0) if rough <= power * n), power * 10.0)


@dataclass(frozen=True)
class Spread:
    """Shifted dots, so that several dots in the same place are visible.

    Args:
        x: Positions of the dots. Shape: (M,).
        y: Positions of the dots. Shape: (M,).
        radius: Radius of each dot, smaller for dots that share a place. Shape: (M,).
        shown: False for dots after the first few of a place. Shape: (M,).
        crowds: Places with more dots than are shown: x, y and the number of dots. Shape: (K, 3).
    """

    x: Floats
    y: Floats
    radius: Floats
    shown: npt.NDArray[np.bool_]
    crowds: Floats

    @classmethod
    def of(cls, x: Floats, y: Floats, radius: float) -> Spread:
        """Return the dots, with those in the same place shifted to a ring around it."""
        column, row = (np.round(part / (radius * _SAME)).astype(np.int64) for part in (x, y))
        keys = (column << 20) + row
        whole = cls(
            x=x.copy(),
            y=y.copy(),
            radius=np.full(len(keys), radius),
            shown=np.ones(len(keys), np.bool_),
            crowds=np.zeros((0, 3)),
        )
        in_order = np.sort(keys)
        shared = np.isin(keys, in_order[1:][in_order[1:] == in_order[:-1]])
        if not shared.any():
            return whole
        keys, own_x, own_y = keys[shared], x[shared], y[shared]
        _, first, place, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(place, kind="stable")
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - (np.cumsum(counts) - counts)[place[order]]
        ring = np.minimum(counts, _RING)[place]
        angle = np.pi + 2 * np.pi * rank / ring
        crowded = np.flatnonzero(counts > _RING)
        whole.x[shared] += 0.72 * radius * np.cos(angle)
        whole.y[shared] += 0.72 * radius * np.sin(angle)
        whole.radius[shared] *= np.minimum(0.62, 0.75 * np.sin(np.pi / ring))
        whole.shown[shared] = rank < _RING
        at = first[crowded]
        return replace(whole, crowds=np.column_stack([own_x[at], own_y[at], counts[crowded]]))
