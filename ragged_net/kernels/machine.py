"""The processor's vectors, their width and their number, and its caches."""

from __future__ import annotations

from numba.core.registry import cpu_target

__all__ = ["LANES", "TILE_COLUMNS", "TILE_ROWS", "WIDE_LEFT", "WIDE_RIGHT"]

# Of the processor that Numba compiles for and keeps kernels for, which NUMBA_CPU_NAME may change:
# kernels of 16 lanes must not be used with frames that are packed for 8.
_, _, _FEATURES = cpu_target.target_context.codegen().magic_tuple()
_WIDE = "+avx512f" in _FEATURES.split(",")

LANES = 16 if _WIDE else 8
"""Floats of a vector: what fills a register of AVX-512, or of AVX2 (two of a Neon)."""

TILE_ROWS, TILE_COLUMNS = (8, 32) if _WIDE else (4, 16)
"""The block of a product that stays in registers: 16 of the 32 of AVX-512, 8 of the 16 of AVX2."""

WIDE_LEFT, WIDE_RIGHT = (1024, 256) if _WIDE else (128, 128)
"""Columns from which on a chunk of rows shares too few sets of the cache, on the left and on the
right of a product: on the right they are gone through again and again. Then they are copied, which
is a larger part of a product of AVX-512."""
