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

__all__ = ["ADD", "PANEL", "RELU", "SET", "WHERE", "add_product", "set_product"]

PANEL = 32
"""Columns of a panel of packed weights, and the widest product."""
SET, ADD, RELU, WHERE = range(4)
"""Results for a product P and E: P, P + E, max(P + E, 0), or P where E > 0 and else 0. Done in
passes of their own over the result, this cost a tenth of a block's time. Numba compiles a version
for each of them, without the others."""
_CACHE_LINE = 16  # floats
_FLOAT, _INT32, _INDEX = ir.FloatType(), ir.IntType(32), ir.IntType(64)


@intrinsic(prefer_literal=True)
def add_product(
    typing, columns, rows, depth, a, a_start, a_row, a_column, b, b_start, b_row,
    c, c_start, c_row,
):  # fmt: skip
    """``C (rows, columns) += A (rows, depth) @ B (depth, columns)``, all flat float32 arrays.

    ``columns`` is a literal. Starts and strides count elements: A's element (i, k) is
    ``a[a_start + i * a_row + k * a_column]``; the columns of B and C lie side by side.
    """
    signature = types.void(
        columns, *(types.intp,) * 2, a, *(types.intp,) * 3, b, *(types.intp,) * 2, c,
        *(types.intp,) * 2,
    )  # fmt: skip
    return signature, _generate


@intrinsic(prefer_literal=True)
def set_product(
    typing, columns, rows, depth, a, a_start, a_row, a_column, b, b_start, b_row,
    c, c_start, c_row, how, e, e_start, e_row,
):  # fmt: skip
    """C (rows, columns) becomes what ``how`` makes of the product ``A @ B`` and E (rows, columns).

    ``how`` is ``SET``, ``ADD``, ``RELU`` or ``WHERE``. E is a flat float32 array like the others;
    it may be C itself, and a single row if ``e_row`` is 0. The rest is that of ``add_product``.
    """
    signature = types.void(
        columns, *(types.intp,) * 2, a, *(types.intp,) * 3, b, *(types.intp,) * 2, c,
        *(types.intp,) * 3, e, *(types.intp,) * 2,
    )  # fmt: skip
    return signature, _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    _, rows, depth, *matrices = arguments
    a, a_start, a_row, a_column, b, b_start, b_row, c, c_start, c_row, *beside = matrices

    def pointer(position: int, array: Any, start: Any) -> Any:
        data = context.make_array(signature.args[position])(context, builder, array).data
        return builder.gep(data, [start])

    how, e = None, (pointer(10, c, c_start), c_row)
    if beside:
        how, array, e_start, e_row = beside
        e = (pointer(14, array, e_start), e_row)
    operands = _Operands(
        builder=builder,
        columns=signature.args[0].literal_value,
        depth=depth,
        a=(pointer(3, a, a_start), a_row, a_column),
        b=(pointer(7, b, b_start), b_row),
        c=(pointer(10, c, c_start), c_row),
        how=how,
        e=e,
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
    """Emits the code of one product: pointers to A, B, C and E, each followed by its strides.

    ``how`` is None where the product is always added to E.
    """

    def __init__(
        self, builder: Any, columns: int, depth: Any, a: Any, b: Any, c: Any, how: Any, e: Any
    ) -> None:
        self.builder, self.depth, self.a, self.b, self.c = builder, depth, a, b, c
        self.how, self.e = how, e
        lanes = min(columns, LANES)
        self.columns = columns
        self.vector = ir.VectorType(_FLOAT, lanes)
        self.undefined = ir.Constant(self.vector, ir.Undefined)
        self.splat = ir.Constant(ir.VectorType(_INT32, lanes), [0] * lanes)
        self.fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(self.vector, [self.vector] * 3), f"llvm.fma.v{lanes}f32"
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
        row_numbers = [builder.add(first_row, _INDEX(i)) for i in range(rows)]
        a_rows = [builder.gep(a, [builder.mul(a_row, row)]) for row in row_numbers]
        places, others = (
            [
                self._vector_at(builder.gep(first, [builder.mul(stride, row)]), start)
                for row in row_numbers
                for start in starts
            ]
            for first, stride in (self.c, self.e)
        )
        # E may lie far away: it is sent for first, and is there when the product is.
        for other in others[:: max(1, _CACHE_LINE // self.vector.count)]:
            self._prefetch(other)
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
        products = [builder.load(slot) for slot in sums]
        if self.how is None:
            self._finish(ADD, products, others, places)
            return
        end = builder.append_basic_block("stored")
        choice = builder.switch(self.how, end)
        for how in (SET, ADD, RELU, WHERE):
            block = builder.append_basic_block("store")
            choice.add_case(_INDEX(how), block)
            with builder.goto_block(block):
                self._finish(how, products, others, places)
                builder.branch(end)
        builder.position_at_end(end)

    def _finish(self, how: int, products: list[Any], others: list[Any], places: list[Any]) -> None:
        """Emit what becomes of the products, beside E at ``others``, at ``places``."""
        builder = self.builder
        zero = ir.Constant(self.vector, [0.0] * self.vector.count)
        for product, other, place in zip(products, others, places, strict=True):
            value = condition = product
            if how in (ADD, RELU):
                value = condition = builder.fadd(self._load(other), product)
            elif how == WHERE:
                condition = self._load(other)
            if how in (RELU, WHERE):
                positive = builder.fcmp_unordered(">", condition, zero)  # NaN is kept
                value = builder.select(positive, value, zero)
            builder.store(value, place).align = 4

    def _prefetch(self, address: Any) -> None:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        read, near, data = _INT32(0), _INT32(3), _INT32(1)
        self.builder.call(function, [self.builder.bitcast(address, byte), read, near, data])

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
