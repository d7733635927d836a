"""The flat order of a batch's entities, and those of them whose vectors the heads read."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env.errors import BatchError
from ragged_net import kernels
from ragged_net.batch import EntityBatch
from ragged_net.ragged import RaggedTensor, shifted_places
from ragged_net.tensor_checks import check_kind, check_names, check_tensor

__all__ = ["Encoded", "Layout", "Reading"]


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


@dataclass(frozen=True, eq=False)
class Encoded:
    """The output of an encoder for a batch.

    Args:
        means: Mean of the vectors of each frame's entities, zeros for an empty frame. No LayerNorm
            is applied, because games are learned in fewer steps without it. Shape: (B, D).
        rows: Vectors of the entities in each list, after the LayerNorm. Shape of each: (A, D).
    """

    means: Tensor
    rows: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """The results of the last compiled block: frame means, then single rows, each once.

    Args:
        num_frames: B.
        num_results: Number of frames and single rows.
        places: Index of each flat row among the results; -1 for rows that are not read. Shape:
            (N,), int64.
        order: Index of each requested row among the single rows; None if they are the same. Shape:
            (A,), int64.
        sizes: Number of requested rows in each list.
    """

    num_frames: int
    num_results: int
    places: npt.NDArray[np.int64]
    order: Tensor | None
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, num_frames: int, num_rows: int, asked: Sequence[Tensor]) -> Reading:
        """Return the reading of lists of flat rows (A,) int64 on the CPU; else BatchError."""
        wanted = np.concatenate([rows.numpy() for rows in asked]) if asked else _NO_ROWS
        places, order, count = kernels.load("indices").number_rows(wanted, num_rows, num_frames)
        again = None if count == len(wanted) else torch.from_numpy(order)
        return cls(num_frames, num_frames + count, places, again, tuple(map(len, asked)))

    def split(self, results: Tensor) -> Encoded:
        """Split the ``results`` (num_results, D) into those of each requested list."""
        if self.order is None:
            means, *rows = _parts(results, [self.num_frames, *self.sizes])
            return Encoded(means, tuple(rows))
        means, single = _parts(results, [self.num_frames, self.num_results - self.num_frames])
        return Encoded(means, _parts(single.index_select(0, self.order), self.sizes))


def _parts(rows: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """Split rows like ``torch.split``, into copies: views cannot be changed in place."""
    return tuple(part.clone() for part in torch.split(rows, list(sizes)))


_NO_ROWS = np.empty(0, np.int64)
