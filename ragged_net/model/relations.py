"""Relations: attention recognises entities with the same number, such as a job and its machine.

Each number has a code of random angles, by which pairs of numbers of the queries, keys and values
of its entities are rotated, as ``relative_position.py`` does for positions. Between two entities
with the same number the rotations cancel; between others they are random. Attention can therefore
select entities with the same number, and the sum of the others is near zero. It takes the time of
relative positions, computes nothing for each pair, and works with every attention backend.

Products of random phases as a test of equality: Plate 1995, "Holographic
reduced representations".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from entity_env.errors import SettingError
from entity_env.spaces import ObsSpace
from ragged_net.batch import EntityBatch
from ragged_net.config import NetConfig
from ragged_net.model.layout import Layout
from ragged_net.model.relative_position import TURNED

__all__ = ["NUMBERS", "RelationTurns"]

NUMBERS = 1024
"""Number of distinct codes; larger numbers use them again."""


class RelationTurns(nn.Module):
    """The turns (N, 2, D) of a batch's rows, as of ``PositionWaves``, without parameters.

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
            name: [None if name not in own else entity.names.index(own[name]) for own in relations]
            for name, entity in obs_space.entities.items()
            if any(name in own for own in relations)
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
        self.register_buffer("codes", torch.stack([waves * own for own in masks]), persistent=False)
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
