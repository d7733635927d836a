"""The value head, which computes the value of each frame in float32, of any scale (PopArt)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from entity_env.arguments import check_whole
from ragged_net.devices import full_precision
from ragged_net.heads.kind import orthogonal
from ragged_net.tensor_checks import check_kind, check_rows

__all__ = ["PopArt", "ValueHead"]


class ValueHead(nn.Module):
    """The value of each frame, computed by an MLP from the mean of its entities.

    Args:
        dim: D, the width of an entity's vector.
        norm: ``none``, or ``popart`` for values of any size.
    """

    def __init__(self, dim: int, norm: str = "none") -> None:
        super().__init__()
        dim = check_whole("width of a head", dim)
        self.mlp = nn.Sequential(orthogonal(dim, dim, 2**0.5), nn.ReLU(), orthogonal(dim, 1, 1.0))
        self.norm = PopArt() if norm == "popart" else None

    def update_norm(self, returns: Tensor) -> None:
        """Add ``returns`` (B,) to the statistics if values are normalised."""
        if self.norm is not None:
            self.norm.update(returns, self.mlp[-1])

    def forward(self, means: Tensor) -> Tensor:
        """Return values (B,) float32 from the means (B, D) of the frames' vectors."""
        check_rows("the means of the frames", means)
        with full_precision(means):
            values: Tensor = self.mlp(means.float()).squeeze(-1)
        return values if self.norm is None else self.norm(values)


DECAY = 0.1
"""Weight of the newest returns, except in the first updates, which have equal weights."""
LEAST_STD = 1e-4


class PopArt(nn.Module):
    """The mean and the deviation of returns, with which the head learns normalised values.

    The head returns values; inside, a normalised number is scaled by the mean and the deviation of
    past returns. When these change, the last layer is adjusted so that every value stays the same
    (van Hasselt et al. 2016, "Learning values across many orders of magnitude").

    Attributes:
        mean: () float32.
        std: () float32, at least 1e-4.
    """

    mean: Tensor
    std: Tensor
    square: Tensor
    updates: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, value in (("mean", 0.0), ("std", 1.0), ("square", 1.0), ("updates", 0.0)):
            self.register_buffer(name, torch.tensor(value))

    def forward(self, normalised: Tensor) -> Tensor:
        """Return the values of normalised numbers, of any shape."""
        return normalised * self.std + self.mean

    @torch.no_grad()
    def update(self, returns: Tensor, last: nn.Module) -> None:
        """Add ``returns`` (B,) to the statistics, and adjust the ``last`` layer to keep all values.

        Nothing changes for empty returns, or returns that are not finite.
        """
        check_kind("the last layer of the value head", last, nn.Linear)
        assert isinstance(last, nn.Linear)
        if not returns.numel():
            return
        returns = returns.double()
        mean, square = returns.mean(), (returns**2).mean()
        sound = mean.isfinite() & square.isfinite()
        weight = torch.where(sound, (1 / (self.updates.double() + 1)).clamp_min(DECAY), 0.0)
        mean = self.mean + weight * torch.where(sound, mean - self.mean, 0.0)
        square = self.square + weight * torch.where(sound, square - self.square, 0.0)
        std = (square - mean**2).clamp_min(0.0).sqrt().clamp_min(LEAST_STD)
        std = torch.where(sound, std, self.std.double())
        last.weight.mul_((self.std / std).float())
        last.bias.copy_(((self.std * last.bias.double() + self.mean - mean) / std).float())
        for kept, value in ((self.mean, mean), (self.square, square), (self.std, std)):
            kept.copy_(value)
        self.updates.add_(sound)
