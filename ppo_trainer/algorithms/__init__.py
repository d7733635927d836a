"""Algorithms: advantages, losses, and the update of the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ppo_trainer.algorithms.algorithm import Algorithm
from ppo_trainer.algorithms.clone import Clone
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.algorithms.search import SearchTeaching
from ppo_trainer.algorithms.vtrace import VTrace
from ppo_trainer.config import TrainConfig

__all__ = ["ALGORITHMS", "make_algorithm"]

ALGORITHMS: dict[str, Callable[[TrainConfig], Algorithm]] = {
    "ppo": lambda config: PPO(config.ppo),
    "vtrace": lambda config: VTrace(config.ppo, vtrace=config.vtrace),
    "search": lambda config: SearchTeaching(config.ppo, config.search.mirror),
}
"""A new algorithm needs an entry here, an option of ``TrainConfig.algorithm`` and its settings."""


def make_algorithm(config: TrainConfig, clone: Clone | None = None) -> Algorithm:
    """Return the algorithm that the settings name.

    Args:
        config: All settings of the run.
        clone: Network that the policy should stay close to; None without such a penalty.
    """
    algorithm = ALGORITHMS[config.algorithm](config)
    if clone is not None and isinstance(algorithm, PPO):
        return replace(algorithm, clone=clone)
    return algorithm
