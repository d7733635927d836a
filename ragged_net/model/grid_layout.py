"""The flat order of entities when a few summaries stand for the cells of each grid.

Entity indices count all cells of a frame, as its observation does. In the flat order that attention
works on, a grid has ``net.tile_summaries`` rows in each frame that shows it, and none in others.
A cell that acts, or may be selected, is read as the first summary of its grid, which has seen the
whole frame, plus a vector of its own (``tiles.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from entity_env.spaces import Grid, ObsSpace
from ragged_net.batch import EntityBatch
from ragged_net.errors import ShapeError, VisibilityError
from ragged_net.model.embedding import EntityEmbedding
from ragged_net.model.layout import Layout
from ragged_net.model.read_rows import Encoded
from ragged_net.model.tiles import TileEmbedding
from ragged_net.ragged import RaggedTensor

__all__ = ["GridLayout", "GridRows"]


@dataclass(frozen=True, eq=False)
class GridLayout(Layout):
    """The flat order with summaries in the place of cells; ``flat_rows`` still takes all indices.

    Args:
        ends: (B, K) int64: for each type the entity index at which it ends in each frame.
        starts: (B, K + 1) int64: that at which it starts; the last one is the player's.
        first: (B, K + 1) int64: the flat row, counted from the frame's first, at which it starts.
        grids: For each of the grids its place among the types.
    """

    ends: Tensor = field(kw_only=True)
    starts: Tensor = field(kw_only=True)
    first: Tensor = field(kw_only=True)
    grids: Mapping[str, int] = field(kw_only=True)

    def flat_rows(self, indices: RaggedTensor) -> Tensor:
        """Return flat rows (A,) int64; for a cell, the row of its grid's first summary."""
        super().flat_rows(indices)  # for its checks
        frames, kind, within = self._find(indices)
        for place in self.grids.values():
            within = torch.where(kind == place, 0, within)
        return self.offsets.index_select(0, frames) + self.first[frames, kind] + within

    def cells(self, indices: RaggedTensor, name: str, rows: RaggedTensor) -> tuple[Tensor, Tensor]:
        """Return a mask of the entities (A,) that are cells, and their places in ``rows``.

        The places (A,) int64 of those that are none mean nothing, but there are such rows.
        """
        frames, kind, within = self._find(indices)
        is_cell = kind == self.grids[name]
        return is_cell, torch.where(is_cell, rows.offsets.index_select(0, frames) + within, 0)

    def _find(self, indices: RaggedTensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return for each entity (A,) its frame, the place of its type, and its index in that."""
        frames, values = indices.frame_ids(), indices.values
        kind = (values[:, None] >= self.ends.index_select(0, frames)).sum(1)
        return frames, kind, values - self.starts[frames, kind]


class GridRows:
    """Puts the summaries of grids in the place of their cells.

    Args:
        obs_space: With at least one grid.
        with_global: Whether a global entity ends each frame.
        summaries: S, how many stand for a map.
    """

    def __init__(self, obs_space: ObsSpace, with_global: bool, summaries: int) -> None:
        self.names = tuple(obs_space.entities)
        self.grids: dict[str, Grid] = obs_space.grids
        self.with_global, self.summaries = with_global, summaries
        self.open = [name for name, grid in self.grids.items() if grid.cells]

    def check(self, batch: EntityBatch) -> None:
        """Check that each frame shows all cells of a grid or none, and hides none of them.

        Raises:
            ShapeError: A part of the cells.
            VisibilityError: Cells that are hidden.
        """
        for name, grid in self.grids.items():
            if name in batch.visible:
                raise VisibilityError(
                    f"the batch hides cells of the grid {name!r}",
                    expected="no mask for it: a feature can say that nothing is known of a cell",
                )
            lengths = batch.entities[name].host_offsets.diff()
            wrong = (lengths != 0) & (lengths != grid.size)
            if bool(wrong.any()):
                frame = int(wrong.nonzero()[0])
                raise ShapeError(
                    f"frame {frame} has a part of the cells of the grid {name!r}",
                    expected=f"all {grid.size} of {grid.shape}, row by row, or none",
                    received=int(lengths[frame]),
                )

    def silent(self, batch: EntityBatch, layout: Layout, hidden: Tensor | None) -> Tensor | None:
        """Return the rows (N,) of the ``layout`` of all cells that no action may name."""
        for name in self.grids:
            if name not in self.open and batch.entities[name].num_rows:
                if hidden is None:
                    hidden = torch.zeros(layout.num_rows, dtype=torch.bool, device=batch.device)
                hidden = hidden.index_fill(0, layout.dest[name], True)
        return hidden

    def layout(self, batch: EntityBatch) -> GridLayout:
        """Return the flat order of ``batch``, which has been checked, with summaries."""
        parts = {name: self._summarized(name, batch.entities[name]) for name in self.names}
        own = Layout.of(replace(batch, entities=parts, visible={}, actions={}), self.with_global)
        every = [batch.entities[name].lengths for name in self.names]
        ends = torch.stack(every, dim=1).cumsum(1)  # (B, K)
        few = torch.stack([part.lengths for part in parts.values()], dim=1).cumsum(1)
        nothing = ends.new_zeros(ends.shape[0], 1)
        return GridLayout(
            own.offsets,
            own.dest,
            own.global_dest,
            own.num_rows,
            own.known_offsets,
            ends=ends,
            starts=torch.cat([nothing, ends], 1),
            first=torch.cat([nothing, few], 1),
            grids={name: self.names.index(name) for name in self.grids},
        )

    def _summarized(self, name: str, rows: RaggedTensor) -> RaggedTensor:
        """Return rows without features, one for each entity that stands for cells of a type."""
        grid = self.grids.get(name)
        if grid is None:
            return rows
        scale = grid.size, self.summaries
        offsets, known = rows.offsets // scale[0] * scale[1], rows.known_offsets
        return RaggedTensor.unchecked(
            rows.values.new_empty(rows.num_rows // scale[0] * scale[1], 0),
            offsets,
            None if known is None else known // scale[0] * scale[1],
        )

    def add_cells(
        self,
        embedding: EntityEmbedding,
        batch: EntityBatch,
        layout: GridLayout,
        asked: Sequence[RaggedTensor],
        encoded: Encoded,
    ) -> Encoded:
        """Add to the ``encoded`` rows of cells what is known of each cell.

        Args:
            embedding: That of the network that has encoded them.
            batch: B frames.
            layout: Theirs.
            asked: Lists (A,) of entity indices.
            encoded: A row for each of them.
        """
        rows = list(encoded.rows)
        for name in self.open:
            cells = batch.entities[name]
            found = [layout.cells(indices, name, cells) for indices in asked]
            if batch.device.type == "cpu":  # elsewhere it would be waited for
                places = [i for i, (is_cell, _) in enumerate(found) if bool(is_cell.any())]
            else:
                places = list(range(len(found))) if cells.num_rows else []
            if not places:
                continue
            tiles = embedding.types[self.names.index(name)]
            assert isinstance(tiles, TileEmbedding)
            vectors = tiles.cell_vectors(cells.values, [found[i][1] for i in places])
            for i, own in zip(places, vectors, strict=True):
                rows[i] = rows[i] + torch.where(found[i][0][:, None], own, 0.0)
        return replace(encoded, rows=tuple(rows))
