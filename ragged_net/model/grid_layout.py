"""The flat order of entities with a few summaries in the place of the cells of each grid.

Entity indices count all cells of a frame, as in its observation. In the flat order for attention, a
grid has ``net.tile_summaries`` rows in each frame that shows it, and none in others. A cell that
acts or can be selected is read as the first summary of its grid, which has attended to the whole
frame, plus a vector of the cell (``tiles.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from entity_env.errors import BatchError
from entity_env.spaces import Grid, ObsSpace
from ragged_net.batch import EntityBatch
from ragged_net.layout import Encoded, Layout
from ragged_net.model.embedding import EntityEmbedding
from ragged_net.model.tiles import TileEmbedding
from ragged_net.ragged import RaggedTensor

__all__ = ["GridLayout", "GridRows"]


@dataclass(frozen=True, eq=False)
class GridLayout(Layout):
    """The flat order with summaries in the place of cells; ``flat_rows`` accepts all indices.

    Args:
        ends: Entity index at which each type ends in each frame. Shape: (B, K), int64.
        starts: Entity index at which each type, and the global entity, starts. Shape: (B, K + 1),
            int64.
        first: Flat row, relative to the frame's first, at which each starts. Shape: (B, K + 1),
            int64.
        grids: Places of the grids among the types.
    """

    ends: Tensor = field(kw_only=True)
    starts: Tensor = field(kw_only=True)
    first: Tensor = field(kw_only=True)
    grids: Mapping[str, int] = field(kw_only=True)

    def flat_rows(self, indices: RaggedTensor) -> Tensor:
        """Return flat rows (A,) int64; for a cell, the row of its grid's first summary."""
        super().flat_rows(indices)  # checks the indices
        frames, kind, within = self._find(indices)
        for place in self.grids.values():
            within = torch.where(kind == place, 0, within)
        return self.offsets.index_select(0, frames) + self.first[frames, kind] + within

    def cells(self, indices: RaggedTensor, name: str, rows: RaggedTensor) -> tuple[Tensor, Tensor]:
        """Return a mask of the entities (A,) that are cells, and their places in ``rows``.

        For entities that are not cells, the places (A,) int64 are valid rows without a meaning.
        """
        frames, kind, within = self._find(indices)
        is_cell = kind == self.grids[name]
        return is_cell, torch.where(is_cell, rows.offsets.index_select(0, frames) + within, 0)

    def _find(self, indices: RaggedTensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the frame, the place of the type, and the index in it, of each entity (A,)."""
        frames, values = indices.frame_ids(), indices.values
        kind = (values[:, None] >= self.ends.index_select(0, frames)).sum(1)
        return frames, kind, values - self.starts[frames, kind]


class GridRows:
    """The replacement of the cells of grids by summaries.

    Args:
        obs_space: Observation space with at least one grid.
        with_global: True if a global entity ends each frame.
        summaries: Number S of summaries of a grid.
    """

    def __init__(self, obs_space: ObsSpace, with_global: bool, summaries: int) -> None:
        self.names = tuple(obs_space.entities)
        self.grids: dict[str, Grid] = obs_space.grids
        self.with_global, self.summaries = with_global, summaries
        self.open = [name for name, grid in self.grids.items() if grid.cells]

    def check(self, batch: EntityBatch) -> None:
        """Check that each frame shows all cells of a grid or none, and hides none of them.

        Raises:
            BatchError: A frame shows a part of the cells, or cells are hidden.
        """
        for name, grid in self.grids.items():
            if name in batch.visible:
                raise BatchError(
                    f"the batch hides cells of the grid {name!r}",
                    expected="no mask for it: use a feature to mark unknown cells",
                )
            lengths = batch.entities[name].host_offsets.diff()
            wrong = (lengths != 0) & (lengths != grid.size)
            if bool(wrong.any()):
                frame = int(wrong.nonzero()[0])
                raise BatchError(
                    f"frame {frame} has a part of the cells of the grid {name!r}",
                    expected=f"all {grid.size} of {grid.shape}, row by row, or none",
                    received=int(lengths[frame]),
                )

    def silent(self, batch: EntityBatch, layout: Layout, hidden: Tensor | None) -> Tensor | None:
        """Return the rows (N,) of the ``layout`` of all cells that no action can refer to."""
        for name in self.grids:
            if name not in self.open and batch.entities[name].num_rows:
                if hidden is None:
                    hidden = torch.zeros(layout.num_rows, dtype=torch.bool, device=batch.device)
                hidden = hidden.index_fill(0, layout.dest[name], True)
        return hidden

    def layout(self, batch: EntityBatch) -> GridLayout:
        """Return the flat order, with summaries, of a ``batch`` that has been checked."""
        parts = {name: self._summarized(name, batch.entities[name]) for name in self.names}
        parts_layout = Layout.of(
            replace(batch, entities=parts, visible={}, actions={}), self.with_global
        )
        every = [batch.entities[name].lengths for name in self.names]
        ends = torch.stack(every, dim=1).cumsum(1)  # (B, K)
        few = torch.stack([part.lengths for part in parts.values()], dim=1).cumsum(1)
        nothing = ends.new_zeros(ends.shape[0], 1)
        return GridLayout(
            parts_layout.offsets,
            parts_layout.dest,
            parts_layout.global_dest,
            parts_layout.num_rows,
            parts_layout.known_offsets,
            ends=ends,
            starts=torch.cat([nothing, ends], 1),
            first=torch.cat([nothing, few], 1),
            grids={name: self.names.index(name) for name in self.grids},
        )

    def _summarized(self, name: str, rows: RaggedTensor) -> RaggedTensor:
        """Return rows without features, one for each summary or entity of a type."""
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
        """Add vectors of cells to the ``encoded`` rows of cells.

        Args:
            embedding: Embedding of the network that has computed ``encoded``.
            batch: B frames.
            layout: Layout of the batch.
            asked: Entity indices. Shape of each: (A,).
            encoded: Rows of these entities.
        """
        rows = list(encoded.rows)
        for name in self.open:
            cells = batch.entities[name]
            found = [layout.cells(indices, name, cells) for indices in asked]
            if batch.device.type == "cpu":  # on other devices this would wait
                places = [i for i, (is_cell, _) in enumerate(found) if bool(is_cell.any())]
            else:
                places = list(range(len(found))) if cells.num_rows else []
            if not places:
                continue
            tiles = embedding.types[self.names.index(name)]
            assert isinstance(tiles, TileEmbedding)
            vectors = tiles.cell_vectors(cells.values, [found[i][1] for i in places])
            for i, vector in zip(places, vectors, strict=True):
                rows[i] = rows[i] + torch.where(found[i][0][:, None], vector, 0.0)
        return replace(encoded, rows=tuple(rows))
