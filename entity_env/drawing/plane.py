"""Rectangles of the plane, and places of entities that lie in the same point."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    def of(cls, points: Floats) -> Extent | None:
        """Return the smallest rectangle around points (N, 2), or None without points."""
        if not len(points):
            return None
        (left, bottom), (right, top) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        return cls(left, right, bottom, top)

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
    """Return bounds (left, right, bottom, top) as an Extent, or raise SettingError."""
    try:
        left, right, bottom, top = map(float, bounds)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        left = right = bottom = top = math.nan
    is_finite = all(map(math.isfinite, (left, right, bottom, top)))
    if not is_finite or left >= right or bottom >= top:
        raise SettingError(
            "the bounds are not a rectangle",
            expected="(left, right, bottom, top), four numbers with left < right, bottom < top",
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
        points: Positions of the dots. Shape: (M, 2).
        radius: Radius of each dot, smaller for dots that share a place. Shape: (M,).
        shown: False for dots after the first few of a place. Shape: (M,).
        crowds: Places with more dots than are shown: x, y and the number of dots. Shape: (K, 3).
    """

    points: Floats
    radius: Floats
    shown: npt.NDArray[np.bool_]
    crowds: Floats

    @classmethod
    def of(cls, points: Floats, radius: float) -> Spread:
        """Return the dots, with those in the same place shifted to a ring around it."""
        rounded = np.round(points / (radius * _SAME)).astype(np.int64)
        keys = rounded[:, 0] * (1 << 20) + rounded[:, 1]
        _, first, place, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(place, kind="stable")
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - (np.cumsum(counts) - counts)[place[order]]
        ring = np.minimum(counts, _RING)[place]
        angle = np.pi + 2 * np.pi * rank / np.maximum(ring, 1)
        away = np.where(ring > 1, 0.72 * radius, 0.0)[:, None]
        smaller = np.where(ring > 1, np.minimum(0.62, 0.75 * np.sin(np.pi / ring)), 1.0)
        crowded = np.flatnonzero(counts > _RING)
        return cls(
            points=points + away * np.stack([np.cos(angle), np.sin(angle)], axis=1),
            radius=radius * smaller,
            shown=rank < _RING,
            crowds=np.column_stack([points[first[crowded]], counts[crowded]]),
        )
