"""Frames per second of PPO on MineSweeper, end to end, and where the time goes.

128 environments x 16 steps, minibatches of 1,024 frames, 3 epochs, 2 layers of 4 heads; the first
20 updates, in which a frame has 4.5 to 5.8 entities, as chance will have it. Where there are more,
there is as much more to do: a second row therefore counts entities, five for a frame.

The baseline is the same program with the readable environment in Python and the layers and
attention of torch. ``mlp_ratio=4`` is what the systems use that the targets come from; our own
default is 2.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.measure import Row, print_rows
from benchmarks.session import training
from ppo_trainer.config import TrainConfig, config_from_dict
from ppo_trainer.loop import train_once
from ppo_trainer.machine.device import keep_freed_memory
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.runs.logger import RunLogger

UPDATES = 20
TARGETS = {32: 20_000, 128: 3_800}
CASES = ((32, 4, 3, 3), (32, 2, 3, 0), (128, 4, 3, 1))
"""Width, mlp_ratio, seeds, and with how many of them the baseline runs in turn with ours."""
NETWORK = ("inference", "forward", "backward", "optimizer")
"""Phases of network arithmetic; at least 85% of the time should go there."""


@dataclass(frozen=True)
class Run:
    """The first updates of a run, in CPU seconds."""

    frames: int
    seconds: float
    phases: dict[str, float]
    entities: float

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds


def rows() -> list[Row]:
    """Width 32 and 128, each with both MLPs, against plain torch and Python."""
    torch.set_num_threads(1)
    keep_freed_memory()
    _run(make_config(*CASES[0][:2], seed=0, plain=False), updates=1)  # compiles
    found = []
    for dim, ratio, repeats, compared in CASES:
        runs, plain = [], []
        for seed in range(repeats):
            runs.append(_run(make_config(dim, ratio, seed, plain=False)))
            if seed < compared:
                plain.append(_run(make_config(dim, ratio, seed, plain=True)))
        found += _rows(f"D={dim}, mlp_ratio={ratio}", runs, plain, TARGETS[dim])
    return found


def make_config(dim: int, ratio: int, seed: int, *, plain: bool) -> TrainConfig:
    """Return the settings above, or with ``plain`` those of the baseline."""
    env = "benchmarks.python_minesweeper.PythonMineSweeper" if plain else "minesweeper"
    attention = "grouped" if plain else "auto"
    return config_from_dict(
        {
            "env": {"_target_": env},
            "seed": seed,
            "total_timesteps": 400 * 2048,
            "net": {"dim": dim, "layers": 2, "mlp_ratio": ratio, "attention": attention},
            "ppo": {"minibatch_size": 1024, "epochs": 3},
        }
    )


def _run(config: TrainConfig, updates: int = UPDATES) -> Run:
    """Run the training loop of ``ppo_trainer.loop`` with a clock that counts CPU time."""
    with training(config) as (session, obs):
        clock, entities = Stopwatch(time.process_time), []
        with RunLogger(session.run, config, 0) as log:
            start = time.process_time()
            for _ in range(updates):
                obs, metrics = train_once(session, obs, clock)
                entities.append(metrics["entities_per_frame"])
                with clock("logging"):
                    log.write(session.state.update, session.state.steps, metrics)
            seconds = time.process_time() - start
    return Run(updates * config.frames_per_update, seconds, clock.seconds, float(np.mean(entities)))


def _rows(label: str, runs: list[Run], plain: list[Run], target: int) -> list[Row]:
    rates = sorted(run.rate for run in runs)
    rate = float(np.median(rates))
    slow = float(np.median([run.rate for run in plain])) if plain else None
    ratios = sorted(a.rate / b.rate for a, b in zip(runs, plain, strict=False))
    table = Row(
        case=f"{label}, {np.mean([run.entities for run in runs]):.1f} entities per frame",
        ours=f"{rate:,.0f} frames/s ({rates[0]:,.0f} to {rates[-1]:,.0f})",
        baseline=f"torch's layers, Python's rows: {slow:,.0f} frames/s" if slow else "",
        ratio=float(np.median(ratios)) if ratios else None,
        spread=(ratios[0], ratios[-1]) if ratios else None,
        value=rate,
        target=target,
    )
    fives = sorted(run.rate * run.entities / 5 for run in runs)
    counted = Row(
        case=f"{label}, at 5 entities per frame",
        ours=f"{np.median(fives):,.0f} frames/s ({fives[0]:,.0f} to {fives[-1]:,.0f})",
    )
    names = sorted({name for run in runs for name in run.phases})
    share = {
        name: float(np.median([run.phases.get(name, 0.0) / run.seconds for run in runs]))
        for name in names
    }
    network = sum(share[name] for name in NETWORK)
    parts = sorted(share, key=share.__getitem__, reverse=True)
    split = ", ".join(f"{name} {share[name]:.1%}" for name in parts)
    phases = Row(
        case=f"{label}, share of network arithmetic",
        ours=f"{network:.1%}",
        value=network,
        target=0.85,
        note=f"{split}, rest {1 - sum(share.values()):.1%}",
    )
    return [table, counted, phases]


if __name__ == "__main__":
    print_rows(rows())
