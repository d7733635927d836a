"""Length distributions, and baselines that pad, shared by several benchmarks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["Batch", "lengths"]


def lengths(name: str, frames: int, seed: int = 0) -> np.ndarray:
    """Return the number of entities of each frame. Shape: (frames,), int64."""
    rng = np.random.default_rng(seed)
    if name.startswith("constant "):
        return np.full(frames, int(name.removeprefix("constant ")))
    if name == "95% of 5, 5% of 200":
        drawn = np.full(frames, 5)
        drawn[rng.permutation(frames)[: round(frames * 0.05)]] = 200  # exactly 5% of them
        return drawn
    low, high = (int(word) for word in name.removeprefix("uniform ").split(".."))
    return rng.integers(low, high + 1, frames)


@dataclass(frozen=True)
class Batch:
    """Frames of given lengths, flat and padded.

    Args:
        offsets: (B + 1,) int64.
        padding: (B, longest) bool, True where there is no entity.
    """

    offsets: Tensor
    padding: Tensor

    @classmethod
    def of(cls, counts: np.ndarray) -> Batch:
        """Return the batch of frames with these lengths (B,)."""
        counts = torch.from_numpy(counts.astype(np.int64))
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        return cls(offsets, torch.arange(int(counts.max()))[None, :] >= counts[:, None])

    @property
    def rows(self) -> int:
        """The number of all entities N."""
        return int(self.offsets[-1])

    def to(self, device: torch.device) -> Batch:
        """Return the same batch on a device."""
        return Batch(self.offsets.to(device), self.padding.to(device))

    def pad(self, x: Tensor) -> Tensor:
        """Flat rows (N, ...) -> (B, longest, ...), zeros where there is no entity."""
        padded = x.new_zeros(*self.padding.shape, *x.shape[1:])
        padded[~self.padding] = x
        return padded

    def flat(self, padded: Tensor) -> Tensor:
        """Return the flat rows of padded ones, the inverse of ``pad``."""
        return padded[~self.padding]
