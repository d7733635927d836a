"""Tiles: convolutions that compute a few entities from the cells of a ``Grid``.

Attention over 15 x 15 cells compares 225 * 225 pairs. Strided convolutions halve the grid until its
sides are at most 4, and a linear layer computes ``net.tile_summaries`` entities from the rest; only
these join the frame. It runs in plain torch, on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from entity_env.spaces import Feature, Grid
from ragged_net.compiled.autograd import all_are_watched
from ragged_net.compiled.chain import is_plain
from ragged_net.model.discrete import INIT_STD
from ragged_net.model.input_norm import InputNorm

__all__ = ["MakeEmbedding", "TileEmbedding", "as_maps"]

MakeEmbedding = Callable[[Sequence[Feature], int], nn.Module]
"""A function that makes an embedding of feature rows with a given width."""


@runtime_checkable
class _Product(Protocol):
    """An embedding that can be a product of two matrices, such as ``TypeEmbedding``."""

    def as_product(self, values: Tensor, most: int) -> tuple[Tensor, Tensor] | None: ...


_LARGEST_SIDE = 4
"""Maximum side of a map that the linear layer reads."""


class TileEmbedding(nn.Module):
    """The entities that summarise maps of cells, and the vectors of single cells.

    Args:
        grid: The entity type.
        dim: Width D of an entity.
        channels: Width C of a cell.
        summaries: Number S of entities for each map.
        embed_cells: Maker of the embedding of the cells' features.
    """

    def __init__(
        self, grid: Grid, dim: int, channels: int, summaries: int, embed_cells: MakeEmbedding
    ) -> None:
        super().__init__()
        self.grid, self.dim, self.summaries = grid, dim, summaries
        self.cells = embed_cells(grid.features, channels)
        layers: list[nn.Module] = []
        sides = grid.shape
        while not layers or max(sides) > _LARGEST_SIDE:
            stride = 2 if max(sides) > _LARGEST_SIDE else 1
            layers += [nn.Conv2d(channels, channels, 3, stride, padding=1), nn.ReLU()]
            sides = (-(-sides[0] // stride), -(-sides[1] // stride))
        self.look = nn.Sequential(*layers)
        self.summarize = nn.Linear(channels * sides[0] * sides[1], summaries * dim)
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        # Different biases distinguish the summaries from each other and from other types.
        nn.init.normal_(self.summarize.bias, std=INIT_STD)
        self.around, self.cell, self.place = None, None, None
        if grid.cells:
            self.around = nn.Conv2d(channels, channels, 3, padding=1)
            self.cell = nn.Linear(channels, dim)
            self.place = nn.Parameter(torch.empty(grid.size, dim))
            nn.init.normal_(self.place, std=INIT_STD)

    @property
    def norm(self) -> InputNorm:
        """The statistics of the cells' features."""
        norm = self.cells.norm
        assert isinstance(norm, InputNorm)
        return norm

    def forward(self, values: Tensor) -> Tensor:
        """Return the entities (M * S, D) of the cells (M * H * W, F) float32 of M maps."""
        if is_plain(self.look, nn.Sequential):
            first, *others = self.look
            seen = self._look_at_cells(first, values)
            for layer in others:
                seen = layer(seen)
        else:
            seen = self.look(self._maps(values))
        # (M, C, h, w) -> (M, C * h * w)
        return self.summarize(seen.flatten(1)).view(-1, self.dim)  # type: ignore[no-any-return]

    def number(self, cells: int) -> int:
        """Return the number of summaries for ``cells`` cells."""
        return cells // self.grid.size * self.summaries

    def cell_vectors(self, values: Tensor, asked: Sequence[Tensor]) -> list[Tensor]:
        """Return vectors of cells with their neighbours, for a ``Grid(cells=True)``.

        Args:
            values: Cells of M maps, M at least 1. Shape: (M * H * W, F).
            asked: Indices of cells among them. Shape of each: (A,), int64.

        Returns:
            The vectors of each list. Shape of each: (A, D).
        """
        assert self.around is not None
        assert self.cell is not None
        assert self.place is not None
        around = self._look_at_cells(self.around, values).relu()  # (M, C, H, W)
        rows = around.permute(0, 2, 3, 1).flatten(0, 2)  # (M * H * W, C)
        return [
            self.cell(rows.index_select(0, cells))
            + self.place.index_select(0, cells % self.grid.size)
            for cells in asked
        ]

    def _look_at_cells(self, layer: nn.Module, values: Tensor) -> Tensor:
        """Return the convolution (M, C, h, w) of the embedded cells of M maps.

        If the embedding is a product with few columns, its weights are multiplied into those of the
        convolution. The result is the same, in a tenth of the time, most of which tables take for
        their gradients.
        """
        cells: nn.Module = self.cells
        if (
            is_plain(layer, nn.Conv2d)
            and is_plain(cells, type(cells))
            and isinstance(cells, _Product)
            and not all_are_watched()
            and (product := cells.as_product(values, most=layer.in_channels)) is not None
        ):
            columns, vectors = product
            weight = torch.einsum("ochw,kc->okhw", layer.weight, vectors)
            maps = as_maps(columns, self.grid).permute(0, 3, 1, 2)
            return conv2d(maps, weight, layer.bias, (layer.stride[0], layer.stride[1]), padding=1)
        seen: Tensor = layer(self._maps(values))
        return seen

    def _maps(self, values: Tensor) -> Tensor:
        """Return the embedded cells as maps (M, C, H, W), stored cell by cell."""
        return as_maps(self.cells(values), self.grid).permute(0, 3, 1, 2)


def as_maps(rows: Tensor, grid: Grid) -> Tensor:
    """Return rows of cells (M * H * W, K) as a dense tensor (M, H, W, K), without a copy."""
    return rows.view(-1, *grid.shape, rows.shape[1])
