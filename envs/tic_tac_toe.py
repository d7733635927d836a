"""Tic-tac-toe: two players in turns, three in a row win; and a perfect player."""

from __future__ import annotations

import functools
from operator import index as whole
from typing import Any

import numpy as np

from entity_env.actions import Action, SelectEntityAction
from entity_env.hints import EntityHints, ViewerHints
from entity_env.multi_player import SeatActions, SeatObservations
from entity_env.observation import Observation, SelectEntityActionMask
from entity_env.spaces import Discrete, Entity, ObsSpace, SelectEntityActionSpace

from .checks import check_running, read_selection
from .small_game import SeatGame

__all__ = ["LINES", "PerfectPlayer", "TicTacToe", "best_cells", "play_perfectly", "value"]


LINES = (
    (0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6),
)  # fmt: skip


class TicTacToe(SeatGame):
    """Two players mark cells in turns; three of a player's marks in a row win.

    Entities:
        Player: the seat itself; Cell: nine, at column x and row y, with 0 for an empty cell, 1 for
        the seat's own mark and 2 for the opponent's.
    Actions:
        Mark: the player selects an empty cell.
    Metrics:
        win: 1, 0.5 for a draw, 0.
    """

    _obs_space = ObsSpace(
        entities={
            "Player": Entity([]),
            "Cell": Entity(["x", "y", Discrete("mark", 3, names=("empty", "own", "other"))]),
        }
    )
    _action_space = {"Mark": SelectEntityActionSpace()}
    _seats = ("X", "O")
    _saved = {"board": [whole], "turn": whole}

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.board, self.turn = [0] * 9, 0
        self.winner: int | None = None

    @property
    def is_decided(self) -> bool:
        """True if somebody has won or the board is full."""
        return self.winner is not None or all(self.board)

    def act(self, actions: SeatActions) -> SeatObservations:
        """Put a mark, and ask the other player."""
        check_running(self.steps, self.is_decided)
        mover = self.turn
        own = actions.get(self._seats[mover], {})
        cell: Any = read_selection(own, "Mark", "me", self._empty())
        self.board[cell[1]] = mover + 1
        if self._has_won(mover):
            self.winner = mover
        self.steps += 1
        self.turn = 1 - mover
        return self._shown()

    def _problems(self, board: list[int], turn: int) -> dict[str, bool]:
        first, second = board.count(1), board.count(2)
        return {
            "another number of cells": len(board) != 9,
            "marks of nobody": not set(board) <= {0, 1, 2},
            "the wrong player's turn": turn != first - second,
        }

    def _restore(self, **saved: Any) -> None:
        super()._restore(**saved, steps=9 - saved["board"].count(0))
        self.winner = next((player for player in (0, 1) if self._has_won(player)), None)

    def viewer_hints(self) -> ViewerHints:
        """Return the board: a tile for each cell, with a cross for the seat's own marks."""
        cell = EntityHints(
            tile="square",
            color="mark",
            colors=("", "#2672d6", "#e84c3d"),
            shapes=("circle", "cross", "ring"),
        )
        return ViewerHints({"Cell": cell}, y_axis="down")

    def render_text(self) -> str:
        """Return the board."""
        marks = [".XO"[mark] for mark in self.board]
        return "\n".join(" ".join(marks[i : i + 3]) for i in (0, 3, 6))

    def _has_won(self, player: int) -> bool:
        return any(all(self.board[cell] == player + 1 for cell in line) for line in LINES)

    def _empty(self) -> list[tuple[str, int]]:
        return [("Cell", i) for i, mark in enumerate(self.board) if not mark]

    def _shown(self) -> SeatObservations:
        if self.is_decided:
            return {seat: self._seen(player) for player, seat in enumerate(self._seats)}
        return {self._seats[self.turn]: self._seen(self.turn)}

    def _seen(self, player: int) -> Observation:
        own = {0: 0, player + 1: 1, 2 - player: 2}
        seen = Observation(
            features={
                "Player": [[]],
                "Cell": [[i % 3, i // 3, own[mark]] for i, mark in enumerate(self.board)],
            },
            ids={"Player": ["me"], "Cell": [("Cell", i) for i in range(9)]},
        )
        if self.is_decided:
            seen.reward = 0.0 if self.winner is None else 1.0 if self.winner == player else -1.0
            seen.done, seen.metrics = True, {"win": (seen.reward + 1) / 2}
        else:
            mask = SelectEntityActionMask(actor_types=["Player"], actee_ids=self._empty())
            seen.actions = {"Mark": mask}
        return seen


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
