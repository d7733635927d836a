"""Reader of grids, whose cells are rows in row-major order without ids.

An observation gives a grid as an array (height, width, F) or as rows (height * width, F).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.feature_tables import Floats, Ints, UnusualError, finite_table
from entity_env.batching.features import check_values, numbers
from entity_env.errors import FeatureError, ObservationError, shorten
from entity_env.observation import EntityID
from entity_env.spaces import EntityName, Grid, feature_name

__all__ = [
    "add_cells",
    "cell_ids",
    "grid_column",
    "grid_rows",
    "with_ids",
    "with_mask",
    "with_silent_cells",
]


def grid_rows(what: str, values: object, grid: Grid) -> npt.NDArray[np.float32]:
    """Return the cells of one frame as rows (height * width, F) float32, or (0, F)."""
    width = len(grid.features)
    if values is None or (isinstance(values, list | tuple) and not values):
        return np.zeros((0, width), np.float32)
    array = numbers(what, values, width)
    if array.shape not in (whole := _shapes(grid)):
        if array.size == 0 and array.shape[:1] == (0,):
            return np.zeros((0, width), np.float32)
        names = ", ".join(map(feature_name, grid.features)) or "none"
        raise FeatureError(
            f"the features of {what} have the wrong shape",
            expected=f"{whole[0]}, or {whole[1]} in row-major order, or no cells: {names}",
            received=f"shape {array.shape}: {shorten(values)}",
        )
    rows = array.reshape(grid.size, width)
    check_values(what, rows, grid.features)
    return rows


def grid_column(
    given: Sequence[Mapping[EntityName, Any]], name: EntityName, grid: Grid
) -> tuple[Floats, Ints]:
    """Return the cells of many frames, (N, F) float32, and their number in each frame, (B,).

    It reads arrays only; ``grid_rows`` reads all other objects (see ``feature_columns.py``).
    """
    whole, parts = _shapes(grid), []
    lengths = np.zeros(len(given), np.int64)
    for frame, own in enumerate(given):
        part = own.get(name)
        if type(part) is NoneType or (type(part) in (list, tuple) and not part):
            continue
        if type(part) is not np.ndarray or part.shape not in whole:
            raise UnusualError
        parts.append(part.reshape(whole[1]))
        lengths[frame] = grid.size
    array = np.concatenate(parts) if parts else np.zeros((0, whole[1][1]), np.float32)
    return finite_table(array, grid.features), lengths


def with_ids(name: EntityName, ids: object) -> ObservationError:
    """Return the error for ids of cells."""
    return ObservationError(
        f"the cells of the Grid {name!r} are given ids",
        expected="no ids; with Grid(cells=True) the ids are (name of the type, row, column)",
        received=shorten(ids),
    )


def with_mask(name: EntityName, mask: object) -> ObservationError:
    """Return the error for a mask of visible cells."""
    return ObservationError(
        f"visible[{name!r}] is given for a Grid, whose cells cannot be hidden",
        expected="no mask; use a feature to mark unknown cells",
        received=shorten(mask),
    )


def add_cells(
    ids: Sequence[Mapping[EntityName, Any]],
    lengths: Mapping[EntityName, Ints],
    grids: Mapping[EntityName, Grid],
) -> list[Mapping[EntityName, Any]]:
    """Return the ids of each frame and of its cells that take part in actions."""
    if any(own.get(name) is not None for name in grids for own in ids):
        raise UnusualError  # ``FrameReader`` raises the error of ``with_ids``
    for name, grid in grids.items():
        if grid.cells:
            there = lengths[name].tolist()
            ids = [
                {**own, name: cell_ids(name, grid)} if count else own
                for own, count in zip(ids, there, strict=True)
            ]
    return list(ids)


@lru_cache(maxsize=64)
def cell_ids(name: EntityName, grid: Grid) -> tuple[EntityID, ...]:
    """Return the ids of the cells of a grid that take part in actions, in row-major order."""
    height, width = grid.shape
    return tuple((name, row, column) for row in range(height) for column in range(width))


def with_silent_cells(
    visible: Mapping[EntityName, npt.NDArray[np.bool_]],
    counts: Mapping[EntityName, Any],
    grids: Mapping[EntityName, Grid],
) -> Mapping[EntityName, npt.NDArray[np.bool_]]:
    """Return visibility masks that leave out cells which take no part in actions.

    Masks cannot name hidden entities, and so cannot name these cells either.

    Args:
        visible: The given masks.
        counts: The number of entities of each type, in one or in each frame.
        grids: The types that are grids.
    """
    silent = {
        name: np.zeros(np.sum(counts[name]), np.bool_)
        for name, grid in grids.items()
        if not grid.cells
    }
    return {**visible, **silent} if silent else visible


def _shapes(grid: Grid) -> tuple[tuple[int, int, int], tuple[int, int]]:
    width = len(grid.features)
    return (*grid.shape, width), (grid.size, width)
