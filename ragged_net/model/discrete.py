"""Discrete features: tables of vectors, and attention between the attributes of an entity.

A table has a row for each value, which is added to an entity's vector. An ordinary feature has an
``nn.Embedding``. The others, here, make such a table of fewer numbers, which the compiled embedding
takes, too:

========================  ================================================================
``FlagTable``             a set of flags: the rows of those that are on, added up
``SharedTable``           features of one vocabulary: the table of the first of them
========================  ================================================================

``net.embedding=attributes`` is the input module of Suarez et al. 2020, "Neural MMO v1.3": a vector
for each attribute, a row of a table for a discrete one and a scaled line for a continuous one, and
one layer of scaled dot-product attention with one head over them. It runs in plain torch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from entity_env.spaces import Discrete, Feature, Flags, discrete_features
from ragged_net.compiled.chain import is_plain
from ragged_net.model.input_norm import InputNorm

__all__ = [
    "INIT_STD",
    "AttributeEmbedding",
    "FlagTable",
    "SharedTable",
    "Tables",
    "initialize",
    "rows_of",
]

# About the deviation of a Linear layer's output on normalised inputs under torch's default
# initialisation, 1 / sqrt(3), so that no summand drowns the others.
INIT_STD = 0.5

_MOST_FLAGS = 8
"""Maximum number of flags for which every combination has a row in a table."""


class FlagTable(nn.Module):
    """The sum of the vectors of the flags that are set.

    Args:
        count: Number of flags.
        dim: Width D of a vector.
    """

    places: Tensor

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, dim))
        # With half of the flags set, the sum is as large as a row of another feature.
        nn.init.normal_(self.weight, std=INIT_STD * min(1.0, (2 / count) ** 0.5))
        self.register_buffer("places", torch.arange(count), persistent=False)

    def forward(self, index: Tensor) -> Tensor:
        """Return the vectors (N, D) of sets of flags (N,) int64."""
        if self.has_rows:
            return embedding(index, self.rows())
        bits = (index[:, None] >> self.places) & 1
        return bits.to(self.weight.dtype) @ self.weight

    @property
    def has_rows(self) -> bool:
        """True if there are few enough flags to call ``rows``."""
        return self.weight.shape[0] <= _MOST_FLAGS

    def rows(self) -> Tensor:
        """Return a row for each set of flags: (2 ** count, D)."""
        sets = torch.arange(2 ** self.weight.shape[0], device=self.weight.device)
        bits = (sets[:, None] >> self.places) & 1
        return bits.to(self.weight.dtype) @ self.weight


class SharedTable(nn.Module):
    """A table that several features share; only its owner has it in its state.

    Args:
        table: Shape: (n, width).
        is_owner: True if this feature is the owner.
        dim: Width D of the result; the table is projected if its width differs.
    """

    def __init__(self, table: nn.Embedding, is_owner: bool, dim: int) -> None:
        super().__init__()
        self.table = table if is_owner else None
        self._known = (table,)  # in a tuple, so that torch does not register it as a module
        width = table.embedding_dim
        self.project = None if width == dim else nn.Linear(width, dim, bias=False)
        if self.project is not None:
            nn.init.normal_(self.project.weight, std=width**-0.5)

    def forward(self, index: Tensor) -> Tensor:
        """Return the rows (N, D) of values (N,) int64."""
        return embedding(index, self.rows())

    def rows(self) -> Tensor:
        """Return a row for each value: (n, D)."""
        weight: Tensor = self._known[0].weight
        return weight if self.project is None else self.project(weight)


class Tables:
    """A maker of the tables of one network; features with one vocabulary share a table.

    Args:
        dim: Width D of the network, and of shared tables.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._shared: dict[str, nn.Embedding] = {}

    def of(self, features: Sequence[Feature], dim: int) -> list[nn.Module]:
        """Return a table of width ``dim`` for each discrete one of the ``features``."""
        return [self._table(feature, dim) for feature in discrete_features(features).values()]

    def _table(self, feature: Discrete, dim: int) -> nn.Module:
        if isinstance(feature, Flags):
            return FlagTable(feature.count, dim)
        if feature.vocabulary is not None:
            known = self._shared.get(feature.vocabulary)
            table = known
            if table is None:
                table = nn.Embedding(feature.n, self.dim)
                nn.init.normal_(table.weight, std=INIT_STD)
            self._shared[feature.vocabulary] = table
            return SharedTable(table, known is None, dim)
        return nn.Embedding(feature.n, dim)


def initialize(tables: Iterable[nn.Module]) -> None:
    """Draw the rows of ordinary tables; the others are initialised already."""
    for table in tables:
        if isinstance(table, nn.Embedding):
            nn.init.normal_(table.weight, std=INIT_STD)


def rows_of(table: nn.Module) -> Tensor | None:
    """Return the rows (n, D) of a table that only looks them up, else None."""
    if is_plain(table, nn.Embedding):
        return table.weight if _only_looks_up(table) else None
    if is_plain(table, FlagTable):
        return table.rows() if table.has_rows else None
    if is_plain(table, SharedTable):
        return table.rows() if _are_plain([table.table, table._known[0], table.project]) else None
    return None


def _are_plain(parts: Sequence[nn.Module | None]) -> bool:
    return all(
        part is None
        or (is_plain(part, nn.Embedding) and _only_looks_up(part))
        or is_plain(part, nn.Linear)
        for part in parts
    )


def _only_looks_up(table: nn.Embedding) -> bool:
    """Return True if a table has no options that the kernels lack."""
    return (
        table.padding_idx is None
        and table.max_norm is None
        and not table.scale_grad_by_freq
        and not table.sparse
    )


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
        discrete = discrete_features(features)
        self.counts = [feature.n for feature in discrete.values()]
        self.discrete = list(discrete)
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
