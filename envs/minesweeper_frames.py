"""What rows of compiled MineSweeper show, as a ``VecObs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numba import njit

from entity_env.batch import VecCategoricalActionMask, VecObs, VecSelectEntityActionMask
from entity_env.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64
from envs.jit import kernel
from envs.minesweeper_board import F32, F64, HEIGHT, I32, I64, MINES, ROBOTS, WIDTH, Board, Bools
from envs.minesweeper_rules import MOVES

__all__ = ["Entities", "FrameWriter", "LastFrames", "put_cooldowns", "put_tiles"]

Entities: TypeAlias = tuple[F32, F32, F32, I64]
"""Flat ``mines``, ``robots`` and ``cannons``, and how many of each a row has, (3, R)."""


class FrameWriter:
    """Writes frames into flat arrays that it keeps; the ragged buffers of a ``VecObs`` copy them.

    Args:
        rows: The number of frames R.
        nmines: The most mines of a frame.
        nrobots: The most robots of a frame.
        ncannons: The number of cannons.
    """

    def __init__(self, rows: int, nmines: int, nrobots: int, ncannons: int) -> None:
        self._mines = np.empty((rows * nmines, 2), np.float32)
        self._robots = np.empty((rows * nrobots, 2), np.float32)
        self._cannons = np.empty((rows * ncannons, 1), np.float32)
        self._mask = np.empty((rows * nrobots, len(MOVES)), np.bool_)
        self._movers = np.empty((rows * nrobots, 1), np.int64)
        self._shooters = np.empty((rows * ncannons, 1), np.int64)
        # Nobody selects where there are no cannons.
        self._actees = np.empty((rows * (nmines + nrobots) if ncannons else 0, 1), np.int64)
        self._ncannons = ncannons
        # Copies of an empty buffer cost a quarter of new ones.
        none = np.zeros(rows, np.int64)
        self._no_cannons = RaggedBufferF32.from_flattened(self._cannons[:0], none)
        self._nobody = RaggedBufferI64.from_flattened(self._actees[:0], none)
        self._no_globals = np.empty((rows, 0), np.float32)

    def write(
        self,
        board: Board,
        reward: F32,
        done: Bools,
        truncated: Bools,
        metrics: Mapping[str, F64],
        final: VecObs | None,
    ) -> VecObs:
        """The observation of all rows; the arguments behind ``board`` are those of ``VecObs``."""
        lengths = np.zeros((5, len(reward)), np.int64)
        nmines, nrobots, nready, nactees = _observe(
            board,
            lengths,
            self._mines,
            self._robots,
            self._cannons,
            self._mask,
            self._movers,
            self._shooters,
            self._actees,
        )
        floats, whole = RaggedBufferF32.from_flattened, RaggedBufferI64.from_flattened
        robots = lengths[1]
        has = self._ncannons > 0
        cannons = floats(self._cannons, lengths[2]) if has else self._no_cannons.clone()
        if nready:
            shooters = whole(self._shooters[:nready], lengths[3])
            actees = whole(self._actees[:nactees], lengths[4])
        else:
            shooters, actees = self._nobody.clone(), self._nobody.clone()
        return VecObs(
            features={
                "Mine": floats(self._mines[:nmines], lengths[0]),
                "Robot": floats(self._robots[:nrobots], robots),
                "Orbital Cannon": cannons,
            },
            action_masks={
                "Move": VecCategoricalActionMask(
                    whole(self._movers[:nrobots], robots),
                    RaggedBufferBool.from_flattened(self._mask[:nrobots], robots),
                ),
                "Fire Orbital Cannon": VecSelectEntityActionMask(shooters, actees),
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
        self.arrays: Entities = (
            np.empty((rows * nmines, 2), np.float32),
            np.empty((rows * nrobots, 2), np.float32),
            np.empty((rows * ncannons, 1), np.float32),
            np.empty((3, rows), np.int64),
        )

    def read(self, reward: F32, truncated: Bools, nmines: int, nrobots: int) -> VecObs:
        """The frames as observations in which nobody can act.

        Args:
            reward: Of all rows. Shape: (R,).
            truncated: The rows that were cut off. Shape: (R,).
            nmines: The number of mines in all of them.
            nrobots: The number of robots in all of them.
        """
        ended = truncated[truncated]
        frames = len(ended)
        mines, robots, cannons, lengths = self.arrays
        floats = RaggedBufferF32.from_flattened
        none = np.zeros(frames, np.int64)
        nobody = RaggedBufferI64.from_flattened(np.empty((0, 1), np.int64), none)
        no_mask = RaggedBufferBool.from_flattened(np.empty((0, len(MOVES)), np.bool_), none)
        return VecObs(
            features={
                "Mine": floats(mines[:nmines], lengths[0, :frames].copy()),
                "Robot": floats(robots[:nrobots], lengths[1, :frames].copy()),
                "Orbital Cannon": floats(
                    cannons[: frames * self._ncannons], lengths[2, :frames].copy()
                ),
            },
            action_masks={
                "Move": VecCategoricalActionMask(nobody, no_mask),
                "Fire Orbital Cannon": VecSelectEntityActionMask(nobody.clone(), nobody.clone()),
            },
            reward=reward[truncated],
            done=ended,
            truncated=ended.copy(),
            global_features=np.empty((frames, 0), np.float32),
        )


@kernel
def _observe(
    board: Board,
    lengths: I64,
    mine_values: F32,
    robot_values: F32,
    cannon_values: F32,
    mask: Bools,
    movers: I64,
    shooters: I64,
    actees: I64,
) -> tuple[int, int, int, int]:
    """Fill the flat arrays; returns how many mines, robots, ready cannons and actees there are.

    ``lengths`` gets the counts of each frame: mines, robots, cannons, ready ones, actees; those of
    a game without cannons stay 0. Shape: (5, R).
    """
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
