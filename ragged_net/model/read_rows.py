"""The entities whose vectors the heads of a network read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ragged_net.compiled import kernels

__all__ = ["Encoded", "Reading"]


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
