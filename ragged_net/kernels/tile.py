"""The one micro-kernel that all matrix products here are made of.

It keeps a small block of the result in vector registers, which neither Numba's loops nor LLVM's
vectoriser do on their own: a factor of 2 to 4. Written once as LLVM vector code it runs on any
processor; LLVM splits vectors that are wider than the machine's.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ragged_net.kernels.machine import LANES, TILE_COLUMNS, TILE_ROWS

__all__ = ["PANEL", "add_product"]

PANEL = 32
"""Columns of a panel of packed weights, and the widest product."""
_FLOAT, _INT32, _INDEX = ir.FloatType(), ir.IntType(32), ir.IntType(64)


@intrinsic(prefer_literal=True)
def add_product(
    typing: Any,
    columns: Any,
    rows: Any,
    depth: Any,
    a: Any,
    a_start: Any,
    a_row: Any,
    a_column: Any,
    b: Any,
    b_start: Any,
    b_row: Any,
    c: Any,
    c_start: Any,
    c_row: Any,
) -> Any:
    """``C (rows, columns) += A (rows, depth) @ B (depth, columns)``, all flat float32 arrays.

    ``columns`` is a literal. Starts and strides count elements: A's element (i, k) is
    ``a[a_start + i * a_row + k * a_column]``; the columns of B and C lie side by side.
    """
    signature = types.void(
        columns, *(types.intp,) * 2, a, *(types.intp,) * 3, b, *(types.intp,) * 2, c,
        *(types.intp,) * 2,
    )  # fmt: skip
    return signature, _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    _, rows, depth, a, a_start, a_row, a_column, b, b_start, b_row, c, c_start, c_row = arguments

    def pointer(position: int, array: Any, start: Any) -> Any:
        data = context.make_array(signature.args[position])(context, builder, array).data
        return builder.gep(data, [start])

    operands = _Operands(
        builder=builder,
        columns=signature.args[0].literal_value,
        depth=depth,
        a=(pointer(3, a, a_start), a_row, a_column),
        b=(pointer(7, b, b_start), b_row),
        c=(pointer(10, c, c_start), c_row),
    )
    whole = builder.udiv(rows, _INDEX(TILE_ROWS))
    with cgutils.for_range(builder, whole) as loop:
        operands.tiles(builder.mul(loop.index, _INDEX(TILE_ROWS)), TILE_ROWS)
    size = TILE_ROWS // 2
    while size:  # what is left over: 4 rows, 2, 1
        left = builder.and_(rows, _INDEX(size))
        with builder.if_then(builder.icmp_unsigned("!=", left, _INDEX(0))):
            operands.tiles(builder.and_(rows, _INDEX(-2 * size)), size)
        size //= 2
    return context.get_dummy_value()


class _Operands:
    """Emits the code of one product: pointers to A, B and C, each followed by its strides."""

    def __init__(self, builder: Any, columns: int, depth: Any, a: Any, b: Any, c: Any) -> None:
        self.builder, self.depth, self.a, self.b, self.c = builder, depth, a, b, c
        lanes = min(columns, LANES)
        self.columns = columns
        self.vector = ir.VectorType(_FLOAT, lanes)
        self.undefined = ir.Constant(self.vector, ir.Undefined)
        self.splat = ir.Constant(ir.VectorType(_INT32, lanes), [0] * lanes)
        self.fma = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(self.vector, [self.vector] * 3),
            f"llvm.fma.v{lanes}f32",
        )

    def tiles(self, first_row: Any, rows: int) -> None:
        """Emit the rows from ``first_row`` on of the result."""
        for first in range(0, self.columns, TILE_COLUMNS):
            end = min(first + TILE_COLUMNS, self.columns)
            self._tile(first_row, rows, range(first, end, self.vector.count))

    def _tile(self, first_row: Any, rows: int, starts: range) -> None:
        """Emit the vectors that start at these columns; their sums stay in registers."""
        builder = self.builder
        a, a_row, a_column = self.a
        c, c_row = self.c
        row_numbers = [builder.add(first_row, _INDEX(i)) for i in range(rows)]
        a_rows = [builder.gep(a, [builder.mul(a_row, row)]) for row in row_numbers]
        c_rows = [builder.gep(c, [builder.mul(c_row, row)]) for row in row_numbers]
        places = [self._vector_at(row, start) for row in c_rows for start in starts]
        # They start at 0, not at C: added term by term to a large C, small terms would be lost.
        # LLVM turns these stack slots into registers.
        zero = ir.Constant(self.vector, [0.0] * self.vector.count)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in places]
        with cgutils.for_range(builder, self.depth) as loop:
            b = builder.gep(self.b[0], [builder.mul(loop.index, self.b[1])])
            vectors = [self._load(self._vector_at(b, start)) for start in starts]
            shift = builder.mul(loop.index, a_column)
            for i, row in enumerate(a_rows):
                number = self._broadcast(builder.load(builder.gep(row, [shift])))
                for vector, slot in zip(vectors, sums[i * len(vectors) :], strict=False):
                    total = builder.call(self.fma, [number, vector, builder.load(slot)])
                    builder.store(total, slot)
        for place, slot in zip(places, sums, strict=True):
            builder.store(builder.fadd(self._load(place), builder.load(slot)), place).align = 4

    def _vector_at(self, row: Any, start: int) -> Any:
        address = self.builder.gep(row, [_INDEX(start)])
        return self.builder.bitcast(address, self.vector.as_pointer())

    def _load(self, address: Any) -> Any:
        loaded = self.builder.load(address)
        loaded.align = 4
        return loaded

    def _broadcast(self, number: Any) -> Any:
        first = self.builder.insert_element(self.undefined, number, _INT32(0))
        return self.builder.shuffle_vector(first, self.undefined, self.splat)
