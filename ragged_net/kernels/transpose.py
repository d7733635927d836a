"""Transposes between rows in memory and vectors whose lanes are the rows."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ragged_net.kernels.machine import LANES

__all__ = ["COLUMNS", "load_columns", "store_columns"]

COLUMNS = 8
"""Columns that are transposed together."""
_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_PART = ir.VectorType(_INT32, COLUMNS)
_ROW, _VECTOR = ir.VectorType(_FLOAT, COLUMNS), ir.VectorType(_FLOAT, LANES)


@intrinsic
def load_columns(typing: Any, rows: Any, places: Any, shift: Any, columns: Any, start: Any) -> Any:
    """Write ``COLUMNS`` vectors to ``columns``, one after the other from ``start`` on.

    Lane g of vector d is ``rows[places[g] + shift + d]``; ``places`` has ``LANES`` int64.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = _row_pointers(context, builder, signature, arguments)
        loaded = [builder.load(pointer) for pointer in pointers]
        for row in loaded:
            row.align = 4
        # Vector i holds row i, and where there are 16 lanes row i + 8 in its second half.
        joined = ir.Constant(ir.VectorType(_INT32, LANES), list(range(LANES)))
        vectors = [
            builder.shuffle_vector(loaded[i], loaded[i + LANES - COLUMNS], joined)
            for i in range(COLUMNS)
        ]
        target = context.make_array(signature.args[3])(context, builder, arguments[3]).data
        for d, vector in enumerate(_transposed(builder, vectors)):
            place = builder.gep(target, [builder.add(arguments[4], _INT64(LANES * d))])
            place = builder.bitcast(place, _VECTOR.as_pointer())
            builder.store(vector, place).align = 4
        return context.get_dummy_value()

    return types.void(rows, places, types.intp, columns, types.intp), generate


@intrinsic
def store_columns(typing: Any, rows: Any, places: Any, shift: Any, columns: Any, start: Any) -> Any:
    """Return the reverse of ``load_columns``: from ``columns`` to ``rows``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = context.make_array(signature.args[3])(context, builder, arguments[3]).data
        vectors = []
        for d in range(COLUMNS):
            place = builder.gep(source, [builder.add(arguments[4], _INT64(LANES * d))])
            vectors.append(builder.load(builder.bitcast(place, _VECTOR.as_pointer())))
            vectors[-1].align = 4
        pointers = _row_pointers(context, builder, signature, arguments)
        for i, vector in enumerate(_transposed(builder, vectors)):
            for first in range(0, LANES, COLUMNS):
                part = ir.Constant(_PART, list(range(first, first + COLUMNS)))
                row = builder.shuffle_vector(vector, ir.Constant(_VECTOR, ir.Undefined), part)
                builder.store(row, pointers[first + i]).align = 4
        return context.get_dummy_value()

    return types.void(rows, places, types.intp, columns, types.intp), generate


def _row_pointers(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    rows, places = (
        context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 1)
    )
    pointers = []
    for lane in range(LANES):
        place = builder.load(builder.gep(places, [_INT64(lane)]))
        pointer = builder.gep(rows, [builder.add(place, arguments[2])])
        pointers.append(builder.bitcast(pointer, _ROW.as_pointer()))
    return pointers


def _transposed(builder: Any, vectors: list[Any]) -> list[Any]:
    """One or two 8 x 8 matrices, which lie beside each other in 8 vectors, transposed.

    In three rounds blocks of 1, 2 and 4 numbers trade places across the diagonal.
    """
    size = 1
    while size < COLUMNS:
        keep, move = [], []
        for lane in range(LANES):
            stays = lane & size == 0
            keep.append(lane if stays else lane - size + LANES)
            move.append(lane + size if stays else lane + LANES)
        masks = [ir.Constant(ir.VectorType(_INT32, LANES), mask) for mask in (keep, move)]
        traded = list(vectors)
        for i in range(COLUMNS):
            if i & size == 0:
                pair = vectors[i], vectors[i + size]
                traded[i] = builder.shuffle_vector(*pair, masks[0])
                traded[i + size] = builder.shuffle_vector(*pair, masks[1])
        vectors = traded
        size *= 2
    return vectors
