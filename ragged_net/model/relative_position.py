"""Relative positions: attention depends on the offsets between entities.

Pairs of numbers of queries, keys and values are rotated by angles proportional to the position of
their entity, and the result of attention is rotated back by the position of the query. Scores, and
the effect of values, then depend on the offset of the two entities only: they are sums of waves of
the offset, whose amplitudes the weights of the layers determine. It computes nothing for each pair,
has no weights, and works with every attention backend.

Queries and keys: Su et al. 2021, "RoFormer: Enhanced transformer with rotary position embedding".
Values and the way back: Miyato et al. 2024, "GTA: A geometry-aware attention mechanism".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from entity_env.errors import SettingError
from entity_env.spaces import ObsSpace
from ragged_net.batch import EntityBatch
from ragged_net.config import NetConfig
from ragged_net.model.geometry import columns_of, wave_vectors
from ragged_net.model.layout import Layout
from ragged_net.model.places import position_columns
from ragged_net.position_config import RelativePosition

__all__ = ["PositionWaves"]

TURNED = 0.75
"""Fraction of each head's pairs that rotate. The others do not depend on positions."""


class PositionWaves(nn.Module):
    """The turns (N, 2, D) of a batch's rows, the same for all blocks, without parameters.

    Args:
        obs_space: The entity types.
        config: Width and heads.
    """

    weight: Tensor
    bias: Tensor
    silent: Tensor

    def __init__(self, obs_space: ObsSpace, config: NetConfig) -> None:
        super().__init__()
        setting = config.relative_position or RelativePosition()
        width = config.dim // config.heads
        if width % 4:
            raise SettingError(
                "relative_position turns pairs of numbers, and heads have too few for it",
                expected="dim / heads, a multiple of 4",
                received=f"dim={config.dim}, heads={config.heads}",
            )
        self.columns = position_columns(obs_space, config.positions(obs_space))
        axes = len(next(iter(self.columns.values())))
        for name, constant in self._constants(config, setting, axes).items():
            self.register_buffer(name, constant, persistent=False)

    @staticmethod
    def _constants(config: NetConfig, setting: RelativePosition, axes: int) -> dict[str, Tensor]:
        heads, pairs = config.heads, config.dim // config.heads // 2
        turned = max(1, int(pairs * TURNED))
        # Waves are assigned to the heads in turn, so that each gets long and short ones.
        waves = wave_vectors(heads * turned, axes, setting.unit, setting.extent)
        vectors = torch.zeros(heads, pairs, axes)
        vectors[:, :turned] = waves.view(turned, heads, axes).transpose(0, 1)
        both = vectors.repeat_interleave(2, 1).reshape(config.dim, axes)  # of each number of a pair
        signs = torch.tensor([-1.0, 1.0]).repeat(config.dim // 2)[:, None]
        # cos(a) = sin(a + pi / 2): one sine for it all.
        weight = torch.cat([both, signs * both])  # (2 * D, axes)
        bias = torch.cat([torch.full((config.dim,), math.pi / 2), torch.zeros(config.dim)])
        plain = (both == 0).all(1).float()
        return {
            "weight": weight,
            "bias": bias,
            "silent": torch.cat([plain, torch.zeros_like(plain)]),
        }

    def of(self, name: str, values: Tensor) -> Tensor:
        """Return the turns (n, 2 * D) of entities of one type, from their features (n, F)."""
        positions = columns_of(values, self.columns[name])
        return torch.addmm(self.bias, positions, self.weight.t()).sin()

    def forward(self, batch: EntityBatch, layout: Layout) -> Tensor:
        """Return (N, 2, D) float32: cosines and signed sines, see ``turn`` in geometry.py.

        Both are 0 for the rotating pairs of an entity without a position, which removes these
        pairs.
        """
        places = [layout.dest[name] for name in self.columns]
        positions = torch.cat(
            [
                columns_of(batch.entities[name].values, columns)
                for name, columns in self.columns.items()
            ]
        )
        # Offsets are all that matters, so the numbers may be small: far from 0, float32 has few
        # digits left for an angle.
        turns = torch.addmm(self.bias, positions, self.weight.t()).sin_()
        where = torch.cat(places)
        if where.shape[0] == layout.num_rows:
            rows = torch.empty_like(turns)
        else:
            rows = self.silent.repeat(layout.num_rows, 1)
        width = self.bias.shape[0] // 2
        return rows.index_copy_(0, where, turns).view(layout.num_rows, 2, width)
