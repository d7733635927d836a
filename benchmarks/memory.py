"""The peak memory of a large run: 4,096 rows x 64 steps, beside the bytes of its rollout."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from benchmarks.measure import Row, print_rows
from benchmarks.session import training
from ppo_trainer.config import config_from_dict
from ppo_trainer.experience.collect import collect
from ppo_trainer.loop import train_once
from ppo_trainer.machine.device import keep_freed_memory
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.training.session import Session

ENVS, STEPS = 4096, 64


def rows() -> list[Row]:
    """Two updates; the process's baseline is a whole update of a small run before them."""
    torch.set_num_threads(1)
    keep_freed_memory()
    _updates(envs=128, steps=16)
    baseline = _peak()
    size = _updates(envs=ENVS, steps=STEPS)
    peak = _peak()
    used = (peak - baseline) / size
    return [
        Row(
            case=f"{ENVS:,} rows x {STEPS} steps, a rollout of {size / 1e6:,.0f} MB",
            ours=f"{used:.2f} rollouts beside the process",
            baseline="2 rollouts",
            ratio=2 / used,
            target=1.0,
            note=f"peak {peak / 1e6:,.0f} MB, the process alone {baseline / 1e6:,.0f} MB",
        )
    ]


def _updates(envs: int, steps: int) -> int:
    """Train for two updates; returns the bytes of a rollout."""
    config = config_from_dict(
        {
            "env": {"_target_": "minesweeper"},
            "total_timesteps": 1_000_000,
            "rollout": {"num_envs": envs, "steps": steps},
            "net": {"dim": 32, "layers": 2},
            "ppo": {"minibatch_size": 1024, "epochs": 1},
        }
    )
    with training(config) as (session, obs):
        for _ in range(2):
            obs, _ = train_once(session, obs, Stopwatch())
        return _rollout_bytes(session, obs)


def _rollout_bytes(session: Session, obs: Any) -> int:
    collectors = [learner.collector() for learner in session.learners]
    (collected,) = collect(collectors, session.vec_env, obs, session.config, Stopwatch())
    sizes = {tensor.data_ptr(): tensor.nbytes for tensor in _tensors(collected.trajectories)}
    return sum(sizes.values())


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)


def _peak() -> int:
    """Bytes of the largest resident set so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    print_rows(rows())
