"""Connect four: two players drop discs into columns, in turns; four discs in a line win.

game = ConnectFour()
seats = game.reset()
seats = game.act({"first": minimax(seats["first"])})  # minimax = Minimax(4) of connect_four_script

"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from entity_env.hints import EntityHints, ViewerHints
from entity_env.rows.compiled import Actors, CompiledGame, CompiledRows, Entities, Field, compiled
from entity_env.rows.single_game import CompiledPlayers
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Discrete,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

__all__ = ["HEIGHT", "WIDTH", "ConnectFour", "ConnectFourRows"]

WIDTH, HEIGHT = 7, 6
SEATS = ("first", "second")

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


@compiled
def _run(g: Any, game: int, x: int, y: int, dx: int, dy: int, player: int) -> int:
    """Return the number of a player's discs in a row from beside a space on."""
    length = 0
    i, j = x + dx, y + dy
    while 0 <= i < WIDTH and 0 <= j < HEIGHT and g.board[game, i, j] == player + 1:
        length += 1
        i += dx
        j += dy
    return length


@compiled
def _line(g: Any, game: int, x: int, y: int, player: int) -> int:
    """Return the longest line, up to 4, through a space if ``player`` had a disc there."""
    a = _run(g, game, x, y, 1, 0, player) + _run(g, game, x, y, -1, 0, player)
    b = _run(g, game, x, y, 0, 1, player) + _run(g, game, x, y, 0, -1, player)
    c = _run(g, game, x, y, 1, 1, player) + _run(g, game, x, y, -1, -1, player)
    d = _run(g, game, x, y, 1, -1, player) + _run(g, game, x, y, -1, 1, player)
    longest: int = min(max(a, b, c, d) + 1, 4)
    return longest


def _reset(g: Any, game: int) -> None:
    g.board[game] = 0
    g.height[game] = 0
    g.turn[game] = 0
    g.discs[game] = 0


def _step(g: Any, game: int, seat: int, chosen: Any) -> None:
    g.chosen[game] = chosen[0] - 1  # entity 0 is the player


def _resolve(g: Any, game: int, reward: Any) -> bool:
    x, player = g.chosen[game], g.turn[game]
    y = g.height[game, x]
    won = _line(g, game, x, y, player) == 4
    g.board[game, x, y] = player + 1
    g.height[game, x] += 1
    g.discs[game] += 1
    g.turn[game] = 1 - player
    g.win[game, 0] = 0.5
    g.win[game, 1] = 0.5
    if won:
        reward[player] += 1.0
        reward[1 - player] -= 1.0
        g.win[game, player] = 1.0
        g.win[game, 1 - player] = 0.0
    return bool(won or g.discs[game] == WIDTH * HEIGHT)


def _asks(g: Any, game: int, seat: int) -> bool:
    return bool(g.turn[game] == seat)


def _player(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    pass


def _column(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    height = g.height[game, i]
    out[0] = i - WIDTH // 2
    out[1] = height
    for y in range(HEIGHT):
        disc = g.board[game, i, y]
        out[2 + y] = 0 if disc == 0 else (1 if disc == seat + 1 else 2)
    for above in range(2):
        y = height + above
        for other in range(2):
            player = seat if other == 0 else 1 - seat
            out[2 + HEIGHT + 2 * above + other] = _line(g, game, i, y, player) if y < HEIGHT else 0


def _may_drop(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    for x in range(WIDTH):
        out[x] = g.height[game, x] < HEIGHT


def _problems(g: Any, game: int) -> dict[str, bool]:
    """Return descriptions of invalid states, with True for those of a saved state."""
    filled, discs = g.board[game] > 0, g.discs[game]
    return {
        "discs that float": (filled != (np.arange(HEIGHT) < g.height[game][:, np.newaxis])).any(),
        "another number of discs": filled.sum() != discs or discs == filled.size,
        "the wrong player's turn": g.turn[game] != discs % 2
        or (g.board[game] == 1).sum() != (discs + 1) // 2,
    }


class ConnectFourRows(CompiledRows):
    """Games of connect four, two rows each; see ``ConnectFour``.

    Args:
        num_envs: The number of rows R, an even one.
        seed: No effect, because the game draws no random numbers.
    """

    def __init__(self, num_envs: int, seed: int = 0) -> None:
        game = CompiledGame(
            obs_space=OBS_SPACE,
            action_space=ACTION_SPACE,
            state={
                "board": Field((WIDTH, HEIGHT), least=0, most=2),
                "height": Field((WIDTH,), least=0, most=HEIGHT),
                "turn": Field(least=0, most=1),
                "discs": Field(least=0, most=WIDTH * HEIGHT),
                "chosen": Field(least=0, most=WIDTH - 1),
                "win": Field((2,), dtype="float64", least=0, most=1),
            },
            reset=_reset,
            step=_step,
            entities={
                "Player": Entities(_player, count=1, most=1),
                "Column": Entities(_column, count=WIDTH, most=WIDTH),
            },
            actions={"Drop": Actors("Player", mask=_may_drop, targets=("Column",))},
            metrics={"win": "win"},
            seats=2,
            asks=_asks,
            resolve=_resolve,
            problems=_problems,
        )
        super().__init__(game, num_envs, seed)


class ConnectFour(CompiledPlayers):
    """Two players drop discs into columns; four of a player's discs in a line win.

    Entities:
        A ``Player``, the seat itself; seven ``Column`` [x, height, disc0, ..., disc5, own, other,
        own_above, other_above] from left to right. x is -3 for the
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

    rows = ConnectFourRows

    def seats(self) -> Sequence[str]:
        """Return the players in the order of their turns."""
        return SEATS

    def viewer_hints(self) -> ViewerHints:
        """Return the board: a space for each disc of a column."""
        discs = [f"disc{y}" for y in range(HEIGHT)]
        column = EntityHints(x="x", stack=discs, colors=("", "#e6a519", "#cf3b34"))
        return ViewerHints({"Column": column})

    def render_text(self) -> str:
        """Return the board from the top, X for who began and O for the other."""
        board = np.array([*".XO"])[self.fields()["board"]]
        return "\n".join(map(" ".join, board.T[::-1]))


ConnectFourRows.environment = ConnectFour
