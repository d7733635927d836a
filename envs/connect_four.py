"""Connect four: two players drop discs into columns, in turns; four discs in a line win.

game = ConnectFour()
seats = game.reset()
seats = game.act({"first": minimax(seats["first"])})  # minimax = Minimax(4) of connect_four_script

"""

from __future__ import annotations

from operator import index as whole
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.hints import EntityHints, ViewerHints
from entity_env.observation import Observation, SelectEntityActionMask
from entity_env.seats.multi_player import SeatActions, SeatObservations
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Discrete,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

from .board_picture import Space, draw_spaces, player_signs
from .checks import check_running, check_started, read_selection
from .small_game import SeatGame, maybe

__all__ = ["ACTION_SPACE", "HEIGHT", "OBS_SPACE", "SEATS", "WIDTH", "ConnectFour"]

WIDTH, HEIGHT = 7, 6
SEATS = ("first", "second")
DIRECTIONS = ((1, 0), (0, 1), (1, 1), (1, -1))

OBS_SPACE = ObsSpace(
    entities={
        "Player": Entity([]),
        "Column": Entity(
            [
                "x",
                "height",
                *(Discrete(f"disc{y}", 3, names=("none", "own", "other")) for y in range(HEIGHT)),
                *(Discrete(name, 5) for name in ("own", "other", "own_above", "other_above")),
            ]
        ),
    }
)
ACTION_SPACE: dict[ActionName, ActionSpace] = {"Drop": SelectEntityActionSpace()}
_COLUMNS = tuple(("Column", x) for x in range(WIDTH))


class ConnectFour(SeatGame):
    """Two players drop discs into columns; four of a player's discs in a line win.

    Entities:
        A ``Player``, the seat itself; seven ``Column`` [x, height, disc0, ..., disc5, own, other,
        own_above, other_above] with the ids ("Column", 0) to ("Column", 6). x is -3 for the
        leftmost column, height the number of its discs. ``disc0`` is the lowest space: 0 is empty,
        1 the seat's own disc, 2 the opponent's. ``own`` is the length, at most 4, of the longest
        line that the seat's disc would make in this column, ``other`` that of the opponent's disc;
        ``own_above`` and ``other_above`` are those for the space above it; 0 without a space.
    Actions:
        ``Drop``: the player selects a column that is not full.
    Reward:
        1.0 for the winner and -1.0 for the loser, 0.0 for a draw.
    End:
        A line of four, in any of the four directions, or a full board. The last observations have
        the metric ``win``: 1.0, 0.0, or 0.5 for a draw.
    Randomness:
        None.
    Source:
        The game of H. Wexler and N. Strongin, 1974.
    """

    _obs_space = OBS_SPACE
    _action_space = ACTION_SPACE
    _seats = SEATS
    _saved = {"columns": [[whole]], "winner": maybe(whole)}

    def __init__(self) -> None:
        self.columns: list[list[int]] = [[] for _ in range(WIDTH)]
        self.turn = 0
        self.winner: int | None = None

    def _begin(self) -> None:
        self.columns = [[] for _ in range(WIDTH)]
        self.turn, self.winner = 0, None

    def act(self, actions: SeatActions) -> SeatObservations:
        """Drop a disc, and ask the other player."""
        check_running(self.steps, self.is_decided)
        mover = self.turn
        chosen: Any = read_selection(actions.get(SEATS[mover], {}), "Drop", "me", self._open())
        x = chosen[1]
        y = len(self.columns[x])
        if self.line(x, y, mover) == 4:
            self.winner = mover
        self.columns[x].append(mover)
        self.steps += 1
        self.turn = 1 - mover
        return self._shown()

    @property
    def is_decided(self) -> bool:
        """True if a player has four in a line or the board is full."""
        return self.winner is not None or self.steps == WIDTH * HEIGHT

    def line(self, x: int, y: int, player: int) -> int:
        """Return the longest line, up to 4, through a space if ``player`` had a disc there."""
        longest = 1
        for dx, dy in DIRECTIONS:
            length = 1
            for sign in (1, -1):
                i, j = x + sign * dx, y + sign * dy
                while self._disc(i, j) == player:
                    length += 1
                    i, j = i + sign * dx, j + sign * dy
            longest = max(longest, length)
        return min(longest, 4)

    def observe(self, player: int) -> Observation:
        """Return the observation of a player."""
        check_started(self.steps)
        features: dict[str, Any] = {
            "Player": [[]],
            "Column": [self._column(x, player) for x in range(WIDTH)],
        }
        ids = {"Player": ("me",), "Column": _COLUMNS}
        if not self.is_decided:
            mask = SelectEntityActionMask(
                actor_types=["Player"],
                actee_types=["Column"],
                mask=[[len(column) < HEIGHT for column in self.columns]],
            )
            return Observation(features=features, ids=ids, actions={"Drop": mask})
        reward = 0.0 if self.winner is None else 1.0 if self.winner == player else -1.0
        metrics = {"win": (reward + 1) / 2}
        return Observation(features=features, ids=ids, reward=reward, done=True, metrics=metrics)

    def _problems(self, columns: list[list[int]], winner: int | None) -> dict[str, bool]:
        discs = [player for column in columns for player in column]
        first, second = discs.count(0), discs.count(1)
        return {
            "another number of columns": len(columns) != WIDTH,
            "a column that is too high": any(len(column) > HEIGHT for column in columns),
            "discs of nobody": first + second != len(discs),
            "a player who has dropped too many discs": not 0 <= first - second <= 1,
            "a winner that is not None, 0 or 1": winner not in (None, 0, 1),
        }

    def _restore(self, **saved: Any) -> None:
        steps = sum(map(len, saved["columns"]))
        super()._restore(**saved, steps=steps, turn=steps % 2)

    def _shown(self) -> SeatObservations:
        if self.is_decided:
            return {seat: self.observe(i) for i, seat in enumerate(SEATS)}
        return {SEATS[self.turn]: self.observe(self.turn)}

    def viewer_hints(self) -> ViewerHints:
        """Return the board: a space for each disc of a column."""
        discs = [f"disc{y}" for y in range(HEIGHT)]
        column = EntityHints(x="x", stack=discs, colors=("", "#e6a519", "#cf3b34"))
        return ViewerHints({"Column": column})

    def render_text(self) -> str:
        """Return the board from the top, X for who began and O for the other."""
        rows = [
            " ".join(".XO"[self._disc(x, y) + 1] for x in range(WIDTH))
            for y in reversed(range(HEIGHT))
        ]
        return "\n".join(rows)

    def render(self, cell: int = 48, **_: Any) -> npt.NDArray[np.uint8]:
        """Return the board; shape (H, W, 3)."""
        spaces = [Space(x, -y, self._disc(x, y)) for x, y in self._spaces()]
        return draw_spaces(spaces, cell=cell, signs=player_signs(SEATS))

    def _spaces(self) -> list[tuple[int, int]]:
        return [(x, y) for x in range(WIDTH) for y in range(HEIGHT)]

    def _disc(self, x: int, y: int) -> int:
        """Return the owner of the disc there, or -1, off the board too."""
        if not 0 <= x < WIDTH or not 0 <= y < len(self.columns[x]):
            return -1
        return self.columns[x][y]

    def _open(self) -> list[tuple[str, int]]:
        return [("Column", x) for x in range(WIDTH) if len(self.columns[x]) < HEIGHT]

    def _column(self, x: int, player: int) -> list[int]:
        column = self.columns[x]
        height = len(column)
        discs = [1 if own == player else 2 for own in column] + [0] * (HEIGHT - height)
        lines = [
            self.line(x, y, own) if y < HEIGHT else 0
            for y in (height, height + 1)
            for own in (player, 1 - player)
        ]
        return [x - WIDTH // 2, height, *discs, *lines]
