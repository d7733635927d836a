"""Conversion of observations to ``VecObs`` and back: reading, checking and packing frames."""

__all__: list[str] = []
