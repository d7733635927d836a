"""Attribute attention: each attribute of an entity is embedded, and they attend to each other.

``net.embedding=attributes``, the input module of Suarez et al. 2020, "Neural MMO v1.3": a vector
for each attribute, a row of a table for a discrete one and a scaled line for a continuous one, and
one layer of scaled dot-product attention with one head over them. It runs in plain torch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

import torch
from torch import Tensor, nn

from entity_env.spaces import Discrete, Feature
from ragged_net.model.input_norm import InputNorm
from ragged_net.model.tables import INIT_STD, Tables, initialize

__all__ = ["AttributeEmbedding"]

_MOST_WIDE = 32
"""Width of queries and keys; attributes are few, so that more is not needed."""


class AttributeEmbedding(nn.Module):
    """An embedding that lets the features of an entity attend to each other, and adds them up.

    The entity type is an attribute, too, so that each entity has at least one.

    Args:
        features: The features of the entity type; may be empty.
        dim: D, the width of the result.
        left_out: Names of continuous features that are not embedded.
        tables: Maker of the tables of discrete features.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        dim: int,
        left_out: Collection[str] = (),
        tables: Tables | None = None,
    ) -> None:
        super().__init__()
        self.norm = InputNorm(features, left_out)
        columns = self.norm.num_columns
        self.slope = nn.Parameter(torch.empty(columns, dim))
        self.base = nn.Parameter(torch.empty(columns, dim))
        self.counts = [feature.n for feature in features if isinstance(feature, Discrete)]
        self.discrete = [i for i, feature in enumerate(features) if isinstance(feature, Discrete)]
        self.tables = nn.ModuleList((tables or Tables(dim)).of(features, dim))
        self.type_vector = nn.Parameter(torch.empty(dim))
        for vectors in (self.slope, self.base, self.type_vector):
            nn.init.normal_(vectors, std=INIT_STD)
        initialize(self.tables)
        width = min(dim, _MOST_WIDE)
        self.query = nn.Linear(dim, width)
        self.key = nn.Linear(dim, width, bias=False)  # a bias would cancel in the softmax
        self.value = nn.Linear(dim, dim)

    def forward(self, values: Tensor) -> Tensor:
        """Return embeddings (N, D) of feature rows (N, F) float32."""
        attributes = self.attributes(values)  # (N, K, D)
        query, key = self.query(attributes), self.key(attributes)
        scores = query @ key.transpose(1, 2) * query.shape[2] ** -0.5  # (N, K, K)
        # The sum over queries; the output layer is linear, and is applied to the sum.
        weights = scores.softmax(2).sum(1)
        pooled: Tensor = self.value((weights[:, None] @ attributes).squeeze(1))
        return pooled

    def as_product(self, values: Tensor, most: int) -> tuple[Tensor, Tensor] | None:
        """Return two matrices, (N, K) and (K, D), whose product is ``forward``, or None.

        The second has a row for each combination of values. None if there are more than ``most``,
        as with any continuous feature.
        """
        counts = self.counts
        if self.norm.num_columns or prod(counts) > most:
            return None
        numbers = [torch.arange(count, device=values.device) for count in counts]
        every = torch.cartesian_prod(*numbers).view(-1, len(counts))
        index = values.new_zeros(values.shape[0], dtype=torch.int64)
        for column, count in enumerate(counts):
            index = index * count + values[:, column].long()
        flags = values.new_zeros(values.shape[0], len(every)).scatter(1, index[:, None], 1.0)
        vectors = self(every.to(values.dtype))
        return flags.to(vectors.dtype), vectors

    def attributes(self, values: Tensor) -> Tensor:
        """Return the vectors (N, K, D) of each entity's attributes and of its type."""
        numbers = self.norm(values).to(self.slope.dtype)
        parts = [self.type_vector.expand(values.shape[0], 1, -1)]
        parts.append(numbers[:, :, None] * self.slope + self.base)
        for column, table in zip(self.discrete, self.tables, strict=True):
            parts.append(table(values[:, column].long())[:, None])
        return torch.cat(parts, dim=1)
