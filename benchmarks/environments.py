"""Steps per second of compiled environments, random numbers and observations included.

python -m benchmarks.environments

The actions are random legal ones. They are drawn beforehand, in a run that the measured one then
repeats from its seed: sampling is not part of the time, the check of the actions is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from ragged_envs.minesweeper import MineSweeperRows

from benchmarks.measure import Row, Times, alternate, print_rows, speed_row
from benchmarks.python_minesweeper import PythonMineSweeper
from entity_env import ListEnv, RaggedBufferI64, VecEnv, VecObs
from entity_env.play import random_policy

__all__ = ["replay", "rows"]

_SEED = 1
_STEPS = {128: 1000, 1024: 300}
"""Steps of a native run by its rows: long enough for episodes to be at all ages."""
_PYTHON_ROWS, _PYTHON_STEPS = 128, 150
_CASES: tuple[tuple[str, dict[str, Any], dict[int, float]], ...] = (
    ("6 x 6", {}, {128: 5e6, 1024: 1e7}),
    ("6 x 6, a cannon", {"orbital_cannon": True}, {}),
    ("4 x 4, short games", {"width": 4, "height": 4}, {}),
    ("any board", {"width": [4, 10], "height": [4, 10], "nmines": [2, 15], "nrobots": [1, 5]}, {}),
)
"""Name, settings, and the least steps per second by rows."""


def rows() -> list[Row]:
    """Compare the compiled MineSweeper with the readable one in a ``ListEnv``."""
    found = []
    for name, settings, targets in _CASES:
        python = ListEnv(functools.partial(PythonMineSweeper, **settings), _PYTHON_ROWS, _SEED)
        runs = {0: replay(python, _PYTHON_STEPS)[0]}
        lengths = {}
        for count, steps in _STEPS.items():
            runs[count], lengths[count] = replay(MineSweeperRows(count, _SEED, **settings), steps)
        times = alternate({str(count): run for count, run in runs.items()}, budget=10)
        baseline = _each(times["0"], _PYTHON_ROWS * _PYTHON_STEPS)
        for count, steps in _STEPS.items():
            ours = _each(times[str(count)], count * steps)
            row = speed_row(
                f"MineSweeper {name}, {count:,} rows (episodes of {lengths[count]:.0f} steps)",
                ours,
                baseline,
                f"Python in a ListEnv of {_PYTHON_ROWS}",
                target=targets.get(count),
                per_call=1,
                unit="steps/s",
            )
            found.append(replace(row, value=1 / ours.median if count in targets else None))
    return found


def _each(times: Times, steps: int) -> Times:
    """Return the time of one step of one row."""
    return Times(tuple(seconds / steps for seconds in times.seconds))


def replay(env: VecEnv, steps: int) -> tuple[Callable[[], None], float]:
    """Return a run with known actions, and the mean length of the episodes that end in it."""
    policy = random_policy(0)
    known: list[Mapping[str, RaggedBufferI64]] = []
    lengths: list[float] = []
    obs = env.reset(_SEED)
    for _ in range(steps):
        known.append(policy(obs))
        obs = env.act(known[-1])
        lengths += _lengths(obs)

    def run() -> None:
        env.reset(_SEED)
        for actions in known:
            env.act(actions)

    return run, float(np.mean(lengths))


def _lengths(obs: VecObs) -> list[float]:
    lengths: list[float] = obs.metrics["episodic_length"][obs.done].tolist() if obs.metrics else []
    return lengths


if __name__ == "__main__":
    print_rows(rows())
