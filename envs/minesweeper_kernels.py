"""MineSweeper compiled: the rules of ``envs.minesweeper`` for all rows at once, without the GIL.

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

from envs.jit import kernel
from envs.minesweeper_rules import DEFUSE, STEPS, MineSweeperSettings

__all__ = [
    "F32",
    "F64",
    "HEIGHT",
    "I32",
    "I64",
    "LENGTH",
    "MINES",
    "ROBOTS",
    "STEP",
    "U64",
    "WIDTH",
    "Bools",
    "advance",
    "is_legal",
    "restart",
    "rules_of",
]

I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
U64: TypeAlias = npt.NDArray[np.uint64]
F32: TypeAlias = npt.NDArray[np.float32]
F64: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

# Columns of ``facts``: the board, what is left on it, the game's step, and the steps since the
# row's episode began, which differ where a state was set.
WIDTH, HEIGHT, MINES, ROBOTS, STEP, LENGTH = range(6)
_PERIOD, _MAX_STEPS = 8, 9
_GONE = -(1 << 20)
"""The x of an entity that was removed in this step: far from every tile."""
# What a choice adds to x and y. Arrays: a tuple would be copied to the stack at each use.
_DX = np.array([dx for dx, _ in (*STEPS, (0, 0))])
_DY = np.array([dy for _, dy in (*STEPS, (0, 0))])

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
def is_legal(
    facts: I32,
    robots: I32,
    cooldowns: I32,
    moves: I64,
    move_counts: I64,
    shots: I64,
    shot_counts: I64,
) -> bool:
    """Whether every robot and every ready cannon has one choice that its mask allows.

    ``moves`` and ``shots`` hold those of all rows, (A, 1), and the counts how many of each, (R,).
    """
    move = shot = 0
    legal = True
    for row in range(len(facts)):
        width, height, nrobots = facts[row, WIDTH], facts[row, HEIGHT], facts[row, ROBOTS]
        nready = 0
        for cannon in range(cooldowns.shape[1]):
            nready += cooldowns[row, cannon] == 0
        if move_counts[row] != nrobots or shot_counts[row] != nready:
            return False
        for robot in range(nrobots):
            choice = moves[move + robot, 0]
            if choice < 0 or choice > DEFUSE:
                return False
            x, y = robots[row, robot, 0] + _DX[choice], robots[row, robot, 1] + _DY[choice]
            legal &= (x >= 0) & (y >= 0) & (x < width) & (y < height)
        for i in range(nready):
            target = shots[shot + i, 0]
            legal &= (target >= 0) & (target < facts[row, MINES] + nrobots)
        move += nrobots
        shot += nready
    return legal


@kernel
def advance(
    rules: I64,
    facts: I32,
    mines: I32,
    robots: I32,
    cooldowns: I32,
    returns: F64,
    moves: I64,
    shots: I64,
    reward: F32,
    done: Bools,
    truncated: Bools,
    metrics: F64,
) -> tuple[int, int]:
    """Play one step in each row with legal actions; rows that end are left as they ended.

    ``reward``, ``done`` and ``truncated``, (R,), and ``metrics``, (3, R), are filled: length,
    reward and win of the episodes that ended, else NaN. Returns how many ended, and how many of
    these were cut off.
    """
    move = shot = ended = cut_off = 0
    metrics[:] = np.nan
    for row in range(len(facts)):
        nmines, nrobots = facts[row, MINES], facts[row, ROBOTS]
        fired = _fire(rules, cooldowns, mines, robots, shots, shot, row, nmines)
        defused = _walk(mines, robots, moves, move, row, nrobots)
        move, shot = move + nrobots, shot + fired
        if defused or fired:
            nmines = _keep_mines(mines, row, nmines)
        nrobots = _keep_robots(mines, robots, row, nmines, nrobots)
        facts[row, MINES], facts[row, ROBOTS] = nmines, nrobots
        facts[row, STEP] += 1
        facts[row, LENGTH] += 1
        won = nmines == 0
        over = won | (nrobots == 0)
        is_cut_off = (not over) & (facts[row, STEP] >= rules[_MAX_STEPS])
        reward[row] = 1.0 if won else 0.0
        truncated[row] = is_cut_off
        done[row] = over | is_cut_off
        if done[row]:
            returns[row] += reward[row]
            metrics[0, row], metrics[1, row] = facts[row, LENGTH], returns[row]
            metrics[2, row] = reward[row]
            ended += 1
            cut_off += is_cut_off
    return ended, cut_off


# The parts of ``advance``, inlined: as calls they cost half as much again. Their loops over mines
# run to the end of the line, not to the last mine that is left: a constant number of rounds is
# cheaper than a branch that nobody can predict.


@njit(inline="always")
def _fire(
    rules: I64,
    cooldowns: I32,
    mines: I32,
    robots: I32,
    shots: I64,
    shot: int,
    row: int,
    nmines: int,
) -> int:
    """Every ready cannon removes what it selected; returns how many fired."""
    fired = 0
    for cannon in range(cooldowns.shape[1]):
        if cooldowns[row, cannon] > 0:
            cooldowns[row, cannon] -= 1
            continue
        cooldowns[row, cannon] = rules[_PERIOD]
        target = shots[shot + fired, 0]
        fired += 1
        if target < nmines:
            mines[row, target, 0] = _GONE
        else:
            robots[row, target - nmines, 0] = _GONE
    return fired


@njit(inline="always")
def _walk(mines: I32, robots: I32, moves: I64, move: int, row: int, nrobots: int) -> bool:
    """The robots that are left walk, or remove the mines around them; whether one did this."""
    defused = False
    for robot in range(nrobots):
        choice = moves[move + robot, 0]
        x, y = robots[row, robot, 0], robots[row, robot, 1]
        if x == _GONE:
            continue
        robots[row, robot, 0], robots[row, robot, 1] = x + _DX[choice], y + _DY[choice]
        if choice == DEFUSE:
            defused = True
            for mine in range(mines.shape[1]):
                there = mines[row, mine, 0]
                near = abs(there - x) + abs(mines[row, mine, 1] - y) <= 1
                mines[row, mine, 0] = _GONE if near else there
    return defused


@njit(inline="always")
def _keep_mines(mines: I32, row: int, nmines: int) -> int:
    """The mines that are left move up in the list; returns how many."""
    left = 0
    for mine in range(mines.shape[1]):
        x, y = mines[row, mine, 0], mines[row, mine, 1]
        mines[row, left, 0], mines[row, left, 1] = x, y
        left += (x != _GONE) & (mine < nmines)
    return left


@njit(inline="always")
def _keep_robots(mines: I32, robots: I32, row: int, nmines: int, nrobots: int) -> int:
    """The robots that are left, and stand on no mine, move up in the list; returns how many."""
    left = 0
    for robot in range(nrobots):
        x, y = robots[row, robot, 0], robots[row, robot, 1]
        lost = x == _GONE
        for mine in range(mines.shape[1]):
            on_it = (mines[row, mine, 0] == x) & (mines[row, mine, 1] == y)
            lost |= on_it & (mine < nmines)
        robots[row, left, 0], robots[row, left, 1] = x, y
        left += not lost
    return left


@kernel
def restart(
    rules: I64,
    facts: I32,
    mines: I32,
    robots: I32,
    cooldowns: I32,
    streams: U64,
    returns: F64,
    rows: I64,
) -> None:
    """Begin an episode in each of ``rows``."""
    tiles = np.empty(rules[1] * rules[3], np.int32)
    for row in rows:
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
        cooldowns[row] = rules[_PERIOD]
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
    unfair = ((_LOW - count) + np.uint64(1)) % count  # 2 ** 32 modulo count
    while True:
        streams[row] += _WEYL
        bits = streams[row]
        bits = (bits ^ (bits >> _B30)) * _MIX1
        bits = (bits ^ (bits >> _B27)) * _MIX2
        product = ((bits ^ (bits >> _B31)) >> _B32) * count
        if (product & _LOW) >= unfair:
            return least + int(product >> _B32)
