"""Vectors of floats as values in Numba functions.

Numba leaves vectors to LLVM's loop vectoriser, which gives up where it cannot rule out that two
arrays overlap. With these, a kernel says what it keeps in registers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, overload, register_model

from ragged_net.kernels.machine import LANES

__all__ = [
    "LANES",
    "exp",
    "fma",
    "load",
    "maximum",
    "root",
    "splat",
    "store",
    "swap",
    "total",
    "where_positive",
]

_FLOAT, _INT32 = ir.FloatType(), ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INTEGERS = ir.VectorType(_INT32, LANES)


class _Vector(types.Type):
    """The Numba type."""


_vector = _Vector(name=f"Vector{LANES}")


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    """A vector is one LLVM value."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@intrinsic
def load(typing: Any, array: Any, start: Any) -> Any:
    """Return the ``LANES`` floats of a flat ``array`` from ``start`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = builder.load(_address(context, builder, signature, arguments))
        loaded.align = 4
        return loaded

    return _vector(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, start: Any, vector: Any) -> Any:
    """Write ``vector`` to a flat ``array`` from ``start`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        builder.store(arguments[2], place).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def splat(typing: Any, number: Any) -> Any:
    """``LANES`` times the same number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], _INT32(0))
        return builder.shuffle_vector(first, undefined, ir.Constant(_INTEGERS, [0] * LANES))

    return _vector(types.float32), generate


def _arithmetic(name: str) -> Any:
    @intrinsic
    def function(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(*arguments)

        return _vector(a, b), generate

    return function


def _define(symbol: Callable[..., Any], name: str) -> None:
    function = _arithmetic(name)

    @overload(symbol, strict=False)
    def overloaded(a: Any, b: Any) -> Any:
        if isinstance(a, _Vector) and isinstance(b, _Vector):
            return lambda a, b: function(a, b)
        return None


for _symbol, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define(_symbol, _name)


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``, rounded once."""
    return _vector(a, b, c), lambda _context, builder, _signature, arguments: builder.call(
        _function(builder, "llvm.fma", 3), arguments
    )


@intrinsic
def root(typing: Any, x: Any) -> Any:
    """Return the square root."""
    return _vector(x), lambda _context, builder, _signature, arguments: builder.call(
        _function(builder, "llvm.sqrt", 1), arguments
    )


@intrinsic
def maximum(typing: Any, a: Any, b: Any) -> Any:
    """Return the larger of each two numbers; NaN in ``b`` is passed on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">=", *arguments), *arguments)

    return _vector(a, b), generate


@intrinsic
def swap(typing: Any, x: Any) -> Any:
    """Return the lanes in pairs, the two of each exchanged."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        order = [lane ^ 1 for lane in range(LANES)]
        return builder.shuffle_vector(arguments[0], undefined, ir.Constant(_INTEGERS, order))

    return _vector(x), generate


@intrinsic
def total(typing: Any, x: Any) -> Any:
    """Return the sum of all lanes, a float."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
        name = f"llvm.vector.reduce.fadd.v{LANES}f32"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        # "reassoc" lets LLVM add halves to halves; else it would add one number at a time.
        return builder.call(function, [_FLOAT(0.0), *arguments], fastmath=("reassoc",))

    return types.float32(x), generate


@intrinsic
def where_positive(typing: Any, condition: Any, value: Any) -> Any:
    """``value`` where the ``condition`` is over 0 or NaN, else 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        condition, value = arguments
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_unordered(">", condition, zero), value, zero)

    return _vector(condition, value), generate


@intrinsic
def exp(typing: Any, x: Any) -> Any:
    """Return the exponential of x <= 0: relative error 2e-7, exactly 0 below -87; NaN stays NaN.

    2^n * exp(r) with n the whole number nearest to x / ln 2; ln 2 in two parts and the polynomial
    for exp(r) after Cephes' expf (Moshier 1989).
    """
    return _vector(x), _generate_exp


_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_POLYNOMIAL = (
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
    5.0000001201e-1,
)  # fmt: skip


def _generate_exp(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    def constant(number: float) -> Any:
        return ir.Constant(_VECTOR, [number] * LANES)

    def integer(number: int) -> Any:
        return ir.Constant(_INTEGERS, [number] * LANES)

    (x,) = arguments
    multiply_add = _function(builder, "llvm.fma", 3)
    too_small = builder.fcmp_ordered("<", x, constant(-87.0))
    bounded = builder.select(too_small, constant(-87.0), x)
    scaled = builder.call(multiply_add, [bounded, constant(1 / 0.6931471805599453), constant(0.5)])
    n = builder.call(_function(builder, "llvm.floor", 1), [scaled])
    r = builder.call(multiply_add, [n, constant(-_LN2_HIGH), bounded])
    r = builder.call(multiply_add, [n, constant(-_LN2_LOW), r])
    p = constant(_POLYNOMIAL[0])
    for coefficient in _POLYNOMIAL[1:]:
        p = builder.call(multiply_add, [p, r, constant(coefficient)])
    p = builder.call(multiply_add, [builder.fmul(p, r), r, builder.fadd(r, constant(1.0))])
    # A float's exponent lies 23 bits up, with 127 added.
    exponent = builder.add(builder.fptosi(n, _INTEGERS), integer(127))
    power = builder.bitcast(builder.shl(exponent, integer(23)), _VECTOR)
    return builder.select(too_small, constant(0.0), builder.fmul(p, power))


def _function(builder: Any, name: str, arguments: int) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * arguments)
    return cgutils.get_or_insert_function(builder.module, kind, f"{name}.v{LANES}f32")


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), _VECTOR.as_pointer())
