"""Worlds that serve the processes of torchrun, each of which trains on a part of a world's rows.

This is Ascend (Suarez et al. 2020): servers step worlds; clients run the network for a part of a
world's rows and compute its gradients, which are added up over all clients.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from entity_env import VecEnv
from entity_env.errors import EntityEnvError
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game, open_vec_env
from ppo_trainer.machine.ranks import Ranks
from ppo_trainer.machine.screen import log
from ppo_trainer.scale.ray_cluster import open_ray, why_lost
from ppo_trainer.scale.worlds import (
    RowMaker,
    World,
    WorldShare,
    cells,
    check_scale,
    num_workers,
    served_rows,
)

__all__ = ["open_rows"]

_NAMESPACE, _AUTH_MODE = "ragged_rl", "RAY_AUTH_MODE"


@contextmanager
def open_rows(config: TrainConfig, game: Game, ranks: Ranks) -> Iterator[VecEnv]:
    """Open the rows that this process plays: its own, or those that worlds of Ray serve.

    Raises:
        SettingError: Ray is not installed, or settings contradict each other.
    """
    workers: AbstractContextManager[Any] = nullcontext()
    if config.scale.mode != "local" and ranks.is_alone:
        check_scale(config)
        # Joined before there is a run folder, which an error would leave behind.
        workers = open_ray(config.scale, num_workers(config.scale))
    if config.scale.mode != "ascend" or ranks.is_alone:
        with workers, open_vec_env(config, game, config.seed, ranks.share) as rows:
            yield rows
        return
    parts = [part for cell in cells(config.scale.worlds, ranks.size) for part in cell]
    if not ranks.is_first:
        run, address, mode = ranks.of_first(None)
        if mode is not None:  # Ray chooses it for a new cluster, and joining needs the same
            os.environ.setdefault(_AUTH_MODE, mode)
        with open_ray(config.scale, 0, address) as ray:
            yield _served(ray, run, parts[ranks.rank])
        ranks.any(False)
        return
    with open_ray(config.scale, config.scale.worlds) as ray:
        run = uuid.uuid4().hex
        worlds = _start_worlds(config, game, ray, run, parts)
        _get(ray, [world.spaces.remote() for world in worlds])
        log(f"{ranks.size} processes learn; processes of Ray that step their worlds: {len(worlds)}")
        address = ray.get_runtime_context().gcs_address
        ranks.of_first([run, address, os.environ.get(_AUTH_MODE)])
        yield _served(ray, run, parts[0])
        ranks.any(False)  # wait for the others to leave the cluster, which ends with this process


def _start_worlds(
    config: TrainConfig, game: Game, ray: Any, run: str, parts: Sequence[Sequence[WorldShare]]
) -> list[Any]:
    shares = {part.world: part.shares for cell_parts in parts for part in cell_parts}
    return [
        ray.remote(
            num_cpus=config.scale.cpus,
            max_concurrency=count + 1,
            name=f"{run}/{world}",
            namespace=_NAMESPACE,
        )(World).remote(RowMaker(config, game, world, config.seed), count, config.scale.timeout)
        for world, count in shares.items()
    ]


def _served(ray: Any, run: str, parts: Sequence[WorldShare]) -> VecEnv:
    worlds = [(ray.get_actor(f"{run}/{part.world}", _NAMESPACE), part.share) for part in parts]
    return served_rows(worlds, lambda calls: _get(ray, calls))


def _get(ray: Any, calls: Sequence[Any]) -> Sequence[Any]:
    """Return the results of calls.

    Raises:
        EntityEnvError: A world has failed, or is lost.
    """
    try:
        return ray.get(calls)  # type: ignore[no-any-return]
    except ray.exceptions.RayError as error:
        raise EntityEnvError(
            "a world that serves this process is lost", received=why_lost(ray, error)
        ) from error
