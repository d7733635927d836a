"""The encoder: a batch of entity lists -> one vector for each entity."""

from __future__ import annotations

from torch import Tensor, nn

from entity_env.spaces import ObsSpace
from ragged_net import compiled
from ragged_net.batch import EntityBatch
from ragged_net.chain import NO_ROWS, Layer, all_are_watched, chain, is_plain, weights_of
from ragged_net.compiled import WeightArrays
from ragged_net.compiled_layers import ReluLinear
from ragged_net.config import NetConfig
from ragged_net.embedding import EntityEmbedding
from ragged_net.frames import Frames
from ragged_net.layout import Layout
from ragged_net.ragged import RaggedTensor
from ragged_net.transformer import RaggedTransformer, make_activation

__all__ = ["Encoder", "Mix"]


class Mix(nn.Module):
    """An activation and a linear layer."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.activation = make_activation(config.activation)
        self.linear = nn.Linear(config.dim, config.dim)
        self.fused = config.fused

    def forward(self, x: Tensor) -> Tensor:
        """Rows (N, D) -> rows (N, D)."""
        layer = self.layer() if compiled.can_run(x) else None
        if layer is not None:
            return chain([layer], x)
        y: Tensor = self.linear(self.activation(x))
        return y

    def layer(self) -> ReluLinear | None:
        """``forward`` as a layer of a chain, for widths that fit; None if torch must run it."""
        if not (self.fused and is_plain(self.activation, nn.ReLU)):
            return None
        weights = weights_of((self.linear,), (nn.Linear,))
        return ReluLinear(weights) if weights and compiled.widths_fit(weights[1].shape[0]) else None


class Encoder(nn.Module):
    """Embedding and transformer: a batch -> one vector for each entity, in the flat order.

    An activation and a linear layer stand between the two: the first attention can then compare
    distances, for which products of raw coordinates are not enough.
    """

    def __init__(self, obs_space: ObsSpace, with_global: bool, config: NetConfig) -> None:
        super().__init__()
        self.embedding = EntityEmbedding(obs_space, config.dim, with_global)
        self.mix = Mix(config)
        self.transformer = RaggedTransformer(config)
        self.fits = compiled.widths_fit(config.dim, config.heads)
        self._arrays = WeightArrays()

    def forward(self, batch: EntityBatch, layout: Layout, hidden: Tensor | None) -> RaggedTensor:
        """Vectors (N, D) of all entities; visible ones know nothing of ``hidden`` (N,) ones."""
        frames = Frames(layout.offsets, layout.num_rows, hidden, layout.known_offsets)
        layers = self._layers(batch, layout, frames)
        if layers is not None:
            x = chain(layers, NO_ROWS, self._arrays)
        else:
            # One expression: a name would keep a layer's input alive for all layers after it.
            x = self.transformer(self.mix(self.embedding(batch, layout)), frames)
        return RaggedTensor.unchecked(x, layout.offsets)

    def _layers(self, batch: EntityBatch, layout: Layout, frames: Frames) -> list[Layer] | None:
        """All of them, if they can run as one chain."""
        if not (
            self.fits
            and layout.num_rows
            and not all_are_watched()
            and batch.device.type == "cpu"
            and is_plain(self.embedding, EntityEmbedding)
            and is_plain(self.mix, Mix)
            and is_plain(self.transformer, RaggedTransformer)
        ):
            return None
        mix, rest = self.mix.layer(), self.transformer.layers(frames)
        if mix is None or rest is None:
            return None
        first = self.embedding.layer(batch, layout)
        return None if first is None else [first, mix, *rest]
