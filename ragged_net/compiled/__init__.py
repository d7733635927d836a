"""Layers on the CPU as Numba kernels, and their gradients."""

__all__: list[str] = []
