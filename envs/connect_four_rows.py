"""Connect four for all games at once, compiled: the same game as ``connect_four.ConnectFour``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
    compiled,
)

from .connect_four import ACTION_SPACE, HEIGHT, OBS_SPACE, WIDTH, ConnectFour

__all__ = ["ConnectFourRows"]


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
    """Games of connect four, two rows each; everything about it: ``ConnectFour``.

    Args:
        num_envs: The number of rows R, an even one.
        seed: Seeds nothing but what every compiled game has.
    """

    environment: ClassVar[Any] = ConnectFour

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
