"""What rows of compiled MineSweeper show, as a ``VecObs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numba import njit

from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64
from entity_env.batching.vec_obs import VecCategoricalActionMask, VecObs, VecSelectEntityActionMask

from .jit import kernel
from .minesweeper_board import F32, F64, HEIGHT, I32, I64, MINES, ROBOTS, WIDTH, Board, Bools
from .minesweeper_rules import MOVES

__all__ = [
    "COUNTS",
    "Entities",
    "FrameWriter",
    "Frames",
    "LastFrames",
    "Totals",
    "observe",
    "put_cooldowns",
    "put_tiles",
]

COUNTS = 5
"""How many numbers say how long the lists of a frame are, see ``observe``."""
Frames: TypeAlias = tuple[F32, F32, F32, Bools, I64, I64, I64]
"""Flat ``mines``, ``robots``, ``cannons``, masks of moves, actors that move, shoot, and actees."""
Totals: TypeAlias = tuple[int, int, int, int]
"""How many mines, robots, ready cannons and actees all rows have."""
Entities: TypeAlias = tuple[F32, F32, F32, I64]
"""Flat ``mines``, ``robots`` and ``cannons``, and how many of each a row has, (3, R)."""


class _Blank:
    """What frames hold where nobody can act; a copy costs a quarter of a new one."""

    def __init__(self, frames: int) -> None:
        none = np.zeros(frames, np.int64)
        self.cannons = RaggedBufferF32.from_flattened(np.empty((0, 1), np.float32), none)
        self.rows = RaggedBufferI64.from_flattened(np.empty((0, 1), np.int64), none)
        self.mask = RaggedBufferBool.from_flattened(np.empty((0, len(MOVES)), np.bool_), none)
        self.ends = np.ones(frames, np.bool_)


class FrameWriter:
    """Makes a ``VecObs`` of frames in flat arrays, which it keeps: ragged buffers copy them.

    Args:
        rows: The number of frames R.
        nmines: The most mines of a frame.
        nrobots: The most robots of a frame.
        ncannons: The number of cannons.

    Attributes:
        arrays: What ``observe`` fills.
    """

    def __init__(self, rows: int, nmines: int, nrobots: int, ncannons: int) -> None:
        self.arrays: Frames = (
            np.empty((rows * nmines, 2), np.float32),
            np.empty((rows * nrobots, 2), np.float32),
            np.empty((rows * ncannons, 1), np.float32),
            np.empty((rows * nrobots, len(MOVES)), np.bool_),
            np.empty((rows * nrobots, 1), np.int64),
            np.empty((rows * ncannons, 1), np.int64),
            # Nobody selects where there are no cannons.
            np.empty((rows * (nmines + nrobots) if ncannons else 0, 1), np.int64),
        )
        self._ncannons = ncannons
        self._blank = _Blank(rows)
        self._no_globals = np.empty((rows, 0), np.float32)

    def write(
        self,
        lengths: I64,
        totals: Totals,
        reward: F32,
        done: Bools,
        truncated: Bools,
        metrics: Mapping[str, F64],
        final: VecObs | None,
    ) -> VecObs:
        """The observation of all rows, of the ``lengths`` and ``totals`` of ``observe``.

        The arguments behind them are those of ``VecObs``.
        """
        mines, robots, cannons, mask, movers, shooters, actees = self.arrays
        nmines, nrobots, nready, nactees = totals
        floats, whole = RaggedBufferF32.from_flattened, RaggedBufferI64.from_flattened
        nothing, in_frames = self._blank, lengths[1]
        return VecObs(
            features={
                "Mine": floats(mines[:nmines], lengths[0]),
                "Robot": floats(robots[:nrobots], in_frames),
                "Orbital Cannon": floats(cannons, lengths[2])
                if self._ncannons
                else nothing.cannons.clone(),
            },
            action_masks={
                "Move": VecCategoricalActionMask(
                    whole(movers[:nrobots], in_frames),
                    RaggedBufferBool.from_flattened(mask[:nrobots], in_frames),
                ),
                "Fire Orbital Cannon": VecSelectEntityActionMask(
                    whole(shooters[:nready], lengths[3]), whole(actees[:nactees], lengths[4])
                )
                if nready
                else VecSelectEntityActionMask(nothing.rows.clone(), nothing.rows.clone()),
            },
            reward=reward,
            done=done,
            truncated=truncated,
            global_features=self._no_globals,
            visible={},
            metrics=metrics,
            final=final,
        )


class LastFrames:
    """The entities of the rows that a step cut off, which ``advance`` writes down.

    Args: those of ``FrameWriter``.

    Attributes:
        arrays: Only what the last step cut off is meant.
    """

    def __init__(self, rows: int, nmines: int, nrobots: int, ncannons: int) -> None:
        self._ncannons = ncannons
        self._blank: dict[int, _Blank] = {}
        self.arrays: Entities = (
            np.empty((rows * nmines, 2), np.float32),
            np.empty((rows * nrobots, 2), np.float32),
            np.empty((rows * ncannons, 1), np.float32),
            np.empty((3, rows), np.int64),
        )

    def read(self, frames: int, nmines: int, nrobots: int) -> VecObs:
        """The frames, one for each row that was cut off, as observations in which nobody can act.

        Args:
            frames: Their number.
            nmines: The number of mines in all of them.
            nrobots: The number of robots in all of them.
        """
        mines, robots, cannons, counts = self.arrays
        lengths = counts[:, :frames].copy()
        floats = RaggedBufferF32.from_flattened
        if frames not in self._blank:
            self._blank[frames] = _Blank(frames)
        nothing = self._blank[frames]
        return VecObs(
            features={
                "Mine": floats(mines[:nmines], lengths[0]),
                "Robot": floats(robots[:nrobots], lengths[1]),
                "Orbital Cannon": floats(cannons[: frames * self._ncannons], lengths[2])
                if self._ncannons
                else nothing.cannons.clone(),
            },
            action_masks={
                "Move": VecCategoricalActionMask(nothing.rows.clone(), nothing.mask.clone()),
                "Fire Orbital Cannon": VecSelectEntityActionMask(
                    nothing.rows.clone(), nothing.rows.clone()
                ),
            },
            reward=np.zeros(frames, np.float32),
            done=nothing.ends.copy(),
            truncated=nothing.ends.copy(),
            global_features=np.empty((frames, 0), np.float32),
        )


@kernel
def observe(board: Board, lengths: I64, frames: Frames) -> Totals:
    """Fill the flat arrays.

    ``lengths`` gets the counts of each frame: mines, robots, cannons, ready ones, actees; those of
    a game without cannons stay 0. Shape: (COUNTS, R).
    """
    mine_values, robot_values, cannon_values, mask, movers, shooters, actees = frames
    facts, mines, robots, cooldowns = board
    m = r = s = a = 0
    ncannons = cooldowns.shape[1]
    for row in range(len(facts)):
        nmines, nrobots = facts[row, MINES], facts[row, ROBOTS]
        right, top = facts[row, WIDTH] - 1, facts[row, HEIGHT] - 1
        put_tiles(mines, row, mine_values, m)
        put_tiles(robots, row, robot_values, r)
        for i in range(robots.shape[1]):
            x, y = robots[row, i, 0], robots[row, i, 1]
            mask[r + i, 0], mask[r + i, 1] = x < right, x > 0
            mask[r + i, 2], mask[r + i, 3] = y < top, y > 0
            mask[r + i, 4] = True
            movers[r + i, 0] = nmines + i
        m += nmines
        r += nrobots
        lengths[0, row], lengths[1, row] = nmines, nrobots
        if not ncannons:
            continue
        put_cooldowns(cooldowns, row, cannon_values, row * ncannons)
        ready = 0
        for i in range(ncannons):
            if cooldowns[row, i] == 0:
                shooters[s, 0] = nmines + nrobots + i
                s += 1
                ready += 1
        targets = nmines + nrobots if ready else 0
        for i in range(targets):
            actees[a, 0] = i
            a += 1
        lengths[2, row], lengths[3, row], lengths[4, row] = ncannons, ready, targets
    return m, r, s, a


# Whole lines: what lies behind the last entity that is left is overwritten by the next frame.


@njit(inline="always")
def put_tiles(tiles: I32, row: int, values: F32, at: int) -> None:
    """Write where a row's mines, or robots, are into flat ``values``, from line ``at`` on."""
    for i in range(tiles.shape[1]):
        values[at + i, 0], values[at + i, 1] = tiles[row, i, 0], tiles[row, i, 1]


@njit(inline="always")
def put_cooldowns(cooldowns: I32, row: int, values: F32, at: int) -> None:
    """Write the cooldowns of a row's cannons into flat ``values``, from line ``at`` on."""
    for i in range(cooldowns.shape[1]):
        values[at + i, 0] = cooldowns[row, i]
