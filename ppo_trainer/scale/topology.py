"""The assignment of parts of worlds to the networks that play them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from entity_env import VecEnv
from ppo_trainer.config import ScaleConfig, TrainConfig
from ppo_trainer.environments import Game, make_vec_env
from ppo_trainer.errors import ConfigError
from ppo_trainer.machine.ranks import Share
from ppo_trainer.scale.worlds import ServedRows, ServedShare

__all__ = ["RowMaker", "WorldShare", "cells", "check_scale", "served_rows"]


@dataclass(frozen=True)
class WorldShare:
    """The place of a network in a world.

    Args:
        world: Number of the world.
        share: Number of the network among those of the world.
        shares: Number of networks that the world serves.
    """

    world: int
    share: int = 0
    shares: int = 1


def cells(worlds: int, networks: int) -> list[list[list[WorldShare]]]:
    """Return the parts of worlds that each network of each cell plays.

    ``cells(2, 2)``: one world for each network. ``cells(4, 2)``: two worlds for each network.
    ``cells(1, 2)``: one world, of which each network plays a half.

    Raises:
        ConfigError: Neither number is a multiple of the other.
    """
    more, fewer = max(worlds, networks), min(worlds, networks)
    if more % fewer:
        raise ConfigError(
            "worlds and networks cannot be shared evenly",
            expected="scale.worlds a multiple of scale.networks, or the other way round",
            received=f"scale.worlds={worlds} scale.networks={networks}",
        )
    each = more // fewer
    if worlds >= networks:
        return [[[WorldShare(n * each + k) for k in range(each)]] for n in range(networks)]
    return [[[WorldShare(world, k, each)] for k in range(each)] for world in range(worlds)]


def num_workers(scale: ScaleConfig) -> int:
    """Return the number of processes of Ray that play for a learner."""
    apart = scale.mode == "ascend" or scale.worlds != scale.networks
    return scale.networks + (scale.worlds if apart else 0)


def check_scale(config: TrainConfig) -> None:
    """Raise ConfigError for settings of workers that would wait for ever, or lose decisions."""
    own = config.scale
    cells(own.worlds, own.networks)
    if own.networks > own.worlds and not own.max_staleness:
        raise ConfigError(
            "the networks of a world end their rollouts at different moments",
            expected="scale.max_staleness=1 or more, or as many worlds as networks",
            received=f"scale.worlds={own.worlds} scale.networks={own.networks}",
        )
    if config.ppo.clone_kl and config.net.memory != "none":
        raise ConfigError(
            "ppo.clone_kl with a network with a memory needs all decisions of a row, but "
            "rollouts of lost processes, and old ones, are dropped",
            expected="scale.mode=local, or scale.mode=ascend with torchrun",
            received=f"scale.mode={own.mode}",
        )


@dataclass(frozen=True)
class RowMaker:
    """A function that makes the rows of a world in its process.

    Args:
        config: Settings of the run.
        game: The game.
        world: Number of the world.
        seed: Seed of the random numbers of all worlds.
    """

    config: TrainConfig
    game: Game
    world: int
    seed: int

    def __call__(self) -> VecEnv:
        """Return its share of all rows."""
        share = Share(self.world, self.config.scale.worlds)
        return make_vec_env(self.config, self.game, self.seed, share)


def served_rows(
    parts: Sequence[tuple[Any, int]], wait: Callable[[Sequence[Any]], Sequence[Any]]
) -> ServedRows:
    """Return the rows that a network plays in worlds of other processes.

    Args:
        parts: Processes of Ray that step the worlds, and the number of this network in each.
        wait: Function that returns the results of several calls.
    """
    places = [
        ServedShare(lambda name, *own, world=world: getattr(world, name).remote(*own), share)
        for world, share in parts
    ]
    return ServedRows(places, wait)
