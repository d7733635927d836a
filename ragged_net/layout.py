"""Layout: where each entity of a batch stands in the flat order that the transformer works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ragged_net.batch import EntityBatch
from ragged_net.errors import check_names
from ragged_net.ragged import RaggedTensor, offsets_of

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
    """

    offsets: Tensor
    dest: Mapping[str, Tensor]
    global_dest: Tensor | None
    num_rows: int

    @classmethod
    def of(
        cls, batch: EntityBatch, with_global: bool = False, names: Sequence[str] | None = None
    ) -> Layout:
        """The layout of ``batch``.

        Args:
            batch: Only the lengths of its entity types are read.
            with_global: Whether a global entity is appended to each frame.
            names: The entity types in the order of the observation space; the batch's own order
                if None.
        """
        names = list(batch.entities) if names is None else list(names)
        check_names("entity type", "the batch", batch.entities, names)
        types = [batch.entities[name] for name in names]
        columns = [ragged.lengths for ragged in types]
        device, frames = batch.device, batch.num_frames
        if with_global:
            columns.append(torch.ones(frames, dtype=torch.int64, device=device))
        if not columns:
            return cls(torch.zeros(frames + 1, dtype=torch.int64, device=device), {}, None, 0)
        lengths = torch.stack(columns, dim=1)  # (B, K): read row by row, it is the flat order
        ends = lengths.flatten().cumsum(0).view_as(lengths)
        starts = ends - lengths
        dest = {
            name: _spread(starts[:, k], ragged)
            for k, (name, ragged) in enumerate(zip(names, types, strict=True))
        }
        rows = batch.num_entities + (frames if with_global else 0)
        offsets = offsets_of(lengths.sum(1))
        return cls(offsets, dest, starts[:, -1] if with_global else None, rows)

    def flat_rows(self, indices: RaggedTensor) -> Tensor:
        """(A,) int64: the flat rows of entity ``indices`` (A,) within their frames."""
        starts = self.offsets[:-1].repeat_interleave(indices.lengths, output_size=indices.num_rows)
        return starts + indices.values

    def scatter(self, parts: Mapping[str, Tensor], global_rows: Tensor | None = None) -> Tensor:
        """Bring rows of all types (N_k, ...) and of the global entities (B, ...) in flat order."""
        values = [parts[name] for name in self.dest]
        dests = list(self.dest.values())
        if self.global_dest is not None and global_rows is not None:
            values.append(global_rows)
            dests.append(self.global_dest)
        source, dest = torch.cat(values), torch.cat(dests)
        # Each row is written once, so the backward pass is a plain index_select.
        return torch.empty_like(source).index_copy(0, dest, source)


def _spread(starts: Tensor, ragged: RaggedTensor) -> Tensor:
    """``starts[b], starts[b] + 1, ...`` for the rows of each frame b of ``ragged``."""
    shift = starts - ragged.offsets[:-1]
    shift = shift.repeat_interleave(ragged.lengths, output_size=ragged.num_rows)
    return shift + torch.arange(ragged.num_rows, device=shift.device)
