"""A scripted player of connect four that searches some moves ahead of an observation.

minimax = Minimax(depth=4, seed=0)
actions = minimax(observation)

"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit as _njit

from entity_env.actions import Action, SelectEntityAction
from entity_env.arguments import check_whole
from entity_env.observation import Observation
from entity_env.rows.jit import compiled

from .connect_four import HEIGHT, WIDTH

__all__ = ["Minimax", "minimax_depth_4", "move_values"]

# It calls itself with numbers of other types, which only machine code of its own can.
njit: Any = _njit(nogil=True)
_STRIDE = HEIGHT + 1  # of a column in a bitboard; its uppermost bit stays empty
_WIN = 1_000
_FEATURE_OF_DISC_0 = 2
_SHIFTS = (1, _STRIDE - 1, _STRIDE, _STRIDE + 1)  # to the next space along each direction
_BOARD = sum(((1 << HEIGHT) - 1) << (x * _STRIDE) for x in range(WIDTH))


class Minimax:
    """Plays one of the best moves that it sees within ``depth`` moves, each as likely as another.

    A win is better the sooner it comes. Positions without one are worth the open lines of who
    moves less those of the other: the four spaces of an open line hold k >= 1 discs of one player
    and none of the other, and it counts k * k.

    Args:
        depth: Number of moves of both players to look ahead, 1 to 10.
        seed: Seeds its choice among moves that are equally good.
    """

    def __init__(self, depth: int = 4, seed: int = 0) -> None:
        self.depth = check_whole("depth", depth, 1, 10)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart the random numbers."""
        self._rng = np.random.default_rng(seed)

    def __call__(self, observation: Observation) -> dict[str, Action]:
        """Return the actions."""
        features: Any = observation.features
        ids: Any = observation.ids
        columns = np.asarray(features["Column"])
        discs = columns[:, _FEATURE_OF_DISC_0 : _FEATURE_OF_DISC_0 + HEIGHT].astype(np.int64)
        values = move_values(discs, self.depth)
        best = np.flatnonzero(values == values.max())
        x = int(best[self._rng.integers(len(best))])
        return {"Drop": SelectEntityAction(list(ids["Player"]), [ids["Column"][x]])}


def minimax_depth_4(observation: Observation) -> dict[str, Action]:
    """``Minimax(4)``, for settings that name a function."""
    return _DEPTH_4(observation)


def move_values(discs: npt.NDArray[np.int64], depth: int) -> npt.NDArray[np.int64]:
    """Return the value of each move to who moves.

    A win is worth 1,000 less the moves until it, a full board 0, and a position after ``depth``
    moves without a win the difference of the open lines, as ``Minimax`` says.

    Args:
        discs: 0 for an empty space, 1 for a disc of who moves and 2 for one of the other. Shape:
            (7, 6), column by column, the lowest first.
        depth: Number of moves to look at, including this one.

    Returns:
        Negative for moves that lose; -2,000 for full columns. Shape: (7,), int64.
    """
    return np.asarray(_values(np.ascontiguousarray(discs, np.int64), depth))


@compiled
def _has_four(board: int) -> bool:
    """Return True if a bitboard has four in a line: pairs of pairs along each direction."""
    found = False
    for shift in _SHIFTS:
        pairs = board & (board >> shift)
        if pairs & (pairs >> (2 * shift)):
            found = True
    return found


@compiled
def _count(board: int) -> int:
    """Return the number of bits that are set."""
    count = 0
    while board:
        board &= board - 1
        count += 1
    return count


@compiled
def _open_lines(own: int, other: int) -> int:
    """Return the sum of k * k over the open lines with k discs of ``own``."""
    total = 0
    free = _BOARD & ~other
    for shift in _SHIFTS:
        # Each bit stands for the line that begins there; the empty row between columns and the
        # zeros beyond the board close lines that would leave it.
        pairs = free & (free >> shift)
        lines = pairs & (pairs >> (2 * shift))
        one, two = own ^ (own >> shift), own & (own >> shift)
        one_later, two_later = one >> (2 * shift), two >> (2 * shift)
        odd = lines & (one ^ one_later)
        threes = odd & (two | two_later)
        twos = lines & ((two ^ two_later) & ~odd | (one & one_later))
        total += _count(odd & ~threes) + 4 * _count(twos) + 9 * _count(threes)
    return total


@njit  # type: ignore[untyped-decorator]
def _search(own: int, other: int, depth: int, ply: int, alpha: int, beta: int) -> int:
    """Negamax with alpha-beta pruning: the value, to who moves, after ``ply`` moves."""
    if ply == depth:
        balance: int = _open_lines(own, other) - _open_lines(other, own)
        return balance
    best = -2 * _WIN
    for i in range(WIDTH):
        x = WIDTH // 2 + ((i + 1) // 2) * (1 if i % 2 else -1)  # the middle first
        column = ((own | other) >> (x * _STRIDE)) & ((1 << HEIGHT) - 1)
        if column == (1 << HEIGHT) - 1:
            continue
        disc = (column + 1) << (x * _STRIDE)
        if _has_four(own | disc):
            return _WIN - ply - 1
        best = max(best, -_search(other, own | disc, depth, ply + 1, -beta, -alpha))
        alpha = max(alpha, best)
        if alpha >= beta:
            break
    return 0 if best == -2 * _WIN else best  # a full board is a draw


@njit  # type: ignore[untyped-decorator]
def _values(discs: npt.NDArray[np.int64], depth: int) -> npt.NDArray[np.int64]:
    own, other = 0, 0
    for x in range(WIDTH):
        for y in range(HEIGHT):
            own |= (discs[x, y] == 1) << (x * _STRIDE + y)
            other |= (discs[x, y] == 2) << (x * _STRIDE + y)
    values = np.full(WIDTH, -2 * _WIN)
    for x in range(WIDTH):
        column = ((own | other) >> (x * _STRIDE)) & ((1 << HEIGHT) - 1)
        if column == (1 << HEIGHT) - 1:
            continue
        disc = (column + 1) << (x * _STRIDE)
        if _has_four(own | disc):
            values[x] = _WIN - 1
            continue
        values[x] = -_search(other, own | disc, depth, 1, -2 * _WIN, 2 * _WIN)
    return values


_DEPTH_4 = Minimax(4)
