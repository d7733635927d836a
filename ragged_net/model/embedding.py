"""Embedding: feature rows of all entity types -> vectors of one width, in the flat order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from entity_env.arguments import check_whole
from entity_env.errors import BatchError
from entity_env.spaces import Feature, Grid, ObsSpace, discrete_features
from ragged_net import kernels
from ragged_net.batch import EntityBatch
from ragged_net.compiled import embedding as compiled_embedding
from ragged_net.compiled.autograd import all_are_watched
from ragged_net.compiled.chain import NO_ROWS, chain, is_plain
from ragged_net.compiled.embedding import EmbeddingLayer, Part
from ragged_net.config import NetConfig
from ragged_net.layout import Layout
from ragged_net.model.discrete import (
    INIT_STD,
    AttributeEmbedding,
    FlagTable,
    Tables,
    initialize,
    rows_of,
)
from ragged_net.model.input_norm import Gathered, InputNorm, own_moments
from ragged_net.model.tiles import TileEmbedding
from ragged_net.tensor_checks import check_kind

__all__ = ["EntityEmbedding", "TypeEmbedding"]


class TypeEmbedding(nn.Module):
    """The sum of projected continuous features, table rows of discrete ones, and a type vector.

    Args:
        features: The features of the entity type; may be empty.
        dim: D, the width of the result.
        left_out: Names of continuous features that are not embedded.
        tables: Maker of the tables of discrete features; None makes separate tables.
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
        # No Linear of width 0, because it warns about its empty weights.
        columns = self.norm.num_columns
        self.project = nn.Linear(columns, dim, bias=False) if columns else None
        self.discrete = list(discrete_features(features).items())
        self.tables = nn.ModuleList((tables or Tables(dim)).of(features, dim))
        self.type_vector = nn.Parameter(torch.empty(dim))
        nn.init.normal_(self.type_vector, std=INIT_STD)
        initialize(self.tables)

    def forward(self, values: Tensor) -> Tensor:
        """Return embeddings (N, D) of feature rows (N, F) float32."""
        project, dtype = self.project, self.type_vector.dtype
        if project is None:  # the type vector is the whole embedding
            total = self.type_vector.expand(values.shape[0], -1)
        else:
            features = self.norm(values)
            if _only_multiplies(project) and not all_are_watched():
                total = linear(features.to(dtype), project.weight, self.type_vector)
            else:
                total = project(features.to(dtype)) + self.type_vector
        for (column, _), table in zip(self.discrete, self.tables, strict=True):
            total = total + table(values[:, column].long())
        return total

    def as_product(self, values: Tensor, most: int) -> tuple[Tensor, Tensor] | None:
        """Return two matrices, (N, K) and (K, D), whose product is ``forward``, or None.

        The first contains 1 and 0 for the values of discrete features, and the continuous features.
        None if it would have more than ``most`` columns, or a module has been replaced.
        """
        project, tables = self.project, [rows_of(table) for table in self.tables]
        known = [rows for rows in tables if rows is not None]
        width = 1 + self.norm.num_columns + sum(rows.shape[0] for rows in known)
        if (
            width > most
            or len(known) < len(tables)
            or not (project is None or _only_multiplies(project))
        ):
            return None
        columns = [values.new_ones(values.shape[0], 1)]
        if project is not None:
            columns.append(self.norm(values))
        for (column, _), rows in zip(self.discrete, known, strict=True):
            flags = values.new_zeros(values.shape[0], rows.shape[0])
            columns.append(flags.scatter(1, values[:, column, None].long(), 1.0))
        vectors = [self.type_vector[None], *([] if project is None else [project.weight.T])]
        return torch.cat(columns, 1).to(self.type_vector.dtype), torch.cat([*vectors, *known])

    def part(self, values: Tensor, places: Tensor) -> Part | None:
        """Return the embedding of the rows ``values`` (N, F) at ``places`` (N,), for a kernel.

        None if a module has been replaced, or a table has too many rows.
        """
        project, norm = self.project, self.norm
        tables = [rows_of(table) for table in self.tables]
        known = [rows for rows in tables if rows is not None]
        if (
            len(known) < len(tables)
            or not is_plain(norm, InputNorm)
            or not (project is None or _only_multiplies(project))
        ):
            return None
        norm.check_width(values)
        return Part(
            values, places, norm.columns, norm.shift, norm.scale,
            None if project is None else project.weight, self.type_vector,
            [column for column, _ in self.discrete], known,
        )  # fmt: skip


def _only_multiplies(project: nn.Module) -> TypeGuard[nn.Linear]:
    """Return True if a projection computes only a product with its weight."""
    return is_plain(project, nn.Linear) and project.bias is None


class EntityEmbedding(nn.Module):
    """The embeddings of all entities of a batch, in the flat order of its layout.

    Args:
        obs_space: The entity types and the global features.
        dim: D, the width of the result.
        with_global: True if each frame ends with a global entity, made of the global features.
        left_out: Names of continuous features that are not embedded, by entity type.
        config: Settings of the embedding of features and grids; its width is not used.
    """

    def __init__(
        self,
        obs_space: ObsSpace,
        dim: int,
        with_global: bool,
        left_out: Mapping[str, Collection[str]] | None = None,
        config: NetConfig | None = None,
    ) -> None:
        super().__init__()
        check_kind("the observation space", obs_space, ObsSpace)
        dim = check_whole("width of an embedding", dim)
        # A list, because a ModuleDict refuses some names of entity types.
        self.names = tuple(obs_space.entities)
        self.dim = dim
        config = config or NetConfig()
        kind = TypeEmbedding if config.embedding == "linear" else AttributeEmbedding
        tables = Tables(dim)

        def cells(features: Sequence[Feature], width: int) -> nn.Module:
            return kind(features, width, (), tables)

        self.types = nn.ModuleList(
            TileEmbedding(entity, dim, config.tile_channels, config.tile_summaries, cells)
            if isinstance(entity, Grid)
            else kind(entity.features, dim, (left_out or {}).get(name, ()), tables)
            for name, entity in obs_space.entities.items()
        )
        features = obs_space.global_features
        self.global_type = kind(features, dim, (), tables) if with_global else None
        # Embeddings without a kernel: grids, attributes that attend to each other, sets of many
        # flags.
        self.in_torch = (
            bool(obs_space.grids)
            or config.embedding == "attributes"
            or any(isinstance(m, FlagTable) and not m.has_rows for m in self.modules())
        )

    def forward(self, batch: EntityBatch, layout: Layout) -> Tensor:
        """Return (N, D) in the flat order of ``layout``."""
        check_kind("the batch", batch, EntityBatch)
        check_kind("the layout", layout, Layout, hint="Layout.of(batch)")
        sources = self._sources(batch, layout)
        if not sources:
            return batch.global_features.new_zeros(0, self.dim)
        layer = None
        if kernels.available() and not all_are_watched():
            layer = self._layer(sources, layout.num_rows)
        if layer is not None:
            return chain([layer], NO_ROWS)
        rows = [embed(values) for embed, values, _ in sources]
        return layout.scatter(rows, [places for _, _, places in sources])

    def layer(self, batch: EntityBatch, layout: Layout) -> EmbeddingLayer | None:
        """Return ``forward`` as the first layer of a chain, or None if plain torch must run it."""
        sources = self._sources(batch, layout)
        return self._layer(sources, layout.num_rows) if sources else None

    def _sources(
        self, batch: EntityBatch, layout: Layout
    ) -> list[tuple[nn.Module, Tensor, Tensor]]:
        """Return the module, feature rows and places of each type with entities."""
        sources = [
            (embed, batch.entities[name].values, layout.dest[name])
            for name, embed in zip(self.names, self.types, strict=True)
            if batch.entities[name].num_rows
        ]
        if self.global_type is not None:
            places = layout.offsets[:0] if layout.global_dest is None else layout.global_dest
            sources.append((self.global_type, batch.global_features, places))
        counts = [
            embed.number(values.shape[0]) if isinstance(embed, TileEmbedding) else values.shape[0]
            for embed, values, _ in sources
        ]
        if (
            counts != [places.shape[0] for _, _, places in sources]
            or sum(counts) != layout.num_rows
            or batch.num_frames != layout.num_frames
        ):
            raise BatchError(
                "the layout is not that of this batch, or differs in global entities",
                expected=f"places for {' + '.join(map(str, counts)) or 'no'} entities "
                f"in {batch.num_frames} frames",
                received=f"{layout.num_rows} places in {layout.num_frames} frames",
                hint=f"Layout.of(batch, with_global={self.global_type is not None})",
            )
        return sources

    def _layer(
        self, sources: list[tuple[nn.Module, Tensor, Tensor]], rows: int
    ) -> EmbeddingLayer | None:
        parts = list[Part]()
        for embed, values, places in sources:
            part = embed.part(values, places) if is_plain(embed, TypeEmbedding) else None
            if part is None:
                return None
            parts.append(part)
        if not compiled_embedding.can_run(parts, self.dim):
            return None
        return EmbeddingLayer(parts, rows)

    def check_statistics(self, batch: EntityBatch) -> None:
        """Raise FeatureError if a continuous feature of ``batch`` is not finite."""
        for norm, values in self._norms(batch):
            norm.check(values)

    def update_statistics(self, batch: EntityBatch, gathered: Gathered = own_moments) -> None:
        """Add the features of ``batch`` to the input statistics; see ``InputNorm.update``."""
        for norm, values in self._norms(batch):
            norm.update(values, gathered)

    def _norms(self, batch: EntityBatch) -> list[tuple[InputNorm, Tensor]]:
        pairs = [
            (embed, batch.entities[name].values)
            for name, embed in zip(self.names, self.types, strict=True)
        ]
        if self.global_type is not None:
            pairs.append((self.global_type, batch.global_features))
        kinds = TypeEmbedding, AttributeEmbedding, TileEmbedding
        return [(embed.norm, values) for embed, values in pairs if isinstance(embed, kinds)]
