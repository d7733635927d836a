"""Real-time strategy games: one engine, played by rules that are data and a few functions.

Each game exists twice. ``world.py`` and its siblings say the rules in readable Python, one object
for each unit; ``fast_world.py`` and the ``*_rows.py`` play thousands of games with Numba. Both draw
the same random numbers and keep positions in single precision, so that they agree tick by tick.
"""

__all__: list[str] = []
