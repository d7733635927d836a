"""Kernels of a GPU."""

__all__: list[str] = []
