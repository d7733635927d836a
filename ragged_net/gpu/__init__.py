"""Triton kernels for GPUs."""

__all__: list[str] = []
