"""Geometry of positions as pure functions: offsets, headings, distances, waves, rotations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from entity_env.spaces import ObsSpace, Position, num_values
from ragged_net.batch import EntityBatch
from ragged_net.frames import Places
from ragged_net.layout import Layout

__all__ = [
    "PlaceReader",
    "columns_of",
    "direction",
    "distance",
    "into_frame",
    "offsets_between",
    "position_columns",
    "radians",
    "swap_pairs",
    "turn",
    "turn_back",
    "wave_vectors",
]


def columns_of(values: Tensor, columns: Sequence[int]) -> Tensor:
    """Return some columns (N, K) of values (N, F), without copying their numbers to a GPU."""
    return torch.stack([values[:, column] for column in columns], 1)


def offsets_between(positions: Tensor) -> Tensor:
    """Return offsets (..., L, L, K) from each position (..., L, K), the query, to each other."""
    return positions.unsqueeze(-3) - positions.unsqueeze(-2)


def into_frame(vectors: Tensor, heading: Tensor) -> Tensor:
    """Return vectors relative to a ``heading``: x ahead, y to the left.

    Args:
        vectors: (..., 2).
        heading: Angles (...,) in radians, counterclockwise from the x axis, broadcast to the
            vectors.
    """
    x, y = vectors.unbind(-1)
    cos, sin = heading.cos(), heading.sin()
    return torch.stack([cos * x + sin * y, cos * y - sin * x], -1)


def distance(vectors: Tensor) -> Tensor:
    """Return the length (...,) of each vector (..., K); its gradient at 0 is 0."""
    squares = vectors.square().sum(-1)
    here = squares == 0
    return torch.where(here, 0.0, torch.where(here, 1.0, squares).sqrt())


def direction(vectors: Tensor) -> Tensor:
    """Return vectors (..., K) scaled to length 1; a vector of length 0 stays 0."""
    length = distance(vectors)
    return vectors / torch.where(length == 0, 1.0, length).unsqueeze(-1)


def wave_vectors(count: int, axes: int, unit: float, extent: float) -> Tensor:
    """Return waves (count, axes) float32, whose products with an offset are angles in radians.

    The waves are along the axes in turn. Their lengths rise geometrically from ``4 * unit``, where
    an offset of one unit is a quarter turn, to ``4 * extent``, where the largest offset is one.
    """
    vectors = torch.zeros(count, axes)
    lengths = -(-count // axes)
    for k in range(count):
        share = (k // axes) / max(1, lengths - 1)
        length = 4 * unit * (extent / unit) ** share
        vectors[k, k % axes] = 2 * math.pi / length
    return vectors


def swap_pairs(x: Tensor) -> Tensor:
    """Return ``x`` (..., D), D even, with the two numbers of each pair exchanged."""
    return x.reshape(*x.shape[:-1], -1, 2).flip(-1).reshape(x.shape)


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (a, b) of numbers to (a cos - b sin, a sin + b cos).

    Args:
        x: (..., D), D even.
        cos: Cosines, equal for both numbers of a pair, broadcast to x.
        sin: Sines, with a minus for the first number of each pair: (-sin, sin).
    """
    return x * cos + swap_pairs(x) * sin


def turn_back(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return the transpose of ``turn``, and its inverse where cos^2 + sin^2 = 1."""
    return x * cos - swap_pairs(x) * sin


def radians(values: Tensor, steps: int | None) -> Tensor:
    """Return a heading in radians, from radians or from ``steps`` in a full turn."""
    return values if steps is None else values * (2 * math.pi / steps)


def position_columns(
    obs_space: ObsSpace, positions: Mapping[str, Position]
) -> dict[str, list[int]]:
    """Return the columns of the coordinates among the features of each entity type."""
    return {
        name: [obs_space.entities[name].names.index(axis) for axis in position.names]
        for name, position in positions.items()
    }


class PlaceReader:
    """A reader of the positions and headings of a batch's rows, without parameters.

    Args:
        obs_space: The entity types.
        positions: Position of each entity type that has one.
        headings: Feature with the heading of each entity type that has one.
    """

    def __init__(
        self, obs_space: ObsSpace, positions: Mapping[str, Position], headings: Mapping[str, str]
    ) -> None:
        self.columns = position_columns(obs_space, positions)
        self.axes = len(next(iter(self.columns.values())))
        self.headings: dict[str, tuple[int, int | None]] = {}
        for name, feature in headings.items():
            entity = obs_space.entities[name]
            column = entity.names.index(feature)
            self.headings[name] = column, num_values(entity.features[column])

    def __call__(self, batch: EntityBatch, layout: Layout) -> Places:
        """Return the places of the flat rows."""
        positions = batch.global_features.new_zeros(layout.num_rows, self.axes)
        known = torch.zeros(layout.num_rows, dtype=torch.bool, device=batch.device)
        for name, columns in self.columns.items():
            positions[layout.dest[name]] = columns_of(batch.entities[name].values, columns)
            known[layout.dest[name]] = True
        if not self.headings:
            return Places(positions, known, None)
        heading = positions.new_zeros(layout.num_rows)
        for name, (column, steps) in self.headings.items():
            heading[layout.dest[name]] = radians(batch.entities[name].values[:, column], steps)
        return Places(positions, known, heading)
