"""Positions of entities in a frame and in its picture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from entity_env.environment import YAxis
from entity_env.errors import SettingError, shorten
from entity_env.spaces import EntityName, ObsSpace

__all__ = ["Extent", "Spread", "View", "check_bounds", "dot_radius", "find_places", "nice_step"]

Floats = npt.NDArray[np.float64]

_RING = 6
"""The number of entities in the same place that are drawn beside each other."""


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

    def rounded(self) -> Extent:
        """Return the extent enlarged to round numbers, so that it rarely grows."""
        step = nice_step(max(self.right - self.left, self.top - self.bottom), 8)
        low, high = math.floor, math.ceil
        return Extent(
            low(self.left / step) * step,
            high(self.right / step) * step,
            low(self.bottom / step) * step,
            high(self.top / step) * step,
        )


@dataclass(frozen=True)
class View:
    """A map of the plane to a square of pixels, with the same scale for both axes.

    Args:
        extent: The part of the plane that must be visible.
        left: Left edge of the square in pixels.
        top: Top edge of the square in pixels.
        size: Size of the square in pixels.
        inset: Pixels between the extent and the edge of the square.
        is_grid: True if all coordinates are whole numbers.
        y_axis: Direction of greater y.
    """

    extent: Extent
    left: float
    top: float
    size: float
    inset: float
    is_grid: bool = False
    y_axis: YAxis = "up"

    @property
    def scale(self) -> float:
        """The number of pixels per unit."""
        e = self.extent
        return (self.size - 2 * self.inset) / (max(e.right - e.left, e.top - e.bottom) or 1.0)

    def pixels(self, points: Floats) -> Floats:
        """Return points (N, 2) in pixels from the upper left corner of the picture."""
        e = self.extent
        middle = np.array([e.left / 2 + e.right / 2, e.bottom / 2 + e.top / 2])
        centre = np.array([self.left, self.top]) + self.size / 2
        turn = np.array([1.0, -1.0 if self.y_axis == "up" else 1.0])
        pixels: Floats = centre + (points - middle) * self.scale * turn
        return pixels

    def ticks(self, axis: int) -> list[tuple[float, float]]:
        """Return round numbers along an axis (0 is x), each with its pixel."""
        e = self.extent
        middle = e.left / 2 + e.right / 2 if axis == 0 else e.bottom / 2 + e.top / 2
        half = self.size / 2 / self.scale
        step = max(nice_step(2 * half, 7), 1.0 if self.is_grid else 0.0)
        first = math.ceil((middle - half) / step)
        values = (first + np.arange(int(2 * half / step) + 2.0)) * step
        points = np.zeros((len(values), 2))
        points[:, axis] = values
        edge = self.left if axis == 0 else self.top
        return [
            (float(value), float(pixel))
            for value, pixel in zip(values, self.pixels(points)[:, axis], strict=True)
            if edge + 1 <= pixel <= edge + self.size - 1
        ]


def find_places(obs_space: ObsSpace) -> dict[EntityName, tuple[int, int]]:
    """Return the columns of x and y, for the entity types that have both.

    ``x`` and ``y`` themselves, else the first pair such as ``position.x`` and ``position.y``.
    """
    places = {}
    for name, entity in obs_space.entities.items():
        prefixes = [own[:-1] for own in entity.names if own == "x" or own.endswith(".x")]
        pairs = [p for p in sorted(prefixes, key=bool) if p + "y" in entity.names]
        if pairs:
            x, y = (entity.names.index(pairs[0] + axis) for axis in "xy")
            places[name] = (x, y)
    return places


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


def dot_radius(view: View, count: int) -> float:
    """Return the largest radius at which ``count`` dots do not fill the plane or touch."""
    radius = min(view.size / 22, 0.3 * view.size / math.sqrt(max(count, 1)))
    return max(1.5, min(radius, 0.42 * view.scale) if view.is_grid else radius)


@dataclass(frozen=True)
class Spread:
    """Shifted dots, so that several dots in the same place are visible.

    Args:
        pixels: Positions of the dots. Shape: (M, 2).
        radius: Radius of each dot, smaller for dots that share a place. Shape: (M,).
        shown: False for dots after the first few of a place. Shape: (M,).
        crowds: Places with more dots than are shown: x, y and the number of dots. Shape: (K, 3).
    """

    pixels: Floats
    radius: Floats
    shown: npt.NDArray[np.bool_]
    crowds: Floats

    @classmethod
    def of(cls, pixels: Floats, radius: float) -> Spread:
        """Return the dots, with those in the same place shifted to a ring around it."""
        rounded = np.round(pixels).astype(np.int64)
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
            pixels=pixels + away * np.stack([np.cos(angle), np.sin(angle)], axis=1),
            radius=radius * smaller,
            shown=rank < _RING,
            crowds=np.column_stack([pixels[first[crowded]], counts[crowded]]),
        )
