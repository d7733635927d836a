"""The entities that the heads of a network read one by one."""

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
        means: (B, D) the mean of the vectors of each frame's entities, zeros for an empty frame.
            They do without the LayerNorm: games are learned in fewer steps so.
        rows: For each list of flat rows that was asked for (A, D): the vectors of those entities,
            behind the LayerNorm.
    """

    means: Tensor
    rows: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """The results asked of the last compiled block: frame means, then single rows, once each.

    Args:
        num_frames: B.
        num_results: B, and the number of single rows.
        places: (N,) int64: which result each flat row is; -1 where nobody reads it alone.
        order: (A,) int64: which of the single rows each row that was asked for is; None where they
            are the same.
        sizes: How many rows were asked for, in each list.
    """

    num_frames: int
    num_results: int
    places: npt.NDArray[np.int64]
    order: Tensor | None
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, num_frames: int, num_rows: int, asked: Sequence[Tensor]) -> Reading:
        """Return the reading of lists of flat rows (A,) int64 on the CPU; else RowIndexError."""
        wanted = np.concatenate([rows.numpy() for rows in asked]) if asked else _NO_ROWS
        places, order, count = kernels.load("indices").number_rows(wanted, num_rows, num_frames)
        again = None if count == len(wanted) else torch.from_numpy(order)
        return cls(num_frames, num_frames + count, places, again, tuple(map(len, asked)))

    def split(self, results: Tensor) -> Encoded:
        """Return the ``results`` (num_results, D), for each list that was asked for."""
        if self.order is None:
            means, *rows = _parts(results, [self.num_frames, *self.sizes])
            return Encoded(means, tuple(rows))
        means, single = _parts(results, [self.num_frames, self.num_results - self.num_frames])
        return Encoded(means, _parts(single.index_select(0, self.order), self.sizes))


def _parts(rows: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """Split rows like ``torch.split``, into copies: views cannot be changed in place."""
    return tuple(part.clone() for part in torch.split(rows, list(sizes)))


_NO_ROWS = np.empty(0, np.int64)
