"""NetConfig: the size and the kind of a network."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from entity_env.spaces import ObsSpace, Position
from ragged_net.errors import NetConfigError, check_kind, nearest, whole
from ragged_net.model.attention import check_backend
from ragged_net.position_config import RelativePosition, Translation, positions_of
from ragged_net.relation_config import checked_relations, relations_in

__all__ = ["ACTIVATIONS", "MEMORIES", "NetConfig", "check_activation", "check_sharpness"]

KindT = TypeVar("KindT")

ACTIVATIONS = ("relu", "gelu")
VALUE_NORMS = ("none", "popart")
MEMORIES = ("none", "lstm", "gru")
EMBEDDINGS = ("linear", "attributes")
DISCRETE = ("sum", "concat")
_WITH_BIAS = ("auto", "grouped")
"""The attention that can stand for the one with a bias."""


def check_sharpness(temperature: Any, top_k: Any) -> None:
    """Raise NetConfigError unless a temperature is above 0 and ``top_k`` a whole number >= 0."""
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not is_number or not 0 < temperature < math.inf:
        raise NetConfigError(
            "temperature is out of range",
            expected="a finite number > 0",
            received=repr(temperature),
            hint="greedy=True takes the likeliest choice" if temperature == 0 else None,
        )
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 0:
        raise NetConfigError(
            "top_k is out of range",
            expected="a whole number of choices, or 0 for all of them",
            received=repr(top_k),
        )


def check_activation(name: object) -> None:
    """Raise NetConfigError unless ``name`` is that of an activation."""
    _check_option("activation", name, ACTIVATIONS)


def _check_option(setting: str, name: object, options: tuple[str, ...]) -> None:
    if not isinstance(name, str) or name not in options:
        raise NetConfigError(
            f"NetConfig.{setting} does not exist",
            received=repr(name),
            options=options,
            hint=nearest(name, options),
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
        action_order: Names of actions, each of which is decided given what those before it have
            become; None decides all of them independently. See ``heads/conditioning.py``.
        value_norm: ``popart`` learns values in units of the deviation of past returns, for rewards
            of any size; ``none`` as they are. See ``heads/popart.py``.
        memory: ``none``, ``lstm`` or ``gru``: a recurrent cell that reads each frame, and joins it
            as one more entity.
        memory_size: H, the width of that cell.
        relative_position: How entities see each other's positions; None: as features, or where the
            space declares a ``Position``, with the defaults of ``RelativePosition``.
        translation: Whose frame positions are moved into before they are embedded; None: nobody's.
        relations: Features that name the same thing, such as ``[[Job.machine, Machine.index]]``:
            entities with the same whole number see in attention that it is the same; -1 for none.
            The numbers themselves are not embedded. See ``model/relations.py``.
        embedding: ``linear`` adds up what the features of an entity stand for; ``attributes`` lets
            them attend to each other first. See ``model/attributes.py``.
        discrete: ``sum``: each value of a discrete feature has a vector of width D; ``concat``: it
            has a few numbers, and a linear layer reads those of all features together.
        tile_summaries: How many entities stand for the cells of a ``Grid``.
        tile_channels: The width of the convolutions that make them. See ``model/tiles.py``.

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
    action_order: Sequence[str] | None = None
    value_norm: str = "none"
    memory: str = "none"
    memory_size: int = 128
    relative_position: RelativePosition | None = None
    translation: Translation | None = None
    relations: Sequence[Sequence[str]] | None = None
    embedding: str = "linear"
    discrete: str = "sum"
    tile_summaries: int = 4
    tile_channels: int = 32

    def __post_init__(self) -> None:
        """Check all values; whole numbers of NumPy become Python's."""
        sizes = "dim", "layers", "heads", "mlp_ratio", "memory_size"
        for name in (*sizes, "tile_summaries", "tile_channels"):
            object.__setattr__(self, name, whole(f"NetConfig.{name}", getattr(self, name)))
        if self.dim % self.heads:
            raise NetConfigError(
                "NetConfig.dim cannot be split into heads",
                expected="dim, a multiple of heads",
                received=f"dim={self.dim}, heads={self.heads}",
                hint=_neighbours(self.dim, self.heads),
            )
        check_activation(self.activation)
        _check_option("memory", self.memory, MEMORIES)
        _check_option("embedding", self.embedding, EMBEDDINGS)
        _check_option("discrete", self.discrete, DISCRETE)
        if self.embedding == "attributes" and self.discrete == "concat":
            raise NetConfigError(
                "embedding='attributes' and discrete='concat' do not go together",
                expected="one of them: attributes that attend to each other are not concatenated",
            )
        if not isinstance(self.value_norm, str) or self.value_norm not in VALUE_NORMS:
            raise NetConfigError(
                "NetConfig.value_norm does not exist",
                received=repr(self.value_norm),
                options=VALUE_NORMS,
                hint=nearest(self.value_norm, VALUE_NORMS),
            )
        if self.action_order is not None:
            object.__setattr__(self, "action_order", _checked_order(self.action_order))
        check_kind(
            "NetConfig.relative_position", self.relative_position, RelativePosition, type(None)
        )
        if self.relations is not None:
            object.__setattr__(self, "relations", checked_relations(self.relations))
        check_backend(self.attention)
        check_kind("NetConfig.translation", self.translation, Translation, type(None))
        setting = self.relative_position
        if setting is not None and setting.kind == "mlp" and self.attention not in _WITH_BIAS:
            raise NetConfigError(
                "relative_position.kind='mlp' has its own attention in plain torch",
                expected=f"attention={' or '.join(_WITH_BIAS)}, or kind='waves'",
                received=f"attention={self.attention!r}",
            )
        if self.translation is not None and self.translation.each_actor:
            for name, off in (("memory", "none"), ("action_order", None)):
                if getattr(self, name) != off:
                    raise NetConfigError(
                        f"translation.each_actor and {name} do not go together",
                        expected="one of them: each actor has a frame of its own",
                        received=f"{name}={getattr(self, name)!r}",
                    )

    def positions(self, obs_space: ObsSpace) -> dict[str, Position]:
        """Return the entity types whose relative positions the network sees.

        Raises:
            NetConfigError: Settings that do not fit the space.
        """
        if self.relative_position is None and self.translation is not None:
            return {}  # declared positions are for the translation
        return positions_of(obs_space, self.relative_position)

    def not_embedded(self, obs_space: ObsSpace) -> dict[str, tuple[str, ...]]:
        """For each entity type, the coordinates that are seen by offsets alone."""
        setting, found = self.relative_position, dict[str, tuple[str, ...]]()
        if setting is None or not setting.absolute:
            found = {name: own.names for name, own in self.positions(obs_space).items()}
        for relation in self.relations_in(obs_space):
            for name, feature in relation.items():
                found[name] = (*found.get(name, ()), feature)
        return found

    def relations_in(self, obs_space: ObsSpace) -> list[dict[str, str]]:
        """For each relation, the feature of each entity type that is in it.

        Raises:
            NetConfigError: Settings that do not fit the space, or each other.
        """
        if self.relations is None:
            return []
        if self.positions(obs_space):
            raise NetConfigError(
                "relations and relative positions do not go together: both turn the same numbers",
                expected="one of them; net.relative_position.kind=none leaves declared positions "
                "alone",
            )
        return relations_in(obs_space, tuple(map(tuple, self.relations)))

    @property
    def position_bias(self) -> bool:
        """True if blocks add a bias to their scores, which no kernel does."""
        return self.relative_position is not None and self.relative_position.kind == "mlp"

    @property
    def fused(self) -> bool:
        """True if compiled blocks may take over, with their one activation and own attention."""
        return self.activation == "relu" and self.attention == "auto" and not self.position_bias


def _checked_order(order: Any) -> tuple[str, ...]:
    names = () if isinstance(order, str) or not isinstance(order, Sequence) else tuple(order)
    if len(names) < 2 or len(set(names)) < len(names) or not all(type(n) is str for n in names):
        raise NetConfigError(
            "NetConfig.action_order is no order",
            expected="the names of two actions or more, each once, or None",
            received=repr(order),
        )
    return names


def _neighbours(dim: int, heads: int) -> str:
    """Return the nearest valid widths for ``heads`` and numbers of heads for ``dim``."""
    below = dim // heads * heads
    widths = [f"dim={width}" for width in (below, below + heads) if width]
    fitting = [number for number in range(1, min(dim, 1024) + 1) if dim % number == 0]
    nearest_ones = sorted(sorted(fitting, key=lambda number: abs(number - heads))[:2])
    return (
        f"{' or '.join(widths)} with heads={heads}; "
        f"{' or '.join(f'heads={number}' for number in nearest_ones)} with dim={dim}"
    )
