"""The encoder: from a batch to vectors of its frames and entities, also with a user's trunk.

The transformer is pre-norm on flat rows, in which only attention depends on frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from entity_env.errors import BatchError, SettingError
from entity_env.spaces import ObsSpace
from ragged_net import kernels
from ragged_net.batch import EntityBatch
from ragged_net.compiled import autograd as compiled
from ragged_net.compiled.autograd import WeightArrays, all_are_watched
from ragged_net.compiled.chain import (
    NO_ROWS,
    Block,
    Layer,
    Norm,
    ReluLinear,
    chain,
    is_plain,
    weights_of,
)
from ragged_net.config import NetConfig
from ragged_net.frames import Frames
from ragged_net.layout import Encoded, Layout, Reading
from ragged_net.model.attention import PositionBias, attend
from ragged_net.model.embedding import EntityEmbedding
from ragged_net.model.geometry import PlaceReader
from ragged_net.model.turns import PositionWaves, RelationTurns
from ragged_net.ragged import RaggedTensor
from ragged_net.tensor_checks import check_kind, check_rows

__all__ = ["Encoder", "Mix", "OwnTrunk", "RaggedTransformer", "TransformerBlock", "frame_means"]


def _linear(fan_in: int, fan_out: int, gain: float = 1.0) -> nn.Linear:
    """Return a Linear layer with deviation ``gain / sqrt(fan_in)`` and no initial bias."""
    layer = nn.Linear(fan_in, fan_out)
    nn.init.normal_(layer.weight, std=gain / fan_in**0.5)
    nn.init.zeros_(layer.bias)
    return layer


class TransformerBlock(nn.Module):
    """Attention and an MLP, each after a LayerNorm and with a residual connection.

    Args:
        config: Width, heads, MLP and attention backend.
        axes: Number of coordinates of positions that add a bias to the scores; 0 for no bias.
    """

    def __init__(self, config: NetConfig, axes: int = 0) -> None:
        super().__init__()
        self.bias = PositionBias(config, axes) if axes else None
        dim, hidden = config.dim, config.dim * config.mlp_ratio
        self.heads, self.backend = config.heads, config.attention
        self.fused = config.fused
        # Each block adds two residual branches. This gain keeps the variance of their sum constant
        # at any depth (Radford et al. 2019, "Language models are unsupervised multitask learners").
        gain = (2 * config.layers) ** -0.5
        self.norm_attention = nn.LayerNorm(dim)
        self.qkv = _linear(dim, 3 * dim)
        self.out = _linear(dim, dim, gain)
        self.norm_mlp = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(_linear(dim, hidden), nn.ReLU(), _linear(hidden, dim, gain))

    def forward(self, x: Tensor, frames: Frames | Layout) -> Tensor:
        """Return rows (N, D) from rows (N, D); see ``RaggedTransformer``."""
        frames = Frames.of(frames)
        rows, dim = x.shape
        layer = self.layer(frames) if compiled.can_run(x) else None
        if layer is not None:
            return chain([layer], x)
        qkv = self.qkv(self.norm_attention(x)).view(rows, 3, self.heads, dim // self.heads)
        if self.bias is not None:
            mixed = self.bias.attend(qkv, frames)
        else:
            mixed = attend(qkv, frames, self.backend)
        x = x + self.out(mixed.reshape(rows, dim))  # (N, H, D / H) -> (N, D)
        residual: Tensor = self.mlp(self.norm_mlp(x))
        return x + residual

    def layer(self, frames: Frames, reading: Reading | None = None) -> Block | None:
        """Return ``forward`` as a layer of a chain, or None if torch must run it.

        With ``reading`` it is the last layer, and returns those results.
        """
        parts, mlp = self._modules, self.mlp
        if not (self.fused and is_plain(mlp, nn.Sequential) and len(mlp) == 3):
            return None
        if self.bias is not None or (frames.turns is not None and frames.turns.requires_grad):
            return None
        up, activation, down = mlp
        modules = [parts["norm_attention"], parts["qkv"], parts["out"], parts["norm_mlp"], up, down]
        weights = weights_of(modules, _KINDS)  # type: ignore[arg-type]
        if weights is None or not is_plain(activation, nn.ReLU):
            return None
        dim, hidden = weights[0].shape[0], weights[9].shape[0]
        if not (compiled.widths_fit(dim, self.heads) and compiled.widths_fit(hidden)):
            return None
        return Block(frames, self.heads, weights, reading)


_KINDS = (nn.LayerNorm, nn.Linear, nn.Linear, nn.LayerNorm, nn.Linear, nn.Linear)
"""The modules whose weights a block has."""


class RaggedTransformer(nn.Module):
    """A sequence of blocks, without a LayerNorm after the last one.

    Args:
        config: Width, layers, heads, MLP and attention backend.
        axes: See ``TransformerBlock``.
    """

    def __init__(self, config: NetConfig, axes: int = 0) -> None:
        super().__init__()
        check_kind("the config of a transformer", config, NetConfig)
        self.blocks = nn.ModuleList(TransformerBlock(config, axes) for _ in range(config.layers))

    def forward(self, x: Tensor, frames: Frames | Layout) -> Tensor:
        """Return rows (N, D) from rows (N, D).

        Args:
            x: Rows of all frames, such as the output of ``EntityEmbedding``.
            frames: Layout of the rows, or ``Frames``, which may also hide rows.

        Raises:
            BatchError: The rows do not fit the frames.
        """
        check_rows("the rows of a transformer", x)
        frames = Frames.of(frames)
        for block in self.blocks:
            x = block(x, frames)
        return x

    def layers(self, frames: Frames, reading: Reading) -> list[Block] | None:
        """Return the layers of a chain that ends with ``reading``, or None.

        None also without blocks, because the last block would read the rows.
        """
        last = len(self.blocks) - 1
        found = [
            block.layer(frames, reading if i == last else None)
            if is_plain(block, TransformerBlock)
            else None
            for i, block in enumerate(self.blocks)
        ]
        layers = [layer for layer in found if layer is not None]
        return layers if 0 < len(layers) == len(found) else None


_PART_BITS = 6
_ADDED_AT_ONCE = 1 << _PART_BITS
"""Number of rows that one float32 sum adds up, as a power of 2."""


class Mix(nn.Module):
    """An activation and a linear layer."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.activation = nn.ReLU()
        self.linear = nn.Linear(config.dim, config.dim)
        self.fused = config.fused

    def forward(self, x: Tensor) -> Tensor:
        """Return rows (N, D) from rows (N, D)."""
        layer = self.layer() if compiled.can_run(x) else None
        if layer is not None:
            return chain([layer], x)
        y: Tensor = self.linear(self.activation(x))
        return y

    def layer(self) -> ReluLinear | None:
        """Return ``forward`` as a layer of a chain, or None if torch must run it."""
        if not (self.fused and is_plain(self.activation, nn.ReLU)):
            return None
        weights = weights_of((self.linear,), (nn.Linear,))
        return ReluLinear(weights) if weights and compiled.widths_fit(weights[1].shape[0]) else None


class Encoder(nn.Module):
    """Embedding and transformer: from a batch to vectors of its frames and entities.

    An activation and a linear layer follow the embedding, so that the first attention can compare
    distances, for which products of coordinates are not enough.

    Args:
        obs_space: Entity types and features.
        with_global: True if a global entity ends each frame.
        config: Settings of the network.
        only_means: True if vectors of entities are never needed, so that their LayerNorm is left
            out.
    """

    def __init__(
        self, obs_space: ObsSpace, with_global: bool, config: NetConfig, only_means: bool = False
    ) -> None:
        super().__init__()
        left_out, positions = config.not_embedded(obs_space), config.positions(obs_space)
        self.embedding = EntityEmbedding(obs_space, config.dim, with_global, left_out, config)
        biased = bool(positions) and config.position_bias
        self.waves: PositionWaves | RelationTurns | None = None
        if config.relations is not None:
            self.waves = RelationTurns(obs_space, config)
        elif positions and not biased:
            self.waves = PositionWaves(obs_space, config)
        setting, self.read_places = config.relative_position, None
        if biased and setting is not None:
            self.read_places = PlaceReader(obs_space, positions, setting.heading or {})
        self.mix = Mix(config)
        axes = len(next(iter(positions.values())).names) if biased else 0
        self.transformer: nn.Module = RaggedTransformer(config, axes)
        self.norm = None if only_means else nn.LayerNorm(config.dim)
        self.fits = compiled.widths_fit(config.dim, config.heads)
        self._arrays = WeightArrays()

    def forward(
        self,
        batch: EntityBatch,
        layout: Layout,
        hidden: Tensor | None = None,
        asked: Sequence[Tensor] = (),
    ) -> Encoded:
        """Return the means of the frames, and the vectors of some entities.

        Args:
            batch: B frames.
            layout: The flat order of their entities.
            hidden: Mask of the entities that the others cannot see; None if there are none. Shape:
                (N,).
            asked: Flat rows whose vectors are returned. Shape of each: (A,), int64.
        """
        frames = self.frames_of(batch, layout, hidden)
        if self._may_chain(batch, layout):
            encoded = self._chained(batch, layout, frames, asked)
            if encoded is not None:
                return encoded
            if self.embedding.in_torch:  # the layers after it may still be a chain
                return self.attend(self.mix(self.embedding(batch, layout)), frames, asked)
        # One expression, because a name would keep a layer's input in memory during later layers.
        x = self.transformer(self.mix(self.embedding(batch, layout)), frames)
        return self._read(x, frames, asked)

    def frames_of(self, batch: EntityBatch, layout: Layout, hidden: Tensor | None) -> Frames:
        """Return the lengths and places of the frames of ``batch`` for attention."""
        return Frames(
            layout.offsets,
            layout.num_rows,
            hidden,
            layout.known_offsets,
            turns=None if self.waves is None else self.waves(batch, layout),
            places=None if self.read_places is None else self.read_places(batch, layout),
        )

    def embed(self, batch: EntityBatch, layout: Layout) -> Tensor:
        """Return the rows (N, D) before attention."""
        x: Tensor = self.mix(self.embedding(batch, layout))
        return x

    def attend(self, x: Tensor, frames: Frames, asked: Sequence[Tensor] = ()) -> Encoded:
        """Return the output for rows (N, D), to which others may have been added."""
        if (
            self.fits
            and compiled.can_run(x)
            and is_plain(self.transformer, RaggedTransformer)
            and (found := self._last_layers(frames, asked)) is not None
        ):
            reading, layers = found
            return reading.split(chain(layers, x, self._arrays))
        return self._read(self.transformer(x, frames), frames, asked)

    def _read(self, x: Tensor, frames: Frames, asked: Sequence[Tensor]) -> Encoded:
        means = frame_means(RaggedTensor.unchecked(x, frames.offsets))
        if not asked:
            return Encoded(means, ())
        y = x if self.norm is None else self.norm(x)
        return Encoded(means, tuple(y.index_select(0, rows) for rows in asked))

    def _may_chain(self, batch: EntityBatch, layout: Layout) -> bool:
        return (
            self.fits
            and layout.num_rows > 0
            and kernels.available()
            and not all_are_watched()
            and batch.device.type == "cpu"
            and is_plain(self.embedding, EntityEmbedding)
            and is_plain(self.mix, Mix)
            and is_plain(self.transformer, RaggedTransformer)
        )

    def _chained(
        self, batch: EntityBatch, layout: Layout, frames: Frames, asked: Sequence[Tensor]
    ) -> Encoded | None:
        """Return ``forward`` as one chain of layers, or None if torch must run a part of it."""
        first, mix = self.embedding.layer(batch, layout), self.mix.layer()
        if first is None or mix is None:
            return None
        found = self._last_layers(frames, asked)
        if found is None:
            return None
        reading, layers = found
        return reading.split(chain([first, mix, *layers], NO_ROWS, self._arrays))

    def _last_layers(
        self, frames: Frames, asked: Sequence[Tensor]
    ) -> tuple[Reading, list[Layer]] | None:
        """Return blocks and norm as layers that end with a reading, or None for torch."""
        norm = [self.norm] if self.norm is not None and asked else []
        weights = weights_of(norm, [nn.LayerNorm] * len(norm))
        if weights is None or not isinstance(self.transformer, RaggedTransformer):
            return None
        reading = Reading.of(frames.offsets.shape[0] - 1, frames.num_rows, asked)
        blocks = self.transformer.layers(frames, reading)
        if blocks is None:
            return None
        return reading, [*blocks, *([Norm(weights, reading.num_frames)] if weights else [])]


def frame_means(entities: RaggedTensor) -> Tensor:
    """Return the mean (B, D) of each frame's rows (N, D) in float32, zeros for an empty frame."""
    check_kind("the rows of frames", entities, RaggedTensor)
    x, frame_ids = entities.values.float(), entities.frame_ids()
    # In parts, because one float32 sum of 10,000 equal rows is off by 0.02%. A part is the
    # intersection of a frame and a stretch of rows. The numbers of both never decrease, so that
    # their sum increases where a part begins; numbers that it skips are empty parts.
    # Shifted, because torch.compile miscompiles arange // 64 (torch 2.13, dynamic shapes).
    part_ids = frame_ids + (torch.arange(x.shape[0], device=x.device) >> _PART_BITS)
    count = entities.num_frames + x.shape[0] // _ADDED_AT_ONCE
    parts = x.new_zeros(count, x.shape[1]).index_add(0, part_ids, x)
    frame_of_part = frame_ids.new_zeros(count).scatter(0, part_ids, frame_ids)
    total = x.new_zeros(entities.num_frames, x.shape[1]).index_add(0, frame_of_part, parts)
    return total / entities.lengths.clamp_min(1)[:, None]


class OwnTrunk(nn.Module):
    """A module that calls ``module(rows, offsets)`` in place of the transformer.

    Args:
        module: Module from rows (N, D) and offsets (B + 1,) int64 to rows (N, D).
        encoder: Encoder whose transformer it replaces.

    Raises:
        SettingError: The encoder has relative positions, which a trunk does not support.
    """

    def __init__(self, module: nn.Module, encoder: Encoder) -> None:
        super().__init__()
        check_kind("the trunk of a network", module, nn.Module)
        if encoder.waves is not None or encoder.read_places is not None:
            raise SettingError(
                "a trunk of your own does not support relative positions and relations",
                expected="relative_position=RelativePosition(kind='none') and no relations, or no "
                "trunk",
                received=type(module).__name__,
            )
        self.module = module

    def forward(self, x: Tensor, frames: Frames | Layout) -> Tensor:
        """Return rows (N, D) from rows (N, D).

        Raises:
            BatchError: The batch has hidden entities, which the module does not know.
            BatchError, DtypeError: The result of the module is not rows of that shape.
        """
        frames = Frames.of(frames)
        if frames.hidden is not None:
            raise BatchError(
                "a trunk of your own does not know which entities are hidden from the policy",
                expected="a batch without hidden entities",
            )
        rows: Tensor = self.module(x, frames.offsets)
        check_rows("the rows that the trunk returns", rows, x.shape[1])
        if len(rows) != len(x):
            raise BatchError(
                "the trunk returns another number of rows than it was given",
                expected=len(x),
                received=len(rows),
            )
        return rows
