"""Boards of compiled MineSweeper: the arrays that hold all rows, and how episodes begin.

Every row has its line in each array, and the last ones of ``mines`` and ``robots`` are unused where
entities are gone. Sizes are read from the arrays, so that one compilation serves all settings.

    rules      (10,)       int64    settings, see ``rules_of``
    facts      (R, 6)      int32    columns ``WIDTH`` .. ``LENGTH``
    mines      (R, M, 2)   int32    x, y
    robots     (R, K, 2)   int32    x, y
    cooldowns  (R, C)      int32    one for each cannon
    streams    (R,)        uint64   random state of each row
    returns    (R,)        float64  rewards of the running episode
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from .jit import kernel
from .minesweeper_rules import MineSweeperSettings

__all__ = [
    "F32",
    "F64",
    "HEIGHT",
    "I32",
    "I64",
    "LENGTH",
    "MAX_STEPS",
    "MINES",
    "PERIOD",
    "ROBOTS",
    "STEP",
    "U64",
    "WIDTH",
    "Board",
    "Bools",
    "begin",
    "restart",
    "room_for_tiles",
    "rules_of",
]

I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
U64: TypeAlias = npt.NDArray[np.uint64]
F32: TypeAlias = npt.NDArray[np.float32]
F64: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

Board: TypeAlias = tuple[I32, I32, I32, I32]
"""``facts``, ``mines``, ``robots`` and ``cooldowns`` of all rows."""

# Columns of ``facts``: the board, what is left on it, the game's step, and the steps since the
# row's episode began, which differ where a state was set.
WIDTH, HEIGHT, MINES, ROBOTS, STEP, LENGTH = range(6)
# Elements of ``rules``, behind four spans of two.
PERIOD, MAX_STEPS = 8, 9

# SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)
_B27, _B30, _B31, _B32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


def rules_of(settings: MineSweeperSettings) -> I64:
    """The settings as ``rules``: four spans, the cooldown period and the limit of steps."""
    spans = [*settings.width, *settings.height, *settings.nmines, *settings.nrobots]
    return np.array([*spans, settings.cooldown_period, settings.max_steps], np.int64)


@kernel
def restart(rules: I64, board: Board, streams: U64, returns: F64) -> None:
    """Begin an episode in each row."""
    tiles = room_for_tiles(rules)
    for row in range(len(streams)):
        begin(rules, board, streams, returns, tiles, row)


@njit(nogil=True)
def room_for_tiles(rules: I64) -> I32:
    """What ``begin`` shuffles in: an element for each tile of the largest board."""
    return np.empty(rules[1] * rules[3], np.int32)


@njit(nogil=True)
def begin(rules: I64, board: Board, streams: U64, returns: F64, tiles: I32, row: int) -> None:
    """Begin an episode in a row; ``tiles`` is room for those of a board."""
    facts, mines, robots, cooldowns = board
    width = _between(streams, row, rules[0], rules[1])
    height = _between(streams, row, rules[2], rules[3])
    nrobots = _between(streams, row, rules[6], rules[7])
    nmines = _between(streams, row, rules[4], min(rules[5], width * height - nrobots))
    # The head of a shuffle (Fisher and Yates): every order of different tiles is as likely.
    for tile in range(width * height):
        tiles[tile] = tile
    for i in range(nmines + nrobots):
        other = _between(streams, row, i, width * height - 1)
        tile = tiles[other]
        tiles[other] = tiles[i]
        if i < nmines:
            mines[row, i, 0], mines[row, i, 1] = tile % width, tile // width
        else:
            robots[row, i - nmines, 0] = tile % width
            robots[row, i - nmines, 1] = tile // width
    cooldowns[row] = rules[PERIOD]
    facts[row, WIDTH], facts[row, HEIGHT] = width, height
    facts[row, MINES], facts[row, ROBOTS] = nmines, nrobots
    facts[row, STEP] = facts[row, LENGTH] = 0
    returns[row] = 0.0


@kernel
def _between(streams: U64, row: int, least: int, most: int) -> int:
    """A number from ``least`` to ``most``, each as likely; draws nothing where there is only one.

    Multiplies 32 random bits by the number of choices (Lemire 2019, arXiv:1805.10941).
    """
    if least >= most:
        return least
    count = np.uint64(most - least + 1)
    while True:
        streams[row] += _WEYL
        bits = streams[row]
        bits = (bits ^ (bits >> _B30)) * _MIX1
        bits = (bits ^ (bits >> _B27)) * _MIX2
        product = ((bits ^ (bits >> _B31)) >> _B32) * count
        low = product & _LOW
        # What is below 2 ** 32 modulo count is unfair, and so below count: few need the division.
        if low >= count or low >= ((_LOW - count) + np.uint64(1)) % count:
            return least + int(product >> _B32)
