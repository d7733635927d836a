"""PPO on lists of entities: ``python -m ppo_trainer env=minesweeper``, or ``train`` in Python."""

from ppo_trainer.config import (
    CheckpointConfig,
    EvalConfig,
    OptimConfig,
    PPOConfig,
    RolloutConfig,
    TrainConfig,
    WandbConfig,
)
from ppo_trainer.errors import TrainerError
from ppo_trainer.train import TrainResult, train

__all__ = [
    "CheckpointConfig",
    "EvalConfig",
    "OptimConfig",
    "PPOConfig",
    "RolloutConfig",
    "TrainConfig",
    "TrainResult",
    "TrainerError",
    "WandbConfig",
    "train",
]
