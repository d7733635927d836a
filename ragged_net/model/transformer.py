"""A pre-norm transformer on flat rows, in which only attention depends on frames."""

from __future__ import annotations

from torch import Tensor, nn

from ragged_net.compiled import autograd as compiled
from ragged_net.compiled.chain import Block, chain, is_plain, weights_of
from ragged_net.config import NetConfig
from ragged_net.frames import Frames
from ragged_net.layout import Layout, Reading
from ragged_net.model.attention import attend
from ragged_net.model.position_bias import PositionBias
from ragged_net.tensor_checks import check_kind, check_rows

__all__ = ["RaggedTransformer", "TransformerBlock"]


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
