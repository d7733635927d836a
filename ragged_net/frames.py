"""The description of frames that attention works with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ragged_net import kernels
from ragged_net.devices import send
from ragged_net.gpu.attention import Spans
from ragged_net.kernels.threads import get_threads, shares
from ragged_net.layout import Layout
from ragged_net.ragged import offsets_of, repeat_by_frame, shifted_places
from ragged_net.tensor_checks import check_kind, check_tensor

__all__ = ["MOST_FRAMES", "FrameGroups", "Frames", "Places"]

MOST_FRAMES = 65_535
"""Maximum number of frames in one launch of a GPU kernel, an axis of CUDA's grid."""


@dataclass(frozen=True, eq=False)
class FrameGroups:
    """The frames of a batch, sorted by length, so that frames of one length form a dense tensor.

    Args:
        order: (N,) int64: the flat row that comes at each place of the group order, or None where
            the flat order is the group order already.
        inverse: (N,) int64: the inverse permutation of ``order``, or None.
        sizes: (length, number of frames) of each group, in the group order. Lengths are over 0;
            of more than ``MOST_FRAMES`` frames of one length there are several groups.
        masks: For each group (count, 1, L, L) bool, True where a query may attend to a key; None
            where nothing is hidden.
    """

    order: Tensor | None
    inverse: Tensor | None
    sizes: tuple[tuple[int, int], ...]
    masks: tuple[Tensor, ...] | None


class Places(NamedTuple):
    """The positions of the N flat rows of a batch.

    Args:
        positions: Zeros for rows without one. Shape: (N, K), float32.
        known: True for rows with a position. Shape: (N,), bool.
        heading: Angles in radians, counterclockwise from the x axis; zeros for rows without one,
            None if no row has one. Shape: (N,).
    """

    positions: Tensor
    known: Tensor
    heading: Tensor | None


@dataclass(frozen=True, eq=False)
class Frames:
    """The description of a batch's frames for attention, shared by all layers of a network.

    Args:
        offsets: (B + 1,) int64.
        num_rows: N.
        hidden: Mask of hidden rows: a hidden query attends to all keys of its frame, another one
            only to keys that are not hidden. None hides nothing. Shape: (N,), bool.
        known_offsets: The offsets on the CPU; None if they are unknown, or on the CPU already.
        turns: Cosines and signed sines by which blocks rotate queries, keys and values, see
            ``turns.py``; None rotates nothing. Shape: (N, 2, D), float32.
        places: Positions of the rows, for blocks with a ``PositionBias``.
    """

    offsets: Tensor
    num_rows: int
    hidden: Tensor | None = None
    known_offsets: Tensor | None = None
    turns: Tensor | None = None
    places: Places | None = None

    def __post_init__(self) -> None:
        """Check classes; sizes and numbers are checked where they are used."""
        check_tensor("the offsets of frames", self.offsets)
        check_kind("the number of rows of frames", self.num_rows, int, torch.SymInt)
        for where, tensor in (
            ("hidden", self.hidden),
            ("known_offsets", self.known_offsets),
            ("turns", self.turns),
        ):
            if tensor is not None:
                check_tensor(f"{where} of frames", tensor)

    @classmethod
    def of(cls, frames: Frames | Layout) -> Frames:
        """Return the frames of a layout, without hidden rows; return frames as they are."""
        if isinstance(frames, Frames):
            return frames
        check_kind("the frames of a transformer's rows", frames, Layout, Frames)
        return cls(frames.offsets, frames.num_rows, None, frames.known_offsets)

    @cached_property
    def lengths(self) -> Tensor:
        """The lengths (B,) int64 on the CPU; reading them waits for a GPU unless they are known."""
        known = self.offsets if self.known_offsets is None else self.known_offsets
        return known.cpu().diff()

    @cached_property
    def spans(self) -> Spans:
        """The frame of each row, for GPU kernels, computed once for all layers."""
        return Spans.of(self.offsets, self.num_rows)

    @cached_property
    def plan(self) -> Any:
        """The order in which the CPU kernels work on the frames (``kernels/plan.py``)."""
        from ragged_net.kernels.plan import make_plan  # needs Numba

        return make_plan(self.offsets.contiguous().numpy(), self.num_rows, self.hidden is None)

    def shares(self, dim: int, beside: int) -> list[Any]:
        """Return the plan in parts for threads (``threads.py``), computed once for all layers."""
        key = dim, beside, get_threads()
        if key not in self._shares:
            self._shares[key] = shares(self.plan, dim, beside)
        return self._shares[key]

    @cached_property
    def _shares(self) -> dict[tuple[int, int, int], list[Any]]:
        return {}

    @cached_property
    def groups(self) -> FrameGroups:
        """The frames grouped by length, computed once when a backend needs them.

        Where sizes are open, all rows are one group, with a mask between the frames.
        """
        if kernels.sizes_are_open():
            frames = torch.arange(self.offsets.shape[0] - 1, device=self.offsets.device)
            frames = repeat_by_frame(frames, self.offsets.diff(), self.num_rows)
            mask = frames[:, None] == frames[None, :]
            if self.hidden is not None:
                mask = mask & (self.hidden[:, None] | ~self.hidden[None, :])
            return FrameGroups(None, None, ((self.num_rows, 1),), (mask[None, None],))
        ordered, frames = self.lengths.sort(stable=True)
        values, counts = torch.unique_consecutive(ordered, return_counts=True)
        sizes = tuple(
            (length, min(MOST_FRAMES, count - start))
            for length, count in zip(values.tolist(), counts.tolist(), strict=True)
            if length > 0
            for start in range(0, count, MOST_FRAMES)
        )
        if len(sizes) <= 1 or bool((self.lengths == ordered).all()):
            return FrameGroups(None, None, sizes, self._masks(self.hidden, sizes))
        shift = offsets_of(self.lengths)[:-1].index_select(0, frames) - offsets_of(ordered)[:-1]
        # Sizes are computed on the CPU; the rows are repeated on the device.
        shift, ordered = send(torch.stack([shift, ordered]), self.offsets.device).unbind()
        order = shifted_places(shift, ordered, self.num_rows)
        places = torch.arange(self.num_rows, device=shift.device)
        inverse = torch.empty_like(order).index_copy_(0, order, places)
        hidden = None if self.hidden is None else self.hidden.index_select(0, order)
        return FrameGroups(order, inverse, sizes, self._masks(hidden, sizes))

    @staticmethod
    def _masks(
        hidden: Tensor | None, sizes: tuple[tuple[int, int], ...]
    ) -> tuple[Tensor, ...] | None:
        if hidden is None:
            return None
        masks = []
        rows = torch.split(hidden, [length * count for length, count in sizes])
        for part, (length, count) in zip(rows, sizes, strict=True):
            query = part.view(count, 1, length, 1)
            masks.append(query | ~part.view(count, 1, 1, length))  # (count, 1, L, L)
        return tuple(masks)
