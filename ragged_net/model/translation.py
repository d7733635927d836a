"""Translation: positions relative to one of the entities of a frame, before the embedding."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from entity_env.errors import BatchError
from entity_env.spaces import Continuous, Entity, Feature, ObsSpace
from ragged_net.batch import EntityBatch
from ragged_net.devices import send
from ragged_net.frames import Places
from ragged_net.layout import Layout
from ragged_net.model.geometry import PlaceReader, columns_of, direction, distance, into_frame
from ragged_net.position_config import Translation, positions_of
from ragged_net.ragged import RaggedTensor

__all__ = ["Translator"]


class Translator:
    """A translation of the positions of a batch to those relative to an entity, with rotation.

    Positions of a frame without reference are relative to the centre of its visible entities.

    Args:
        obs_space: Observation space of batches.
        setting: Reference, and features to append.
        with_global: True if a global entity ends each frame.

    Attributes:
        space: Observation space of translated batches.
    """

    def __init__(self, obs_space: ObsSpace, setting: Translation, with_global: bool) -> None:
        positions = positions_of(obs_space, setting, "translation")
        self.setting, self.with_global = setting, with_global
        headings = {} if setting.heading is None else {setting.reference: setting.heading}
        self._read = PlaceReader(obs_space, positions, headings)
        self.columns, self.axes = self._read.columns, self._read.axes
        self.space = ObsSpace(
            obs_space.global_features,
            {
                name: Entity([*self._scaled(name, entity), *self._appended()], entity.position)
                if name in self.columns
                else entity
                for name, entity in obs_space.entities.items()
            },
        )

    def _scaled(self, name: str, entity: Entity) -> list[Feature]:
        """Return the features of an entity type, with positions in the given scale."""
        features, length = list(entity.features), (self.setting.scale or {}).get(name)
        if length is not None:
            for column in self.columns[name]:
                feature = entity.names[column]
                features[column] = Continuous(feature, mean=0.0, std=length)
        return features

    def _appended(self) -> list[Continuous | str]:
        if not self.setting.distance:
            return []
        # Directions are scaled already: unit vectors in all directions have about this deviation.
        ways = [Continuous(f"direction {k}", mean=0.0, std=0.7) for k in range(self.axes)]
        return ["distance", *ways]

    def __call__(self, batch: EntityBatch) -> EntityBatch:
        """Return the batch relative to the reference entity of each frame.

        Raises:
            BatchError: A frame has several reference entities.
        """
        reference = self.setting.reference
        rows = batch.entities[reference]
        lengths = rows.host_offsets.diff()
        if bool((lengths > 1).any()):
            frame = int((lengths > 1).nonzero()[0])
            raise BatchError(
                f"frame {frame} has several entities of the type {reference!r}, "
                "the reference of net.translation",
                expected="at most one in each frame",
                received=int(lengths[frame]),
                hint="net.relative_position compares all pairs of entities",
            )
        layout = Layout.of(batch, self.with_global, tuple(self.space.entities))
        frames = send(lengths.nonzero().squeeze(1), batch.device)
        seen_by = frames.new_full((batch.num_frames,), -1)
        return self._moved(batch, layout, seen_by.index_copy(0, frames, layout.dest[reference]))

    def _moved(self, batch: EntityBatch, layout: Layout, seen_by: Tensor) -> EntityBatch:
        """Make positions relative to rows ``seen_by`` (B,), or to the centre for -1."""
        places = self._read(batch, layout)
        for name in self.columns:
            if name in batch.visible:
                places.known[layout.dest[name]] = batch.visible[name]
        frames = RaggedTensor.unchecked(places.positions, layout.offsets).frame_ids()
        origin = _middles(places, frames, batch.num_frames)
        heading = origin.new_zeros(batch.num_frames)
        if layout.num_rows:
            row = seen_by.clamp_min(0)
            found = (seen_by >= 0) & places.known.index_select(0, row)
            place = places.positions.index_select(0, row)
            origin = torch.where(found[:, None], place, origin)
            if places.heading is not None:
                heading = torch.where(found, places.heading.index_select(0, row), heading)
        entities = dict(batch.entities)
        for name, columns in self.columns.items():
            ragged = batch.entities[name]
            ids = ragged.frame_ids()
            offsets = columns_of(ragged.values, columns) - origin.index_select(0, ids)
            if places.heading is not None:
                offsets = into_frame(offsets, heading.index_select(0, ids))
            values = ragged.values.clone()
            for k, column in enumerate(columns):
                values[:, column] = offsets[:, k]
            if self.setting.distance:
                values = torch.cat([values, distance(offsets)[:, None], direction(offsets)], 1)
            entities[name] = ragged.with_values(values)
        return replace(batch, entities=entities)


def _middles(places: Places, frames: Tensor, count: int) -> Tensor:
    """Return the mean position (B, K) of each frame, zeros where no entity has one."""
    known = places.known.to(places.positions.dtype)
    zeros = places.positions.new_zeros(count, places.positions.shape[1])
    totals = zeros.index_add(0, frames, places.positions * known[:, None])
    numbers = known.new_zeros(count).index_add(0, frames, known)
    return totals / numbers.clamp_min(1)[:, None]
