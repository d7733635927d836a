"""Embedding the entities of one type: straight from feature rows to their places in the batch."""

from __future__ import annotations

import numpy as np

from entity_env.errors import BatchError
from entity_env.storage.inner import inner
from ragged_net.kernels.jit import kernel
from ragged_net.kernels.linear import CHUNK

__all__ = ["add_table", "add_table_gradient", "project", "project_backward"]


@kernel
def project(values, columns, shift, scale, most, weight, vector, places, y):
    """Rows of y become ``vector`` and the projection of their normalised features.

    Args:
        values: (N, F) float32.
        columns: (K,) int64: the columns that count.
        shift: (K,) float32, taken from them.
        scale: (K,) float32, by which they are then multiplied.
        most: float32: the largest absolute value that is left of the result.
        weight: (D, K) float32.
        vector: (D,) float32.
        places: (N,) int64: the row of y that belongs to each row of values.
        y: (M, D) float32; the rows at ``places`` are written.
    """
    count, dim = columns.shape[0], vector.shape[0]
    _check_places(values, columns, shift, scale, places, y)
    if weight.shape[0] != dim or weight.shape[1] != count or y.shape[1] != dim:
        raise BatchError("weights that do not fit the features")
    by_column = np.empty((count, dim), np.float32)  # whole vectors side by side
    for k in range(count):
        for d in range(dim):
            by_column[k, d] = weight[d, k]
    for i in range(values.shape[0]):
        row = y[_place(places, i, y)]
        for d in range(dim):
            row[d] = vector[d]
        for k in range(count):
            feature = _normal(values[i, columns[k]], shift[k], scale[k], most)
            for d in range(dim):
                row[d] += feature * by_column[k, d]


@kernel
def project_backward(values, columns, shift, scale, most, places, d_y, d_weight, d_vector):
    """Write the gradients of ``project``: ``d_weight`` (D, K) and ``d_vector`` (D,)."""
    count, dim = columns.shape[0], d_vector.shape[0]
    _check_places(values, columns, shift, scale, places, d_y)
    whole = np.zeros((count + 1, dim), np.float32)  # of each column, then of the vector
    for first in range(0, values.shape[0], CHUNK):
        part = np.zeros((count + 1, dim), np.float32)
        for i in range(first, min(first + CHUNK, values.shape[0])):
            row = d_y[_place(places, i, d_y)]
            for k in range(count):
                feature = _normal(values[i, columns[k]], shift[k], scale[k], most)
                for d in range(dim):
                    part[k, d] += feature * row[d]
            for d in range(dim):
                part[count, d] += row[d]
        whole += part
    for d in range(dim):
        d_vector[d] = whole[count, d]
        for k in range(count):
            d_weight[d, k] = whole[k, d]


@kernel
def add_table(values, column, table, places, y):
    """Add to rows of y the row of ``table`` (n, D) that a discrete feature names.

    ``values``, ``places`` and ``y`` are those of ``project``.
    """
    for i in range(values.shape[0]):
        entry, row = table[_entry(values, i, column, table)], y[_place(places, i, y)]
        for d in range(row.shape[0]):
            row[d] += entry[d]


@kernel
def add_table_gradient(values, column, places, d_y, d_table):
    """Add to ``d_table`` (n, D) the gradient of ``add_table``."""
    for i in range(values.shape[0]):
        entry, row = d_table[_entry(values, i, column, d_table)], d_y[_place(places, i, d_y)]
        for d in range(row.shape[0]):
            entry[d] += row[d]


@inner
def _check_places(values, columns, shift, scale, places, y):
    """Refuse arrays whose sizes do not fit each other."""
    count = columns.shape[0]
    if shift.shape[0] != count or scale.shape[0] != count or places.shape[0] != values.shape[0]:
        raise BatchError("statistics or places that do not fit the features")
    for k in range(count):
        if not 0 <= columns[k] < values.shape[1]:
            raise BatchError("a column that the features do not have")


@inner
def _place(places, i, y):
    """``places[i]``, a row of ``y``."""
    place = places[i]
    if not 0 <= place < y.shape[0]:
        raise BatchError("an entity without a place in the batch")
    return place


@inner
def _entry(values, i, column, table):
    """Return the row of ``table`` (n, D) that a discrete feature names."""
    number = values[i, column]
    if not 0 <= number < table.shape[0]:
        raise BatchError("a discrete feature that its table has no row for")
    return int(number)


@inner
def _normal(value, shift, scale, most):
    """Return a feature with mean 0 and deviation 1, clipped; NaN stays NaN."""
    normal = (value - shift) * scale
    if normal > most:
        return most
    if normal < -most:
        return -most
    return normal
