"""PopArt: the value head learns numbers of mean 0 and deviation 1, whatever the rewards are.

The head's output is the value as it is; inside, a normalised number is scaled by the mean and the
deviation of past returns. When these move, the last layer is changed so that every value stays what
it was (van Hasselt et al. 2016, "Learning values across many orders of magnitude").
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ragged_net.errors import check_kind

__all__ = ["PopArt"]

DECAY = 0.1
"""The weight of the newest returns, but in the first updates, which all count alike."""
LEAST_STD = 1e-4


class PopArt(nn.Module):
    """The mean and the deviation of returns.

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
        """Add ``returns`` (B,) to the statistics; the ``last`` layer changes so that values do not.

        Nothing changes for returns that are none, or not finite.
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
