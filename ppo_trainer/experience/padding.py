"""Batches of fixed sizes, whose unused rows are filled with frames of slack.

A CUDA graph works on the same memory each time. A padded batch has a fixed number of frames, the
last of which are slack: their entities, actors and choices fill each tensor to its end, and are
valid input of the network. As no frame affects another one, the results of all other frames are the
same as without slack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ppo_trainer.machine.graphs import room_for
from ragged_net import CategoricalActors, ContinuousActors, EntityBatch, RaggedTensor, SelectActors
from ragged_net.actors import Actors

__all__ = [
    "BatchPart",
    "Key",
    "batch_of",
    "carve",
    "fill",
    "padded_offsets",
    "parts_of",
    "sizes_of",
    "slack_frames",
]

Key = tuple[str, str]
"""The kind of rows, ``entities``, ``actors``, ``actees`` or ``pairs``, and their name."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BatchPart:
    """Tensors whose rows belong to the same frames.

    Args:
        offsets: Shape: (B + 1,), int64, on the device of the rows.
        rows: Tensors by name. Shape: (N, ...).
        known: The offsets on the CPU; None if they are only on the device.
    """

    offsets: Tensor
    rows: dict[str, Tensor]
    known: Tensor | None = None

    @classmethod
    def of(cls, ragged: RaggedTensor, name: str = "values") -> BatchPart:
        """Return the values of a ragged tensor as a part."""
        return cls(ragged.offsets, {name: ragged.values}, ragged.host_offsets)

    @property
    def ends(self) -> Ints:
        """The offsets on the CPU."""
        assert self.known is not None
        ends: Ints = self.known.numpy()
        return ends

    @property
    def count(self) -> int:
        """The number of rows N."""
        return int(self.ends[-1])

    def ragged(self, name: str = "values") -> RaggedTensor:
        """Return one of the tensors in its frames."""
        return RaggedTensor.unchecked(self.rows[name], self.offsets, self.known)


def parts_of(
    batch: EntityBatch,
    chosen: Mapping[str, RaggedTensor] | None = None,
    log_probs: Mapping[str, RaggedTensor] | None = None,
) -> dict[Key, BatchPart]:
    """Return the parts of a batch, and those of the choices of its actors, if given."""
    parts: dict[Key, BatchPart] = {}
    for name, rows in batch.entities.items():
        part = parts["entities", name] = BatchPart.of(rows)
        if name in batch.visible:
            part.rows["visible"] = batch.visible[name]
    for name, action in batch.actions.items():
        part = parts["actors", name] = BatchPart.of(action.actors)
        if isinstance(action, CategoricalActors):
            part.rows["mask"] = action.mask
        if isinstance(action, SelectActors):
            parts["actees", name] = BatchPart.of(action.actees)
            parts["pairs", name] = BatchPart.of(action.full_mask(), "mask")
        if chosen is not None and log_probs is not None:
            part.rows.update(chosen=chosen[name].values, log_probs=log_probs[name].values)
    return parts


def batch_of(parts: Mapping[Key, BatchPart], features: Tensor, *, padded: bool) -> EntityBatch:
    """Return the batch of ``parts``, which have the names that ``parts_of`` gives.

    Args:
        parts: The rows.
        features: Global features. Shape: (B, G).
        padded: True if the last actors and actees are slack.
    """
    entities, visible = {}, {}
    actions: dict[str, Actors] = {}
    for (kind, name), part in parts.items():
        if kind == "entities":
            entities[name] = part.ragged()
            if "visible" in part.rows:
                visible[name] = part.rows["visible"]
        elif kind == "actors" and ("actees", name) in parts:
            pairs = parts["pairs", name]
            mask = pairs.ragged("mask") if pairs.rows else None
            room = mask.num_rows if padded and mask is not None else None
            actees = parts["actees", name].ragged()
            actions[name] = SelectActors(part.ragged(), actees, mask, room)
        elif kind == "actors" and "mask" in part.rows:
            actions[name] = CategoricalActors(part.ragged(), part.rows["mask"])
        elif kind == "actors":
            actions[name] = ContinuousActors(part.ragged())
    return EntityBatch(entities, features, visible, actions)


def sizes_of(counts: Mapping[Key, int]) -> tuple[int, ...]:
    """Return the number of rows that each part needs.

    Each actor of slack has a pair, so that there are more pairs than in the batch.
    """
    return tuple(
        count + 2 * room_for(counts["actors", name]) if count and kind == "pairs" else count
        for (kind, name), count in counts.items()
    )


def slack_frames(frames: int) -> int:
    """Return the number of frames of slack for ``frames``; attention in them is quadratic."""
    return frames // 8 + 2


def padded_offsets(kind: str, offsets: Ints, room: int, frames: int) -> Ints:
    """Return the offsets of a part with slack up to its ``room``. Shape: (frames + slack + 1,).

    The first frame of slack contains all actors of slack, an entity and an actee, so that each of
    these actors has one pair. Other actees are in the second one, other entities in all.

    Args:
        kind: Kind of the part.
        offsets: Offsets of the frames of the batch, at most ``frames``; others are empty. Shape:
            (B + 1,).
        room: Number of rows of the buffer; 0, or at least two more than the part has.
        frames: Number of frames without slack.
    """
    used, slack = offsets[-1], slack_frames(frames)
    if kind in ("entities", "actees"):
        step = -(-room // (slack - 1)) if kind == "entities" else room
        ends = np.minimum(used + 1 + step * np.arange(slack), room)
    else:
        ends = np.full(slack, room)
    empty = np.full(frames + 1 - len(offsets), used)
    padded: Ints = np.concatenate([offsets, empty, ends]).astype(np.int64)
    return padded


def fill(rows: Tensor) -> float:
    """Return the value of rows of slack: 1 for visible and allowed, the end for sets, else 0."""
    if rows.dtype == torch.bool:
        return True
    return -1 if rows.dtype == torch.int64 and rows.ndim == 2 else 0


Field = tuple[tuple[int, ...], torch.dtype]
_ALIGNED = 256


def carve(
    fields: Mapping[tuple[str, ...], Field], device: torch.device
) -> tuple[Tensor, dict[tuple[str, ...], Tensor]]:
    """Return bytes, and tensors with these shapes and dtypes that are views of them, in order.

    All of them are copied to or from a device together.
    """
    places, at = {}, 0
    for key, (shape, dtype) in fields.items():
        places[key] = at, at + int(np.prod(shape)) * dtype.itemsize
        at = -(-places[key][1] // _ALIGNED) * _ALIGNED
    memory = torch.zeros(at, dtype=torch.uint8, device=device)
    return memory, {
        key: memory[slice(*places[key])].view(dtype).view(shape)
        for key, (shape, dtype) in fields.items()
    }
