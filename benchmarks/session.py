"""Runs that benchmarks train step by step."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from entity_env import VecObs
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import make_factory, make_vec_env
from ppo_trainer.training.session import Session
from ppo_trainer.training.start import open_session

__all__ = ["training"]

CPU = torch.device("cpu")


@contextmanager
def training(config: TrainConfig, device: torch.device = CPU) -> Iterator[tuple[Session, VecObs]]:
    """Give a run and its first observation; its folder is removed at the end of the context."""
    game = make_factory(config)
    with (
        tempfile.TemporaryDirectory() as folder,
        make_vec_env(config, game, config.seed) as vec_env,
        open_session(replace(config, run_dir=folder), game, vec_env, device) as begun,
    ):
        yield begun
