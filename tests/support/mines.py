"""MineSweeper for tests that also run without Numba, which the game needs."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

__all__ = ["NEEDS_NUMBA", "minesweeper"]

NEEDS_NUMBA = pytest.mark.skipif(find_spec("numba") is None, reason="the game needs Numba")


def minesweeper(*settings, **named):
    """Return a game of MineSweeper."""
    from ragged_envs.minesweeper import MineSweeper

    return MineSweeper(*settings, **named)
