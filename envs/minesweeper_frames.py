"""What rows of compiled MineSweeper show, as a ``VecObs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from entity_env.batch import VecCategoricalActionMask, VecObs, VecSelectEntityActionMask
from entity_env.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64
from envs.jit import kernel
from envs.minesweeper_kernels import F32, F64, HEIGHT, I32, I64, MINES, ROBOTS, WIDTH, Bools
from envs.minesweeper_rules import MOVES

__all__ = ["FrameWriter", "State"]

State: TypeAlias = tuple[I32, I32, I32, I32]
"""The arrays ``facts``, ``mines``, ``robots`` and ``cooldowns`` of all rows."""


class FrameWriter:
    """Writes frames into flat arrays that it keeps; the ragged buffers of a ``VecObs`` copy them.

    Args:
        rows: The most frames.
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
        state: State,
        rows: I64,
        reward: F32,
        done: Bools,
        truncated: Bools,
        metrics: Mapping[str, F64],
        final: VecObs | None,
    ) -> VecObs:
        """The observation of ``rows``, all of them; the other arguments are those of ``VecObs``."""
        lengths = np.zeros((5, len(rows)), np.int64)
        nmines, nrobots, nready, nactees = self._fill(state, rows, lengths)
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

    def write_last(self, state: State, rows: I64, reward: F32) -> VecObs:
        """The last observations of ``rows``, which were cut off: nobody can act in them."""
        count = len(rows)
        lengths = np.zeros((5, count), np.int64)
        nmines, nrobots, _, _ = self._fill(state, rows, lengths)
        floats = RaggedBufferF32.from_flattened
        none, ended = np.zeros(count, np.int64), np.ones((2, count), np.bool_)
        nobody = RaggedBufferI64.from_flattened(self._actees[:0], none)
        return VecObs(
            features={
                "Mine": floats(self._mines[:nmines], lengths[0]),
                "Robot": floats(self._robots[:nrobots], lengths[1]),
                "Orbital Cannon": floats(self._cannons[: count * self._ncannons], lengths[2]),
            },
            action_masks={
                "Move": VecCategoricalActionMask(
                    nobody, RaggedBufferBool.from_flattened(self._mask[:0], none)
                ),
                "Fire Orbital Cannon": VecSelectEntityActionMask(nobody.clone(), nobody.clone()),
            },
            reward=reward,
            done=ended[0],
            truncated=ended[1],
            global_features=self._no_globals[:count],
        )

    def _fill(self, state: State, rows: I64, lengths: I64) -> tuple[int, int, int, int]:
        counts: tuple[int, int, int, int] = _observe(
            *state,
            rows,
            lengths,
            self._mines,
            self._robots,
            self._cannons,
            self._mask,
            self._movers,
            self._shooters,
            self._actees,
        )
        return counts


@kernel
def _observe(
    facts: I32,
    mines: I32,
    robots: I32,
    cooldowns: I32,
    rows: I64,
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
    a game without cannons stay 0. Shape: (5, B).
    """
    m = r = c = s = a = 0
    for frame in range(len(rows)):
        row = rows[frame]
        nmines, nrobots = facts[row, MINES], facts[row, ROBOTS]
        right, top = facts[row, WIDTH] - 1, facts[row, HEIGHT] - 1
        # Whole lines: what lies behind the last one that is left is overwritten by the next frame.
        for i in range(mines.shape[1]):
            mine_values[m + i, 0], mine_values[m + i, 1] = mines[row, i, 0], mines[row, i, 1]
        m += nmines
        for i in range(robots.shape[1]):
            x, y = robots[row, i, 0], robots[row, i, 1]
            robot_values[r + i, 0], robot_values[r + i, 1] = x, y
            mask[r + i, 0], mask[r + i, 1] = x < right, x > 0
            mask[r + i, 2], mask[r + i, 3] = y < top, y > 0
            mask[r + i, 4] = True
            movers[r + i, 0] = nmines + i
        r += nrobots
        lengths[0, frame], lengths[1, frame] = nmines, nrobots
        if not cooldowns.shape[1]:
            continue
        ready = 0
        for i in range(cooldowns.shape[1]):
            cannon_values[c, 0] = cooldowns[row, i]
            c += 1
            if cooldowns[row, i] == 0:
                shooters[s, 0] = nmines + nrobots + i
                s += 1
                ready += 1
        targets = nmines + nrobots if ready else 0
        for i in range(targets):
            actees[a, 0] = i
            a += 1
        lengths[2, frame] = cooldowns.shape[1]
        lengths[3, frame], lengths[4, frame] = ready, targets
    return m, r, s, a
