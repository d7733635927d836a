"""Sines and cosines of continuous features, with which a network distinguishes close values.

A linear layer of a number x detects equal numbers of two entities only by a product of small
differences. With sines and cosines of several frequencies, "the same floor" or "one to the left" is
an inner product, which attention computes at once (Tancik et al. 2020, arXiv:2006.10739; for
numerical features Gorishniy et al. 2022, arXiv:2203.05556).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["LOWEST", "Waves"]

LOWEST = math.pi / 4
"""The lowest angular frequency, with a period of 8 deviations of the feature."""


class Waves(nn.Module):
    """A projection of sines and cosines of features.

    Args:
        columns: K, the number of features, at least 1.
        count: W, the number of frequencies, each twice the one before; at least 1.
        dim: D, the width of the result.
    """

    frequencies: Tensor

    def __init__(self, columns: int, count: int, dim: int) -> None:
        super().__init__()
        self._count = count
        self.project = nn.Linear(2 * count * columns, dim, bias=False)
        self.register_buffer("frequencies", self._frequencies(), persistent=False)

    def _frequencies(self, device: torch.device | None = None) -> Tensor:
        return LOWEST * 2.0 ** torch.arange(self._count, device=device)

    def _apply(self, *arguments: object, **settings: object) -> Waves:
        """Move the module, and set its constants, which ``to_empty`` leaves undefined."""
        super()._apply(*arguments, **settings)  # type: ignore[no-untyped-call]
        self.frequencies = self._frequencies(self.project.weight.device)
        return self

    def forward(self, features: Tensor) -> Tensor:
        """Return (N, D) of the normalised features (N, K), float32."""
        angles = features[:, :, None] * self.frequencies
        waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        projected: Tensor = self.project(waves.to(self.project.weight.dtype))
        return projected
