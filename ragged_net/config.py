"""NetConfig: the settings of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from entity_env.arguments import (
    ABOVE_0,
    check_fields,
    check_whole,
    checked,
    named_arguments,
    one_of,
    or_none,
)
from entity_env.errors import SettingError
from entity_env.spaces import ObsSpace, Position
from ragged_net.position_config import RelativePosition, Translation, check_feature, positions_of
from ragged_net.tensor_checks import check_kind

__all__ = ["BACKENDS", "NetConfig", "_relations", "check_sharpness"]

KindT = TypeVar("KindT")

BACKENDS = ("reference", "grouped", "numba", "triton")
"""The attention backends (``model/attention.py``)."""
_WITH_BIAS = ("auto", "grouped")
"""The attention backends that support a bias."""


def check_sharpness(temperature: Any, top_k: Any) -> None:
    """Raise SettingError unless a temperature is above 0 and ``top_k`` a whole number >= 0."""
    if temperature == 0:
        raise SettingError(
            "temperature is 0",
            expected="a number > 0",
            hint="greedy=True takes the most likely choice",
        )
    ABOVE_0("temperature", temperature)
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 0:
        raise SettingError(
            "top_k is out of range",
            expected="a whole number of choices, or 0 for all of them",
            received=repr(top_k),
        )


def _order(where: str, order: Any) -> tuple[str, ...]:
    names = () if isinstance(order, str) or not isinstance(order, Sequence) else tuple(order)
    if len(names) < 2 or len(set(names)) < len(names) or not all(type(n) is str for n in names):
        raise SettingError(
            f"{where} is not an order of actions",
            expected="the names of at least two actions, each once, or None",
            received=repr(order),
        )
    return names


_HINT = "net.relations: [[Job.machine, Machine.index]]"


def _relations(where: str, relations: Any) -> tuple[tuple[str, ...], ...]:
    """Return the relations as tuples of ``Type.feature``, checked without a space.

    Raises:
        SettingError: They are not lists of ``Type.feature``.
    """
    found: list[tuple[str, ...]] = []
    relation: Any
    for relation in relations if _is_list(relations) else [None]:
        types = (
            [part.partition(".")[0] for part in relation if isinstance(part, str)]
            if relation
            else []
        )
        if (
            not _is_list(relation)
            or len(types) < len(relation)
            or not all(map(_is_dotted, relation))
        ):
            raise SettingError(
                f"{where} names no features",
                expected="lists of an entity type and a feature each",
                received=repr(relations),
                hint=_HINT,
            )
        if len(set(types)) < len(types):
            raise SettingError(
                f"{where} names an entity type twice in one relation",
                expected="each type once; put another feature of it into another relation",
                received=repr(relation),
            )
        found.append(tuple(relation))
    return tuple(found)


def _relations_in(
    obs_space: ObsSpace, relations: tuple[tuple[str, ...], ...]
) -> list[dict[str, str]]:
    """Return the feature of each entity type in each relation.

    Raises:
        SettingError: The space lacks a name, or a feature is not a plain number.
    """
    found = [
        {part.partition(".")[0]: part.partition(".")[2] for part in relation}
        for relation in relations
    ]
    for parts in found:
        for name, feature in parts.items():
            check_feature(obs_space, "net.relations", name, feature)
    return found


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and bool(value)


def _is_dotted(part: object) -> bool:
    return isinstance(part, str) and all(part.partition("."))


@named_arguments(SettingError)
@dataclass(frozen=True)
class NetConfig:
    """Settings of a network, or of its separate value network.

    Args:
        dim: Width D of the vector of an entity; a multiple of ``heads``. A wider network represents
            more; its time grows with up to the square of the width.
        layers: Number of transformer blocks. Each lets entities combine what they have learned
            about others once more, and takes the same time.
        heads: Number of attention heads H in each block. More heads attend to more things at once,
            each with a smaller width of ``dim / heads``.
        mlp_ratio: Width of the hidden layer of a block's MLP, in multiples of ``dim``. A wider
            layer represents more, and takes proportionally longer.
        attention: ``auto`` or the name of an attention backend. ``auto`` takes the fastest one that
            supports the device and the settings; the results agree up to rounding.
        action_order: Names of actions, each of which is conditioned on the choices of those before
            it; None chooses all actions independently. Conditioned choices fit together, but the
            heads run one after the other. See ``heads/conditioning.py``.
        value_norm: ``popart`` normalises values by mean and standard deviation of past returns, for
            rewards of any scale; ``none`` keeps values in units of the rewards, which suffices if
            returns are about 1. See ``heads/value.py``.
        memory: ``none``, ``lstm`` or ``gru``: a recurrent cell that reads each frame, and joins it
            as an additional entity. It can use earlier frames, but makes gradient steps slower,
            because frames are read in their order.
        memory_size: Width of that cell. A wider one remembers more, and takes longer.
        relative_position: Use of the relative positions of entities. None uses them with the
            defaults of ``RelativePosition`` if the space declares a ``Position``; otherwise
            coordinates are features.
        translation: Reference entity to which positions are made relative before they are embedded;
            None for none.
        relations: Features that contain the same kind of number, such as ``[[Job.machine,
            Machine.index]]``: attention can tell that two entities have the same whole number; -1
            stands for no number. This also works for numbers that are not in the training, but
            their order is lost, because the numbers themselves are not embedded. See
            ``model/turns.py``.
        embedding: ``linear`` adds the vectors of the features of an entity; ``attributes`` lets the
            features attend to each other first, which relates them, but runs in plain torch. See
            ``model/discrete.py``.
        tile_summaries: Number of entities that stand for the cells of a ``Grid``. More of them keep
            more of a map, and make attention slower.
        tile_channels: Width of the convolutions that compute them. Wider ones represent more, and
            take longer. See ``model/tiles.py``.

    Raises:
        SettingError: A value is out of range.
        BatchError: An attention backend does not exist.
    """

    dim: int = checked(check_whole, 64)
    layers: int = checked(check_whole, 2)
    heads: int = checked(check_whole, 4)
    mlp_ratio: int = checked(check_whole, 2)
    attention: str = checked(one_of("auto", *BACKENDS), "auto")
    action_order: Sequence[str] | None = checked(or_none(_order), None)
    value_norm: str = checked(one_of("none", "popart"), "popart")
    memory: str = checked(one_of("none", "lstm", "gru"), "none")
    memory_size: int = checked(check_whole, 128)
    relative_position: RelativePosition | None = None
    translation: Translation | None = None
    relations: Sequence[Sequence[str]] | None = checked(or_none(_relations), None)
    embedding: str = checked(one_of("linear", "attributes"), "linear")
    tile_summaries: int = checked(check_whole, 4)
    tile_channels: int = checked(check_whole, 32)

    def __post_init__(self) -> None:
        """Check all values; whole numbers of NumPy become Python's."""
        check_fields(self)
        for name, kind in (("relative_position", RelativePosition), ("translation", Translation)):
            check_kind(f"NetConfig.{name}", getattr(self, name), kind, type(None))
        if self.dim % self.heads:
            raise SettingError(
                "dim cannot be split into heads",
                expected="dim, a multiple of heads",
                received=f"dim={self.dim}, heads={self.heads}",
                hint=_neighbours(self.dim, self.heads),
                where="NetConfig",
                about="dim heads",
            )
        setting = self.relative_position
        if setting is not None and setting.kind == "mlp" and self.attention not in _WITH_BIAS:
            raise SettingError(
                "relative_position.kind='mlp' computes attention in plain torch only",
                expected=f"attention={' or '.join(_WITH_BIAS)}, or kind='waves'",
                received=f"attention={self.attention!r}",
                where="NetConfig",
                about="relative_position attention",
            )

    def positions(self, obs_space: ObsSpace) -> dict[str, Position]:
        """Return the positions of the entity types whose relative positions the network sees.

        Raises:
            SettingError: The settings do not fit the space.
        """
        if self.relative_position is None and self.translation is not None:
            return {}  # the translation uses the declared positions
        return positions_of(obs_space, self.relative_position)

    def not_embedded(self, obs_space: ObsSpace) -> dict[str, tuple[str, ...]]:
        """Return the features of each entity type that are not embedded."""
        setting, found = self.relative_position, dict[str, tuple[str, ...]]()
        if setting is None or not setting.absolute:
            found = {name: position.names for name, position in self.positions(obs_space).items()}
        for relation in self.relations_in(obs_space):
            for name, feature in relation.items():
                found[name] = (*found.get(name, ()), feature)
        return found

    def relations_in(self, obs_space: ObsSpace) -> list[dict[str, str]]:
        """Return the feature of each entity type in each relation.

        Raises:
            SettingError: The settings do not fit the space, or each other.
        """
        if self.relations is None:
            return []
        if self.positions(obs_space):
            raise SettingError(
                "relations and relative positions cannot be combined: both rotate the same numbers",
                expected="one of them; net.relative_position.kind=none ignores declared positions",
            )
        return _relations_in(obs_space, tuple(map(tuple, self.relations)))

    @property
    def position_bias(self) -> bool:
        """True if blocks add a bias to their attention scores, which no kernel supports."""
        return self.relative_position is not None and self.relative_position.kind == "mlp"

    @property
    def fused(self) -> bool:
        """True if compiled blocks can be used, which have their own attention."""
        return self.attention == "auto" and not self.position_bias


def _neighbours(dim: int, heads: int) -> str:
    """Return the nearest valid widths for ``heads``, and numbers of heads for ``dim``."""
    below = dim // heads * heads
    widths = [f"dim={width}" for width in (below, below + heads) if width]
    fitting = [number for number in range(1, min(dim, 1024) + 1) if dim % number == 0]
    nearest_ones = sorted(sorted(fitting, key=lambda number: abs(number - heads))[:2])
    return (
        f"{' or '.join(widths)} with heads={heads}; "
        f"{' or '.join(f'heads={number}' for number in nearest_ones)} with dim={dim}"
    )
