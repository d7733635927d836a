"""The encoder: a batch of entity lists -> one vector for each entity."""

from __future__ import annotations

from torch import Tensor, nn

from entity_env.spaces import ObsSpace
from ragged_net import compiled
from ragged_net.batch import EntityBatch
from ragged_net.compiled_layers import NO_ROWS, Layer, ReluLinear, chain, is_plain
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
        self.fused = config.activation == "relu" and config.attention == "auto"

    def forward(self, x: Tensor) -> Tensor:
        """Rows (N, D) -> rows (N, D)."""
        if self.fused and compiled.can_run(x):
            return chain([self.layer()], x)
        y: Tensor = self.linear(self.activation(x))
        return y

    def layer(self) -> ReluLinear:
        """``forward`` as a layer of a chain, if it is ``fused`` and its width fits."""
        return ReluLinear((self.linear.weight, self.linear.bias))


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
        self.dim, self.heads = config.dim, config.heads

    def forward(self, batch: EntityBatch, layout: Layout, hidden: Tensor | None) -> RaggedTensor:
        """Vectors (N, D) of all entities; visible ones know nothing of ``hidden`` (N,) ones."""
        frames = Frames(layout.offsets, layout.num_rows, hidden, layout.known_offsets)
        layers = self._layers(batch, layout, frames)
        if layers is not None:
            x = chain(layers, NO_ROWS)
        else:
            # One expression: a name would keep a layer's input alive for all layers after it.
            x = self.transformer(self.mix(self.embedding(batch, layout)), frames)
        return RaggedTensor.unchecked(x, layout.offsets)

    def _layers(self, batch: EntityBatch, layout: Layout, frames: Frames) -> list[Layer] | None:
        """All of them, if they can run as one chain."""
        if not (
            batch.device.type == "cpu"
            and layout.num_rows
            and is_plain(self.embedding, EntityEmbedding)
            and is_plain(self.mix, Mix)
            and is_plain(self.transformer, RaggedTransformer)
            and self.mix.fused
            and compiled.widths_fit(self.dim, self.heads)
        ):
            return None
        first, rest = self.embedding.layer(batch, layout), self.transformer.layers(frames)
        return None if first is None or rest is None else [first, self.mix.layer(), *rest]
