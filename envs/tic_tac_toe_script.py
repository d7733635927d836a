"""A perfect player of tic-tac-toe."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from entity_env.actions import Action, SelectEntityAction
from entity_env.observation import Observation

from .tic_tac_toe import LINES

__all__ = ["PerfectPlayer", "best_cells", "play_perfectly", "value"]

_MARK = 2  # the feature of a cell that says whose mark is in it
Board = tuple[int, ...]
"""Nine cells: 0 for an empty one, 1 for a mark of who moves, 2 for one of the other."""


class PerfectPlayer:
    """A player of one of the best moves, each as likely as another: it never loses.

    Moves that lead to the same result are equally good: it may win later than it could.

    Args:
        seed: Seeds its choice among them.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart its random numbers."""
        self._rng = np.random.default_rng(seed)

    def __call__(self, observation: Observation) -> dict[str, Action]:
        """Return the actions."""
        features: Any = observation.features
        ids: Any = observation.ids
        board = tuple(int(cell[_MARK]) for cell in features["Cell"])
        cell = int(self._rng.choice(best_cells(board)))
        return {"Mark": SelectEntityAction(list(ids["Player"]), [ids["Cell"][cell]])}


play_perfectly = PerfectPlayer()
"""A perfect player by its path, for ``eval.scripted`` and leagues."""


@functools.cache
def value(board: Board) -> int:
    """Return the value of a board for the player to move: 1, 0 or -1."""
    if any(all(board[cell] == 2 for cell in line) for line in LINES):
        return -1
    return max((-value(_after(board, cell)) for cell in _empty(board)), default=0)


@functools.cache
def best_cells(board: Board) -> tuple[int, ...]:
    """Return the cells that lead to the best result."""
    return tuple(c for c in _empty(board) if -value(_after(board, c)) == value(board))


def _empty(board: Board) -> list[int]:
    return [cell for cell, mark in enumerate(board) if not mark]


def _after(board: Board, cell: int) -> Board:
    """Return the board as the other sees it after a mark there."""
    marked = (*board[:cell], 1, *board[cell + 1 :])
    return tuple((0, 2, 1)[mark] for mark in marked)
