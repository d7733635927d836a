"""Ratings of a run in a process of Ray, which can be on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_env.storage.files import write_file
from ppo_trainer.config import TrainConfig
from ppo_trainer.play.rating_process import Ratings, RatingTask
from ppo_trainer.scale.ray_cluster import why_lost
from ppo_trainer.training.ratings import StartRatings

__all__ = ["RayRatings", "rating_starter"]


class RayRatings:
    """A process of Ray that rates versions, with the methods of a process of this machine.

    Args:
        ray: Module ``ray``.
        cpus: Number of CPU cores that Ray reserves.
        task: The run to rate, whose folder must be visible to all machines.
        log: File for the error that ends the process.

    Attributes:
        returncode: 1 if the process has ended by itself, else None.
    """

    def __init__(self, ray: Any, cpus: float, task: RatingTask, log: Path) -> None:
        self._ray, self._log = ray, log
        self._ratings = ray.remote(num_cpus=cpus)(Ratings).remote(task)
        self._call = self._ratings.rate_newest.remote()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Let the process look for versions again if it is idle; return ``returncode``."""
        if self.returncode is None and self._ray.wait([self._call], num_returns=1, timeout=0)[0]:
            try:
                self._ray.get(self._call)
                self._call = self._ratings.rate_newest.remote()
            except self._ray.exceptions.RayError as error:
                write_file(self._log, why_lost(self._ray, error).encode())
                self.returncode = 1
        return self.returncode

    def kill(self) -> None:
        """End the process."""
        self._ray.kill(self._ratings)

    def communicate(self) -> None:
        """Return at once: Ray ends the process."""


def rating_starter(config: TrainConfig) -> StartRatings | None:
    """Return the function that starts ratings in the open cluster of Ray, or None without Ray."""
    if config.scale.mode == "local":
        return None

    def start(task: RatingTask, log: Path) -> RayRatings:
        import ray

        return RayRatings(ray, config.scale.cpus, task, log)

    return start
