"""From observations to ``VecObs`` and back: reading, checking and packing frames of any length."""

__all__: list[str] = []
