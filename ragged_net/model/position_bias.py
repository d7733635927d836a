"""Attention with a bias on each score, computed by a small network from the offset of two entities.

Offsets are relative to the query, rotated by its heading if it has one, and compressed for distant
entities. The network is evaluated for each pair of entities of a frame, so that it takes more time
than ``PositionWaves``; it runs in plain torch only, on frames grouped by length.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ragged_net import kernels
from ragged_net.config import NetConfig
from ragged_net.frames import Frames
from ragged_net.model.attention import permute
from ragged_net.model.geometry import distance, into_frame, offsets_between
from ragged_net.position_config import RelativePosition

__all__ = ["PositionBias"]

HIDDEN = 32
_MOST_PAIRS = 1 << 18
"""Maximum number of pairs in one pass of the small network."""


class PositionBias(nn.Module):
    """The bias of one block, a number for each head and offset.

    Args:
        config: Heads, unit and extent.
        axes: Number of coordinates K of a position.
    """

    def __init__(self, config: NetConfig, axes: int = 2) -> None:
        super().__init__()
        setting = config.relative_position or RelativePosition()
        self.unit, self.extent = setting.unit, setting.extent
        self.mlp = nn.Sequential(
            nn.Linear(axes + 1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, config.heads)
        )

    def forward(self, offsets: Tensor) -> Tensor:
        """Return biases (..., H) of offsets (..., K)."""
        far = distance(offsets).unsqueeze(-1)
        squashed = 2 * offsets / (self.unit + far)
        scale = math.log1p(self.extent / self.unit)
        levels = (far / self.unit).log1p() * (2 / scale)
        result: Tensor = self.mlp(torch.cat([squashed, levels], -1))
        return result

    def attend(self, qkv: Tensor, frames: Frames) -> Tensor:
        """Return the attention (N, H, D) of qkv (N, 3, H, D), with a bias between positions."""
        places, groups = frames.places, frames.groups
        if places is None or not qkv.shape[0]:
            return qkv[:, 2]
        tensors = [places.positions, places.known[:, None].float()]
        if places.heading is not None:
            tensors.append(places.heading[:, None])
        rows = torch.cat(tensors, 1)
        if groups.order is not None and groups.inverse is not None:
            qkv = permute(qkv, groups.order, groups.inverse)
            rows = rows.index_select(0, groups.order)
        outputs = []
        sizes = [length * count for length, count in groups.sizes]
        pieces = zip(torch.split(qkv, sizes), torch.split(rows, sizes), groups.sizes, strict=True)
        for i, (part, bias, (length, count)) in enumerate(pieces):
            mask = None if groups.masks is None else groups.masks[i]
            step = count if kernels.sizes_are_open() else max(1, _MOST_PAIRS // length**2)
            for first in range(0, count, step):
                here = slice(first * length, (first + step) * length)
                hidden = None if mask is None else mask[first : first + step]
                outputs.append(self._attend(part[here], bias[here], length, hidden))
        output = torch.cat(outputs)
        if groups.order is not None and groups.inverse is not None:
            output = permute(output, groups.inverse, groups.order)
        return output

    def _attend(self, qkv: Tensor, rows: Tensor, length: int, allowed: Tensor | None) -> Tensor:
        """Return the attention of some frames of one length."""
        _, _, heads, width = qkv.shape
        query, key, value = qkv.view(-1, length, 3, heads, width).permute(2, 0, 3, 1, 4)
        bias = self.biases(rows.view(-1, length, rows.shape[1])).to(qkv.dtype)
        if allowed is not None:
            bias = bias.masked_fill(~allowed, float("-inf"))
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return mixed.transpose(1, 2).reshape(-1, heads, width)

    def biases(self, rows: Tensor) -> Tensor:
        """Return biases (B, H, L, L) of frames of one length, from the rows of ``attend``."""
        axes = self.mlp[0].in_features - 1  # type: ignore[operator]
        positions, known = rows[..., :axes], rows[..., axes]
        offsets = offsets_between(positions)
        if rows.shape[-1] > axes + 1:
            offsets = into_frame(offsets, rows[..., axes + 1, None])
        both = (known[:, :, None] * known[:, None, :]).unsqueeze(-1)
        biases: Tensor = self(offsets) * both
        return biases.permute(0, 3, 1, 2)
