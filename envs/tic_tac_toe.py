"""Tic-tac-toe: two players in turns, three of one's own in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.observation import Observation, SelectEntityActionMask
from entity_env.seats.multi_player import MultiPlayerEnvironment, SeatActions, SeatObservations
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Discrete,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

from .board_picture import Space, draw_spaces, player_signs

__all__ = ["LINES", "TicTacToe"]

LINES = (
    (0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6),
)  # fmt: skip


class TicTacToe(MultiPlayerEnvironment):
    """Whoever has three in a row wins 1, the other loses 1; a full board is a draw.

    Entities:
        Player: the one who looks; Cell: nine, at column x and row y, with 0 for an empty one, 1 for
        one's own mark and 2 for the other's.
    Actions:
        Mark: the player selects an empty cell.
    Metrics:
        win: 1, 0.5 for a draw, 0.
    """

    y_axis = "down"

    def __init__(self) -> None:
        self.board = [0] * 9
        self.turn = 0

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return ObsSpace(
            entities={
                "Player": Entity([]),
                "Cell": Entity(["x", "y", Discrete("mark", 3, names=("empty", "own", "other"))]),
            }
        )

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Mark."""
        return {"Mark": SelectEntityActionSpace()}

    def seats(self) -> Sequence[str]:
        """X, who begins, and O."""
        return ["X", "O"]

    def reset(self) -> SeatObservations:
        """Return an empty board."""
        self.board, self.turn = [0] * 9, 0
        return {"X": self._shown(0)}

    def act(self, actions: SeatActions) -> SeatObservations:
        """Put the mark, and ask the other."""
        mover = self.turn
        self.board[_marked(actions[self.seats()[mover]])] = mover + 1
        if self._has_won(mover):
            return self._ended({mover: 1.0, 1 - mover: -1.0})
        if all(self.board):
            return self._ended({0: 0.0, 1: 0.0})
        self.turn = 1 - mover
        return {self.seats()[self.turn]: self._shown(self.turn)}

    def get_state(self) -> dict[str, Any]:
        """Return the board and whose turn it is."""
        return {"board": list(self.board), "turn": self.turn}

    def set_state(self, state: Mapping[str, Any]) -> SeatObservations:
        """Go on from there."""
        self.board, self.turn = list(state["board"]), int(state["turn"])
        return {self.seats()[self.turn]: self._shown(self.turn)}

    def render_text(self) -> str:
        """Return the board."""
        marks = [".XO"[mark] for mark in self.board]
        return "\n".join(" ".join(marks[i : i + 3]) for i in (0, 3, 6))

    def render(self, cell: int = 48, **_: Any) -> npt.NDArray[np.uint8]:
        """Return the board; shape (H, W, 3)."""
        spaces = [
            Space(i % 3, i // 3, mark - 1, text=" XO"[mark].strip())
            for i, mark in enumerate(self.board)
        ]
        return draw_spaces(spaces, cell=cell, signs=player_signs(["X, who begins", "O"], "XO"))

    def _has_won(self, player: int) -> bool:
        return any(all(self.board[cell] == player + 1 for cell in line) for line in LINES)

    def _shown(self, player: int, **end: Any) -> Observation:
        own = {0: 0, player + 1: 1, 2 - player: 2}
        cells = [[i % 3, i // 3, own[mark]] for i, mark in enumerate(self.board)]
        actions = {}
        if not end:
            empty = [("Cell", i) for i, mark in enumerate(self.board) if not mark]
            actions["Mark"] = SelectEntityActionMask(actor_types=["Player"], actee_ids=empty)
        return Observation(
            features={"Player": [[]], "Cell": cells},
            ids={"Player": ["me"], "Cell": [("Cell", i) for i in range(9)]},
            actions=actions,
            **{"reward": 0.0, "done": False, **end},
        )

    def _ended(self, rewards: Mapping[int, float]) -> SeatObservations:
        return {
            seat: self._shown(
                i, reward=rewards[i], done=True, metrics={"win": (rewards[i] + 1) / 2}
            )
            for i, seat in enumerate(self.seats())
        }


def _marked(actions: Mapping[ActionName, Action]) -> int:
    mark: Any = actions["Mark"]
    cell: int = mark.actees[0][1]
    return cell
