"""PPO on lists of entities: ``python -m ppo_trainer env=minesweeper``, or ``train`` in Python."""

from ppo_trainer.agent import load_agent
from ppo_trainer.command_line.configs import recipe
from ppo_trainer.config import (
    CheckpointConfig,
    EvalConfig,
    OptimConfig,
    PPOConfig,
    RolloutConfig,
    ScaleConfig,
    SearchConfig,
    TrainConfig,
    VTraceConfig,
    WandbConfig,
)
from ppo_trainer.loop import TrainResult, resume, train
from ppo_trainer.training.callbacks import Callback
from ragged_net import NetConfig

__all__ = [
    "Callback",
    "CheckpointConfig",
    "EvalConfig",
    "NetConfig",
    "OptimConfig",
    "PPOConfig",
    "RolloutConfig",
    "ScaleConfig",
    "SearchConfig",
    "TrainConfig",
    "TrainResult",
    "VTraceConfig",
    "WandbConfig",
    "load_agent",
    "recipe",
    "resume",
    "train",
]
