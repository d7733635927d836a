"""Positions and headings of entities, read from their features."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from entity_env.spaces import Discrete, ObsSpace, Position
from ragged_net.batch import EntityBatch
from ragged_net.model.frames import Places
from ragged_net.model.geometry import columns_of, radians
from ragged_net.model.layout import Layout

__all__ = ["PlaceReader", "position_columns"]


def position_columns(
    obs_space: ObsSpace, positions: Mapping[str, Position]
) -> dict[str, list[int]]:
    """Return the columns of the coordinates among the features of each entity type."""
    return {
        name: [obs_space.entities[name].names.index(own) for own in position.names]
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
            kind = entity.features[column]
            self.headings[name] = column, kind.n if isinstance(kind, Discrete) else None

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
