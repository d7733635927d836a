"""Numba kernels for the CPU: matrix products, attention and transformer blocks over ragged rows."""
