"""Layout: the position of each entity of a batch in the flat order of the transformer."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from entity_env.errors import BatchError
from ragged_net.batch import EntityBatch
from ragged_net.compiled import kernels
from ragged_net.ragged import RaggedTensor, shifted_places
from ragged_net.tensor_checks import check_kind, check_names, check_tensor

__all__ = ["Layout"]


@dataclass(frozen=True, eq=False)
class Layout:
    """The flat order: by frame, then entity type, then index; the global entity ends its frame.

    Args:
        offsets: (B + 1,) int64; the rows of frame b are ``offsets[b]:offsets[b + 1]``.
        dest: For each entity type, in the order of the observation space, (N_k,) int64: the flat
            row of each of its entities.
        global_dest: (B,) int64: the flat row of each frame's global entity, or None without one.
        num_rows: N, the number of flat rows.
        known_offsets: The offsets on the CPU; None if they are unknown, or on the CPU already.
    """

    offsets: Tensor
    dest: Mapping[str, Tensor]
    global_dest: Tensor | None
    num_rows: int
    known_offsets: Tensor | None = None

    def __post_init__(self) -> None:
        """Check classes; sizes and numbers are checked where they are used."""
        check_tensor("the offsets of a layout", self.offsets)
        if type(self.dest) is not dict:  # a check for an abstract class takes longer
            check_kind("the places of a layout", self.dest, Mapping)
        check_kind("the number of rows of a layout", self.num_rows, int, torch.SymInt)

    @property
    def num_frames(self) -> int:
        """The number of frames B."""
        return self.offsets.shape[0] - 1

    @classmethod
    def of(
        cls, batch: EntityBatch, with_global: bool = False, names: Sequence[str] | None = None
    ) -> Layout:
        """Return the layout of ``batch``.

        Args:
            batch: Batch, of which only the lengths of entity types are read.
            with_global: True if a global entity is appended to each frame.
            names: The entity types in the order of the observation space; the batch's own order
                if None.

        Raises:
            EntityEnvError: The entity types differ, or the parts of the batch do not fit together
                any more.
        """
        try:
            return cls._of(batch, with_global, names)
        except (AttributeError, IndexError, RuntimeError, TypeError):
            check_kind("the batch", batch, EntityBatch)
            batch.check()
            raise

    @classmethod
    def _of(cls, batch: EntityBatch, with_global: bool, names: Sequence[str] | None) -> Layout:
        if names is not None and type(names) is not tuple:
            check_kind("the names of the entity types", names, Sequence)
        names = list(batch.entities) if names is None else list(names)
        check_names("entity type", "the batch", batch.entities, names)
        types = [batch.entities[name] for name in names]
        device, frames = batch.device, batch.num_frames
        if types and device.type == "cpu" and kernels.available():
            return cls._compiled(names, types, with_global)
        columns = [ragged.lengths for ragged in types]
        if with_global:
            columns.append(torch.ones(frames, dtype=torch.int64, device=device))
        if not columns:
            return cls(torch.zeros(frames + 1, dtype=torch.int64, device=device), {}, None, 0)
        lengths = torch.stack(columns, dim=1)  # (B, K): its row-major order is the flat order
        ends = lengths.flatten().cumsum(0).view_as(lengths)
        starts = ends - lengths
        dest = {
            name: shifted_places(
                starts[:, k] - ragged.offsets[:-1], ragged.lengths, ragged.num_rows
            )
            for k, (name, ragged) in enumerate(zip(names, types, strict=True))
        }
        rows = batch.num_entities + (frames if with_global else 0)
        offsets = torch.cat([ends.new_zeros(1), ends[:, -1]])
        last = starts[:, -1] if with_global else None
        return cls(offsets, dest, last, rows, _known(types, frames, with_global))

    @classmethod
    def _compiled(cls, names: list[str], types: list[RaggedTensor], with_global: bool) -> Layout:
        stacked = np.empty((len(types), types[0].num_frames + 1), np.int64)
        counts = np.empty(len(types), np.int64)
        try:
            for k, ragged in enumerate(types):
                np.copyto(stacked[k], ragged.offsets.numpy())  # raises if a number is not whole
                counts[k] = ragged.num_rows
            found = kernels.load("indices").flat_order(stacked, counts, with_global)
        except (TypeError, ValueError):  # the offsets have been changed
            for name, ragged in zip(names, types, strict=True):
                ragged.check(f"entity type {name!r}")
            raise
        offsets, places, last = found
        dest, start = {}, 0
        for name, count in zip(names, counts.tolist(), strict=True):
            dest[name] = torch.from_numpy(places[start : start + count])
            start += count
        rows = len(places) + (len(last) if with_global else 0)
        ends = torch.from_numpy(last) if with_global else None
        return cls(torch.from_numpy(offsets), dest, ends, rows)

    def flat_rows(self, indices: RaggedTensor) -> Tensor:
        """Return the flat rows of entity ``indices`` (A,) within their frames. Shape: (A,).

        Raises:
            BatchError: The indices have another number of frames.
        """
        check_kind("the indices", indices, RaggedTensor)
        if indices.num_frames != self.num_frames:
            raise BatchError(
                "the indices have another number of frames than the layout",
                expected=self.num_frames,
                received=indices.num_frames,
            )
        starts = self.offsets.index_select(0, indices.frame_ids())
        return starts + indices.values

    def scatter(self, parts: Sequence[Tensor], places: Sequence[Tensor]) -> Tensor:
        """Put rows into the flat order.

        Args:
            parts: Rows (N_k, ...) of entities; together those of the whole batch.
            places: Flat rows (N_k,) int64 of each part, from ``dest`` or ``global_dest``.
        """
        if torch.is_grad_enabled():
            source = torch.cat(list(parts))
            # Each row is written once, so that the backward pass is an index_select.
            return torch.empty_like(source).index_copy(0, torch.cat(list(places)), source)
        # Under autocast, types with and without continuous features differ.
        dtype = functools.reduce(torch.promote_types, (part.dtype for part in parts))
        flat = parts[0].new_empty(self.num_rows, *parts[0].shape[1:], dtype=dtype)
        for part, rows in zip(parts, places, strict=True):
            flat.index_copy_(0, rows, part.to(dtype))
        return flat


def _known(types: Sequence[RaggedTensor], frames: int, with_global: bool) -> Tensor | None:
    """Return the offsets (B + 1,) on the CPU, or None if they are only on the device."""
    known = torch.arange(frames + 1, device="cpu") * int(with_global)
    for ragged in types:
        if ragged.known_offsets is None:
            return None
        known = known + ragged.known_offsets
    return known
