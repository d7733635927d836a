"""Worlds that serve the processes of torchrun, each of which trains on a part of a world's rows.

This is Ascend (Suarez et al. 2020): servers step worlds; clients run the network for a part of a
world's rows and compute its gradients, which are added up over all clients.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from entity_env import VecEnv
from entity_env.wrappers import VecWrapper
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game, open_vec_env
from ppo_trainer.machine.ranks import Ranks, Share
from ppo_trainer.machine.screen import log
from ppo_trainer.scale.ray_cluster import open_ray, results
from ppo_trainer.scale.worlds import (
    RowMaker,
    ServedRows,
    World,
    WorldShare,
    cells,
    cells_of,
    check_scale,
    num_workers,
    serve_learners,
)

__all__ = ["open_rows"]

_NAMESPACE = "ragged_rl"


@contextmanager
def open_rows(config: TrainConfig, game: Game, ranks: Ranks) -> Iterator[VecEnv]:
    """Open the rows that this process plays: its own, or those that worlds of Ray serve.

    If workers play, these are rows like those of its first world, which show the spaces and first
    observations.

    Raises:
        SettingError: Ray is not installed, or settings contradict each other.
    """
    scale = config.scale
    if scale.mode == "local":
        with open_vec_env(config, game, config.seed, ranks.share) as rows:
            yield rows
        return
    is_served = serve_learners(scale, ranks)
    if not is_served:
        check_scale(config, ranks)
    # Joined before there is a run folder, which an error would leave behind.
    with open_ray(scale, scale.worlds if is_served else num_workers(scale), ranks) as ray:
        if is_served:
            with _rows_of_worlds(config, game, ray, ranks) as rows:
                yield rows
            return
        first = next(iter(cells_of(scale, ranks).values()))[0][0].world
        with open_vec_env(config, game, config.seed, Share(first, scale.worlds)) as rows:
            yield _Unplayed(rows)


class _Unplayed(VecWrapper):
    """Rows whose state is not saved, because workers play others."""

    def has_state(self) -> bool:
        """Return False."""
        return False


@contextmanager
def _rows_of_worlds(config: TrainConfig, game: Game, ray: Any, ranks: Ranks) -> Iterator[VecEnv]:
    """Open this process's part of the rows, whose worlds the first process starts."""
    parts = [part for cell in cells(config.scale.worlds, ranks.size) for part in cell]
    run = uuid.uuid4().hex
    if ranks.is_first:
        worlds = _start_worlds(config, game, ray, run, parts)  # which end with these handles
        results(ray, [world.spaces.remote() for world in worlds])
        log(f"{ranks.size} processes learn; processes of Ray that step their worlds: {len(worlds)}")
    run = ranks.of_first(run)
    mine = [
        (ray.get_actor(f"{run}/{part.world}", _NAMESPACE), part.share) for part in parts[ranks.rank]
    ]
    yield ServedRows(mine, lambda calls: results(ray, calls))


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
