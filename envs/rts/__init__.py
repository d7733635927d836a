"""Real-time strategy games: one engine, played by rules that are data and a few functions.

The functions play thousands of games with Numba, and a single game as Python. Positions are kept in
single precision.
"""

__all__: list[str] = []
