"""The value head, which computes the value of each frame in float32."""

from __future__ import annotations

from torch import Tensor, nn

from entity_env.arguments import check_whole
from ragged_net.heads.orthogonal import orthogonal
from ragged_net.heads.popart import PopArt
from ragged_net.model.transformer import make_activation
from ragged_net.precision import full_precision
from ragged_net.tensor_checks import check_rows

__all__ = ["ValueHead"]


class ValueHead(nn.Module):
    """The value of each frame, computed by an MLP from the mean of its entities.

    Args:
        dim: D, the width of an entity's vector.
        activation: ``relu`` or ``gelu``.
        norm: ``none``, or ``popart`` for values of any size.
    """

    def __init__(self, dim: int, activation: str = "relu", norm: str = "none") -> None:
        super().__init__()
        dim = check_whole("width of a head", dim)
        self.mlp = nn.Sequential(
            orthogonal(dim, dim, 2**0.5), make_activation(activation), orthogonal(dim, 1, 1.0)
        )
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
