"""Sequences of frames, and the order in which a recurrent cell steps over them without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from entity_env.errors import BatchError

__all__ = ["Steps"]


@dataclass(frozen=True, eq=False)
class Steps:
    """Step t takes the frame t of each sequence that has so many, the longest sequence first.

    The sequences of a step are a prefix of those of the step before, as in torch's PackedSequence:
    nothing is computed for a frame that does not exist.

    Args:
        longest_first: (S,) int64 on the CPU: the sequences in the order in which they are stepped.
        frames: (B,) int64 on the CPU: the frames, step by step.
        sizes: (T,) int64 on the CPU: the number of frames of each step.
    """

    longest_first: Tensor
    frames: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, lengths: Tensor | Sequence[int], num_frames: int) -> Steps:
        """Return the steps over sequences that follow each other in a batch.

        Args:
            lengths: (S,) whole numbers of at least 1: the frames of each sequence.
            num_frames: B, their sum.

        Raises:
            BatchError: Other lengths.
        """
        counts = np.asarray(lengths.cpu() if isinstance(lengths, Tensor) else lengths)
        if not counts.size:
            counts = counts.astype(np.int64)
        if (
            counts.ndim != 1
            or not np.issubdtype(counts.dtype, np.integer)
            or counts.min(initial=1) < 1
            or counts.sum() != num_frames
        ):
            raise BatchError(
                "the sequences are not those of the batch",
                expected=f"lengths (S,) of at least 1, {num_frames} frames together",
                received=f"{counts.dtype} {counts.shape}: {counts.reshape(-1)[:20].tolist()}",
            )
        counts = counts.astype(np.int64)
        longest_first = np.argsort(-counts, kind="stable")
        rank = np.empty_like(longest_first)
        rank[longest_first] = np.arange(len(counts))
        starts = np.cumsum(counts) - counts
        step = np.arange(num_frames) - np.repeat(starts, counts)
        frames = np.lexsort((np.repeat(rank, counts), step))
        return cls(*map(torch.from_numpy, (longest_first, frames, np.bincount(step))))
