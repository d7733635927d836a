"""NetConfig: the size and the kind of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragged_net.attention import check_backend
from ragged_net.errors import NetConfigError

__all__ = ["ACTIVATIONS", "NetConfig"]

ACTIVATIONS = ("relu", "gelu")


@dataclass(frozen=True)
class NetConfig:
    """Settings of a network, or of its separate value network.

    Args:
        dim: D, the width of an entity's vector; a multiple of ``heads``.
        layers: Number of transformer blocks.
        heads: H, attention heads in each block.
        mlp_ratio: Width of the hidden layer of a block's MLP, in multiples of ``dim``.
        activation: ``relu`` or ``gelu`` (exact).
        attention: ``auto`` or the name of an attention backend.

    Raises:
        NetConfigError: A value out of range.
        UnknownNameError: An attention backend that does not exist.
    """

    dim: int = 64
    layers: int = 2
    heads: int = 4
    mlp_ratio: int = 2
    activation: str = "relu"
    attention: str = "auto"

    def __post_init__(self) -> None:
        """Check all values."""
        for name in ("dim", "layers", "heads", "mlp_ratio"):
            value = _whole(getattr(self, name))
            object.__setattr__(self, name, value)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise NetConfigError(
                    f"NetConfig.{name} is out of range",
                    expected="a whole number >= 1",
                    received=repr(value),
                )
        if self.dim % self.heads:
            raise NetConfigError(
                "NetConfig.dim cannot be split into heads",
                expected="dim, a multiple of heads",
                received=f"dim={self.dim}, heads={self.heads}",
            )
        if self.activation not in ACTIVATIONS:
            raise NetConfigError(
                "NetConfig.activation does not exist",
                received=repr(self.activation),
                options=ACTIVATIONS,
            )
        check_backend(self.attention)

    @property
    def fused(self) -> bool:
        """Whether compiled blocks may take over, with their one activation and own attention."""
        return self.activation == "relu" and self.attention == "auto"


def _whole(value: Any) -> Any:
    """A whole number of NumPy or torch as an int; all else as it is."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return value
