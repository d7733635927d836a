"""Both engines play the same games, tick by tick and unit by unit.

The compiled engine runs as Python here, for compiling it takes longer than these games; whole games
of its machine code are compared by ``python -m benchmarks.rts agree``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np
from rts_support import make_arrays, state_of_arrays, state_of_world
from envs.rts import minirts_fast as fast
from envs.rts.minirts import MINI_RTS, MiniRts, hit_n_run, order, simple
from envs.rts.world import World

SCRIPTS = {fast.SIMPLE: simple, fast.HIT_N_RUN: hit_n_run}
for seed, who, skips, ticks in %s:
    world, arrays = World(MiniRts(), seed), make_arrays(MINI_RTS, 1, seed)
    fast.begin_games(arrays, 30_000)
    for tick in range(ticks):
        one, two = state_of_world(world), state_of_arrays(arrays, 0)
        assert one == two, (seed, who, tick, one, two)
        if world.is_over:
            break
        for player in range(2):
            if world.tick %% skips[player] == 0:
                if who[player] == fast.RANDOM:
                    order(world, player, {world.draw(0, 8)})
                else:
                    order(world, player, SCRIPTS[who[player]](world, player))
        world.play_tick()
        fast.play_games(arrays, 0, 1, np.array(who), np.array(skips), 1)
    assert tick > 200
print("the same")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "games",
    [
        [(1, (1, 2), (50, 50), 900), (2, (0, 1), (50, 50), 900)],
        [(3, (2, 1), (1, 1), 500), (4, (0, 2), (10, 50), 900)],
    ],
)
def test_both_engines_play_the_same_games(games):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "envs")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % games],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == "the same", done.stderr[-3000:]
