"""The algorithms by the name that the setting ``algorithm`` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ppo_trainer.algorithms.algorithm import Algorithm
from ppo_trainer.algorithms.group_baseline import GroupReturns
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.algorithms.vtrace import VTrace
from ppo_trainer.config import TrainConfig
from ragged_net import RaggedNet

__all__ = ["ALGORITHMS", "make_algorithm"]

ALGORITHMS: dict[str, Callable[[TrainConfig, GroupReturns | None], Algorithm]] = {
    "ppo": lambda config, groups: PPO(config.ppo, groups),
    "vtrace": lambda config, groups: VTrace(config.ppo, groups, vtrace=config.vtrace),
}
"""Another one is an entry here, an option of ``TrainConfig.algorithm`` and a group of settings."""


def make_algorithm(
    config: TrainConfig, groups: GroupReturns | None = None, clone: RaggedNet | None = None
) -> Algorithm:
    """Return the algorithm that the settings name.

    Args:
        config: All settings of the run.
        groups: The returns of rows that are each other's baseline; None without such a baseline.
        clone: The network that PPO is not to leave; None where there is none.
    """
    algorithm = ALGORITHMS[config.algorithm](config, groups)
    if clone is not None and isinstance(algorithm, PPO):
        return replace(algorithm, clone=clone)
    return algorithm
