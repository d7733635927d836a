"""Trains on a diagnostic environment through the public API and plays fresh episodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ppo_trainer
from entity_env import Environment
from entity_env.registry import resolve
from ppo_trainer import (
    CheckpointConfig,
    EvalConfig,
    OptimConfig,
    PPOConfig,
    RolloutConfig,
    TrainConfig,
    TrainResult,
    train,
)
from ppo_trainer.environments import make_factory, with_env
from ppo_trainer.evaluation.comparison import evaluate
from ppo_trainer.reporting.evaluation import Evaluation
from ragged_net import NetConfig

__all__ = ["SMALL_NET", "played_by", "recipe", "small_config", "train_and_play"]

SMALL_NET = NetConfig(dim=32, layers=1, heads=2)


def small_config(
    run_dir: Path,
    steps: int,
    rollout: RolloutConfig | None = None,
    ppo: dict[str, Any] | None = None,
    **settings: Any,
) -> TrainConfig:
    """A run of ``steps`` frames with a small network and no evaluation of its own."""
    rollout = rollout or RolloutConfig(num_envs=64, steps=4)
    minibatch = min(128, rollout.num_envs * rollout.steps)
    return TrainConfig(
        **{
            "seed": 1,
            "total_timesteps": steps,
            "device": "cpu",
            "threads": 1,
            "run_dir": str(run_dir),
            "rollout": rollout,
            "net": SMALL_NET,
            "ppo": PPOConfig(**{"minibatch_size": minibatch, **(ppo or {})}),
            "optim": OptimConfig(lr=3e-3),
            "eval": EvalConfig(episodes=0),
            "checkpoint": CheckpointConfig(every=1_000_000),
            **settings,
        }
    )


def recipe(run_dir: Path, name: str, *settings: str) -> TrainConfig:
    """Return the settings of ``python -m ppo_trainer env=<name>``, without an evaluation."""
    own = f"run_dir={run_dir}", "device=cpu", "eval.episodes=0"
    return ppo_trainer.recipe(name, *own, *settings)


def train_and_play(
    config: TrainConfig, env: Callable[..., Environment], episodes: int = 1000
) -> tuple[Evaluation, Evaluation, TrainResult]:
    """Train, then play fresh episodes: greedy, sampled, and the run they came from."""
    result = train(config, env=env)
    game = make_factory(with_env(config, env), env)
    greedy = evaluate(result.net, game, config, episodes, greedy=True)
    sampled = evaluate(result.net, game, config, episodes, greedy=False)
    return greedy, sampled, result


def played_by(
    run_dir: Path, name: str, *settings: str, episodes: int = 1000
) -> tuple[float, TrainResult]:
    """The mean return of the greedy player that an environment's recipe leads to, and the run."""
    config = recipe(run_dir, name, *settings)
    greedy, _, result = train_and_play(config, resolve(config.env["_target_"]), episodes)
    return greedy.mean("episodic_reward"), result
