"""MineSweeper compiled: the rules of ``minesweeper.py`` for all rows at once, without the GIL.

``minesweeper_board.py`` says what the arrays are.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numba import njit

from .jit import kernel
from .minesweeper_board import (
    F32,
    F64,
    HEIGHT,
    I32,
    I64,
    LENGTH,
    MAX_STEPS,
    MINES,
    PERIOD,
    ROBOTS,
    STEP,
    U64,
    WIDTH,
    Board,
    Bools,
    begin,
    room_for_tiles,
)
from .minesweeper_frames import Entities, Frames, Totals, observe, put_cooldowns, put_tiles
from .minesweeper_rules import DEFUSE, STEPS

__all__ = ["advance", "is_legal"]

Ends: TypeAlias = tuple[int, int, int, int]
"""How many episodes ended, how many of these were cut off, the mines and robots of the latter."""

_GONE = -(1 << 20)
"""The x of an entity that was removed in this step: far from every tile."""
# What a choice adds to x and y. Arrays: a tuple would be copied to the stack at each use.
_DX = np.array([dx for dx, _ in (*STEPS, (0, 0))])
_DY = np.array([dy for _, dy in (*STEPS, (0, 0))])


@kernel
def is_legal(board: Board, moves: I64, move_counts: I64, shots: I64, shot_counts: I64) -> bool:
    """Whether every robot and every ready cannon has one choice that its mask allows.

    ``moves`` and ``shots`` hold those of all rows, (A, 1), and the counts how many of each, (R,).
    """
    facts, _, robots, cooldowns = board
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
    board: Board,
    streams: U64,
    returns: F64,
    moves: I64,
    shots: I64,
    reward: F32,
    done: Bools,
    truncated: Bools,
    metrics: F64,
    last: Entities,
    lengths: I64,
    frames: Frames,
) -> tuple[Ends, Totals]:
    """Play one step in each row with legal actions; rows that end begin anew.

    ``reward``, ``done`` and ``truncated``, (R,), and ``metrics``, (3, R), are filled: length,
    reward and win of the episodes that ended, else NaN. ``last`` gets the entities of the rows
    that were cut off, as they were; ``lengths`` and ``frames`` what there is to ``observe``.
    """
    facts, mines, robots, cooldowns = board
    move = shot = ended = 0
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
        is_cut_off = (not over) & (facts[row, STEP] >= rules[MAX_STEPS])
        reward[row] = 1.0 if won else 0.0
        truncated[row] = is_cut_off
        done[row] = over | is_cut_off
        if done[row]:
            returns[row] += reward[row]
            metrics[0, row], metrics[1, row] = facts[row, LENGTH], returns[row]
            metrics[2, row] = reward[row]
            ended += 1
    cut_off, last_mines, last_robots = _begin_anew(
        rules, board, streams, returns, done, truncated, last
    )
    return (ended, cut_off, last_mines, last_robots), observe(board, lengths, frames)


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
        cooldowns[row, cannon] = rules[PERIOD]
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


@njit(inline="always")
def _begin_anew(
    rules: I64,
    board: Board,
    streams: U64,
    returns: F64,
    done: Bools,
    truncated: Bools,
    last: Entities,
) -> tuple[int, int, int]:
    """Begin an episode where one is done; returns the last three of ``Ends``."""
    facts, mines, robots, cooldowns = board
    last_mines, last_robots, last_cannons, lengths = last
    tiles, ncannons = room_for_tiles(rules), cooldowns.shape[1]
    cut_off = m = r = 0
    for row in range(len(facts)):
        if truncated[row]:
            nmines, nrobots = facts[row, MINES], facts[row, ROBOTS]
            put_tiles(mines, row, last_mines, m)
            put_tiles(robots, row, last_robots, r)
            put_cooldowns(cooldowns, row, last_cannons, cut_off * ncannons)
            lengths[0, cut_off], lengths[1, cut_off] = nmines, nrobots
            lengths[2, cut_off] = ncannons
            m, r = m + nmines, r + nrobots
            cut_off += 1
        if done[row]:
            begin(rules, board, streams, returns, tiles, row)
    return cut_off, m, r
