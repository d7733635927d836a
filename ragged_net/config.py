"""NetConfig: the size and the kind of a network."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, TypeVar

from entity_env.spaces import ObsSpace, Position
from ragged_net.errors import NetConfigError, check_kind, nearest
from ragged_net.model.attention import check_backend
from ragged_net.position_config import RelativePosition, Translation, positions_of

__all__ = ["ACTIVATIONS", "NetConfig", "check_activation", "whole"]

KindT = TypeVar("KindT")

ACTIVATIONS = ("relu", "gelu")
_WITH_BIAS = ("auto", "grouped")
"""The attention that can stand for the one with a bias."""


def whole(where: str, value: Any) -> int:
    """``value``, of NumPy or torch, too, as a whole number of at least 1.

    Raises:
        NetConfigError: It is none.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise NetConfigError(
            f"{where} is out of range", expected="a whole number >= 1", received=repr(value)
        )
    return value


def check_activation(name: object) -> None:
    """Raise NetConfigError unless ``name`` is that of an activation."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise NetConfigError(
            "NetConfig.activation does not exist",
            received=repr(name),
            options=ACTIVATIONS,
            hint=nearest(name, ACTIVATIONS),
        )


def _names_its_settings(kind: type[KindT]) -> type[KindT]:
    """For a dataclass: what it has no field for is a NetConfigError with the nearest name."""
    original = kind.__init__

    @functools.wraps(original)
    def initialize(self: KindT, *values: Any, **settings: Any) -> None:
        fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
        for name in settings:
            if name not in fields:
                raise NetConfigError(
                    f"{kind.__name__} has no setting {name!r}",
                    options=fields,
                    hint=nearest(name, fields),
                )
        original(self, *values, **settings)

    kind.__init__ = initialize  # type: ignore[method-assign,assignment]
    return kind


@_names_its_settings
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
        relative_position: How entities see each other's positions; None: as features, or where the
            space declares a ``Position``, with the defaults of ``RelativePosition``.
        translation: Whose frame positions are moved into before they are embedded; None: nobody's.

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
    relative_position: RelativePosition | None = None
    translation: Translation | None = None

    def __post_init__(self) -> None:
        """Check all values; whole numbers of NumPy become Python's."""
        for name in ("dim", "layers", "heads", "mlp_ratio"):
            object.__setattr__(self, name, whole(f"NetConfig.{name}", getattr(self, name)))
        if self.dim % self.heads:
            raise NetConfigError(
                "NetConfig.dim cannot be split into heads",
                expected="dim, a multiple of heads",
                received=f"dim={self.dim}, heads={self.heads}",
                hint=_neighbours(self.dim, self.heads),
            )
        check_activation(self.activation)
        check_kind(
            "NetConfig.relative_position", self.relative_position, RelativePosition, type(None)
        )
        check_backend(self.attention)
        check_kind("NetConfig.translation", self.translation, Translation, type(None))
        setting = self.relative_position
        if setting is not None and setting.kind == "mlp" and self.attention not in _WITH_BIAS:
            raise NetConfigError(
                "relative_position.kind='mlp' has its own attention in plain torch",
                expected=f"attention={' or '.join(_WITH_BIAS)}, or kind='waves'",
                received=f"attention={self.attention!r}",
            )

    def positions(self, obs_space: ObsSpace) -> dict[str, Position]:
        """The entity types whose relative positions the network sees.

        Raises:
            NetConfigError: Settings that do not fit the space.
        """
        if self.relative_position is None and self.translation is not None:
            return {}  # declared positions are for the translation
        return positions_of(obs_space, self.relative_position)

    def not_embedded(self, obs_space: ObsSpace) -> dict[str, tuple[str, ...]]:
        """For each entity type, the coordinates that are seen by offsets alone."""
        setting = self.relative_position
        if setting is not None and setting.absolute:
            return {}
        return {name: own.names for name, own in self.positions(obs_space).items()}

    @property
    def position_bias(self) -> bool:
        """Whether blocks add a bias to their scores, which no kernel does."""
        return self.relative_position is not None and self.relative_position.kind == "mlp"

    @property
    def fused(self) -> bool:
        """Whether compiled blocks may take over, with their one activation and own attention."""
        return self.activation == "relu" and self.attention == "auto" and not self.position_bias


def _neighbours(dim: int, heads: int) -> str:
    """The nearest widths for so many heads, and the nearest numbers of heads for that width."""
    below = dim // heads * heads
    widths = [f"dim={width}" for width in (below, below + heads) if width]
    fitting = [number for number in range(1, min(dim, 1024) + 1) if dim % number == 0]
    nearest_ones = sorted(sorted(fitting, key=lambda number: abs(number - heads))[:2])
    return (
        f"{' or '.join(widths)} with heads={heads}; "
        f"{' or '.join(f'heads={number}' for number in nearest_ones)} with dim={dim}"
    )
