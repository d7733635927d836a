"""Updates of PPO with several threads against one: ``python -m benchmarks.threads``.

Times are wall-clock times, because the point is to use several cores at once. Other work on them
shows in the CPU time of the same update. The game is MineSweeper as in ``benchmarks/train.py``.
"""

from __future__ import annotations

import time

import torch

from benchmarks.measure import Row, Times, print_rows, speed_row
from benchmarks.session import training
from benchmarks.train import make_config
from ppo_trainer.loop import train_once
from ppo_trainer.machine.device import cores, keep_freed_memory
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import set_threads

WIDTHS = {32: 8, 64: 6, 128: 4}
"""Number of turns of each case."""
THREADS = min(8, cores())


def rows() -> list[Row]:
    """Compare one thread with as many as there are cores, at most 8."""
    if THREADS == 1:
        return [Row("several threads", "this machine has one core")]
    torch.set_num_threads(1)
    keep_freed_memory()
    return [_row(dim, turns) for dim, turns in WIDTHS.items()]


def _row(dim: int, turns: int) -> Row:
    config = make_config(dim, 4, 0, plain=False)
    wall: dict[int, list[float]] = {1: [], THREADS: []}
    cpu: dict[int, float] = {1: 0.0, THREADS: 0.0}
    with training(config) as (session, obs):
        for turn in range(turns + 1):
            for number in wall:
                set_threads(number)
                begin, begin_cpu = time.perf_counter(), time.process_time()
                obs, _ = train_once(session, obs, Stopwatch())
                if turn:  # the first one loads or compiles the kernels
                    wall[number].append(time.perf_counter() - begin)
                    cpu[number] += time.process_time() - begin_cpu
    set_threads(1)
    one, several = (Times(tuple(seconds)) for seconds in wall.values())
    return speed_row(
        f"PPO, width {dim}, {THREADS} threads, wall time"
        f" ({cpu[THREADS] / cpu[1]:.2f}x the CPU time)",
        several,
        one,
        "one thread",
        per_call=config.frames_per_update,
        unit="frames/s",
    )


if __name__ == "__main__":
    print_rows(rows())
