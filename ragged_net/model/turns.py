"""Relative positions and relations: attention depends on offsets, or on equal numbers.

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
from ragged_net.layout import Layout
from ragged_net.model.geometry import columns_of, position_columns, wave_vectors
from ragged_net.position_config import RelativePosition

__all__ = ["NUMBERS", "PositionWaves", "RelationTurns"]

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


NUMBERS = 1024
"""Number of distinct codes; larger numbers use them again."""


class RelationTurns(nn.Module):
    """The turns (N, 2, D) of a batch's rows, by which entities recognise the same number.

    Each number, such as that of a job and of its machine, has a code of random angles, by which
    pairs of numbers of queries, keys and values are rotated, as by ``PositionWaves``. Between two
    entities with the same number the rotations cancel; between others they are random. Attention
    can therefore select entities with the same number, and the sum of the others is near zero.
    Products of random phases as a test of equality: Plate 1995, "Holographic reduced
    representations". It has no parameters.

    Args:
        obs_space: The entity types.
        config: Width, heads, and the relations.
    """

    codes: Tensor
    silent: Tensor

    def __init__(self, obs_space: ObsSpace, config: NetConfig) -> None:
        super().__init__()
        relations = config.relations_in(obs_space)
        self.columns: dict[str, list[int | None]] = {
            name: [
                None if name not in relation else entity.names.index(relation[name])
                for relation in relations
            ]
            for name, entity in obs_space.entities.items()
            if any(name in relation for relation in relations)
        }
        self.dim = config.dim
        pairs = config.dim // config.heads // 2
        turned = int(pairs * TURNED)
        if turned < len(relations) or (config.dim // config.heads) % 2:
            raise SettingError(
                "net.relations turns pairs of numbers, and heads have too few for it",
                expected=f"dim / heads, even and at least {math.ceil(len(relations) / TURNED) * 2}",
                received=f"dim={config.dim}, heads={config.heads}",
            )
        owner = torch.full((config.heads, pairs), -1)
        owner[:, :turned] = torch.arange(turned) % len(relations)
        # Every network needs the same angles, because its weights depend on them.
        generator = torch.Generator().manual_seed(0)
        angles = 2 * math.pi * torch.rand(NUMBERS, config.heads, pairs, generator=generator)
        wide = angles.repeat_interleave(2, 2).view(NUMBERS, config.dim)
        signs = torch.tensor([-1.0, 1.0]).repeat(config.dim // 2)
        waves = torch.cat([wide.cos(), signs * wide.sin()], 1)
        waves = torch.cat([waves, torch.zeros(1, 2 * config.dim)])  # for entities without a number
        masks = [
            (owner == i).float().repeat_interleave(2, 1).view(1, -1).repeat(1, 2)
            for i in range(len(relations))
        ]
        self.register_buffer(
            "codes", torch.stack([waves * mask for mask in masks]), persistent=False
        )
        still = (owner < 0).float().repeat_interleave(2, 1).view(-1)
        self.register_buffer("silent", torch.cat([still, 0 * still]), persistent=False)

    def forward(self, batch: EntityBatch, layout: Layout) -> Tensor:
        """Return (N, 2, D) float32: cosines and signed sines, see ``turn`` in geometry.py.

        Both are 0 for the pairs of a relation in which an entity has no number.
        """
        rows = self.silent.repeat(layout.num_rows, 1)
        for name in self.columns:
            turns = self.of(name, batch.entities[name].values)
            rows = rows.index_copy(0, layout.dest[name], turns)
        return rows.view(layout.num_rows, 2, self.dim)

    def of(self, name: str, values: Tensor) -> Tensor:
        """Return the turns (n, 2 * D) of entities of one type, from their features (n, F)."""
        turns = self.silent.expand(values.shape[0], -1)
        for codes, column in zip(self.codes, self.columns[name], strict=True):
            if column is not None:
                number = values[:, column].round().long()
                number = torch.where(number < 0, NUMBERS, number % NUMBERS)
                turns = turns + codes.index_select(0, number)
        return turns
