"""Worlds in separate processes, and the rows of them that a network plays.

A world is a ``VecEnv``. It may serve several networks, each of which plays a part of its rows, and
a network may play several worlds. Both see a ``VecEnv``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from entity_env import ActionSpace, ObsSpace, VecEnv, VecObs
from entity_env.batching.kinds.table import answer_forms
from entity_env.batching.ragged import ActionBuffer
from entity_env.errors import EntityEnvError, SettingError
from entity_env.workers.messages import read_actions, split_actions
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.worker import cut_rows
from ppo_trainer.config import ScaleConfig, TrainConfig
from ppo_trainer.environments import Game, make_vec_env
from ppo_trainer.experience.acting import answers_in_order, frames_of, take_frames
from ppo_trainer.machine.ranks import Ranks, Share
from ppo_trainer.machine.seeding import derived_seed

__all__ = [
    "RowMaker",
    "ServedRows",
    "World",
    "WorldShare",
    "cells",
    "cells_of",
    "check_scale",
    "num_workers",
    "part_of",
    "serve_learners",
]


class World:
    """The process that steps the rows of a world once all of its networks have acted.

    Args:
        make_rows: Function that makes the rows.
        networks: Number of networks, each of which plays a part of the rows.
        timeout: Seconds after which a network that has not acted counts as lost.
    """

    def __init__(self, make_rows: Callable[[], VecEnv], networks: int, timeout: float) -> None:
        self._rows, self._timeout = make_rows(), timeout
        self._shares = cut_rows(len(self._rows), networks, 1)
        self._format = ObsFormat(self._rows.obs_space(), self._rows.action_space())
        self._forms = answer_forms(self._rows.action_space())
        self._all_here = threading.Barrier(networks, self._step)
        self._obs: VecObs | None = None
        self._seed: int | None = None
        self._answers: dict[int, bytes | None] = {}

    def spaces(self) -> tuple[ObsSpace, Mapping[str, ActionSpace], list[int]]:
        """Return the spaces, and the number of rows of each network."""
        counts = [count for _, count in self._shares]
        return self._rows.obs_space(), self._rows.action_space(), counts

    def step(self, network: int, answers: bytes | None, seed: int | None = None) -> bytes:
        """Return the observation of a network after all have acted, or of new episodes.

        Args:
            network: Number of the network.
            answers: Its actions, as bytes; None begins new episodes.
            seed: Seed of the new episodes; that of the first network is used.

        Raises:
            EntityEnvError: Another network has not acted.
        """
        self._answers[network] = answers
        if network == 0:
            self._seed = seed
        try:
            self._all_here.wait(self._timeout)
        except threading.BrokenBarrierError as error:
            raise EntityEnvError(
                "a world waits for a network that does not answer",
                expected=f"answers of {self._all_here.parties} networks within {self._timeout:g} s",
            ) from error
        assert self._obs is not None
        return bytes(self._format.pack(part_of(self._obs, *self._shares[network])))

    def _step(self) -> None:
        """Step the rows, in the last network's thread, while the others wait."""
        obs = self._obs
        if obs is None or None in self._answers.values():
            self._obs = self._rows.reset(self._seed)
            return
        places = [_places(obs, *share) for share in self._shares]
        answers = [
            read_actions(self._answers[number] or b"", self._forms, len(frames))
            for number, frames in enumerate(places)
        ]
        self._obs = self._rows.act(answers_in_order(answers, places))


def part_of(obs: VecObs, first: int, count: int) -> VecObs:
    """Return the observation of some consecutive rows."""
    mine = slice(first, first + count)
    final = obs.final
    if final is not None:
        cut_off = np.flatnonzero(obs.truncated)
        within = np.flatnonzero((cut_off >= first) & (cut_off < first + count))
        final = frames_of(final, within) if len(within) else None
    shown = take_frames(obs, _places(obs, first, count))
    return replace(
        shown,
        rows=shown.rows - first,
        reward=obs.reward[mine],
        done=obs.done[mine],
        truncated=obs.truncated[mine],
        metrics={name: column[mine] for name, column in obs.metrics.items()},
        final=final,
        over=None if obs.over is None else obs.over[mine],
    )


def _places(obs: VecObs, first: int, count: int) -> Any:
    """Return the places of the frames of some consecutive rows."""
    return np.flatnonzero((obs.rows >= first) & (obs.rows < first + count))


class ServedRows(VecEnv):
    """The rows that a network plays in worlds of other processes.

    Args:
        parts: Processes of Ray that step the worlds, and the number of this network in each.
        wait: Function that returns the results of several calls, such as ``ray.get``.
    """

    def __init__(
        self, parts: Sequence[tuple[Any, int]], wait: Callable[[list[Any]], Sequence[Any]]
    ) -> None:
        self._parts, self._wait = parts, wait
        every = wait([world.spaces.remote() for world, _ in parts])
        self._obs_space, self._action_space, _ = every[0]
        self._counts: list[int] = [
            counts[network] for (_, network), (_, _, counts) in zip(parts, every, strict=True)
        ]
        self._format = ObsFormat(self._obs_space, self._action_space)
        self._frames: list[int] = []

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._obs_space  # type: ignore[no-any-return]

    def action_space(self) -> dict[str, ActionSpace]:
        """Return the action space."""
        return dict(self._action_space)

    def __len__(self) -> int:
        """Return the number of rows of all parts."""
        return sum(self._counts)

    def _reset(self, seed: int | None) -> VecObs:
        return self._step([None] * len(self._parts), seed)

    def _act(self, chosen: Mapping[str, ActionBuffer]) -> VecObs:
        return self._step(split_actions(chosen, self._frames))

    def _step(self, answers: Sequence[bytes | None], seed: int | None = None) -> VecObs:
        calls = []
        for number, ((world, network), answer) in enumerate(zip(self._parts, answers, strict=True)):
            # Other worlds get other seeds, or all would play the same episodes.
            its = seed if seed is None or not number else derived_seed(seed, "world", number)
            calls.append(world.step.remote(network, answer, its))
        obs = self._format.join([(message, 0) for message in self._wait(calls)])
        ends = np.searchsorted(obs.rows, np.cumsum(self._counts))
        self._frames = np.diff(ends, prepend=0).tolist()
        return obs

    def _get_state(self) -> list[Any]:
        raise NotImplementedError  # ``has_state`` is False

    def _set_state(self, state: list[Any]) -> VecObs:
        raise NotImplementedError

    def _render(self, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def _close(self) -> None:
        """Do nothing, because the worlds belong to the process that started them."""


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
        SettingError: Neither number is a multiple of the other.
    """
    more, fewer = max(worlds, networks), min(worlds, networks)
    if more % fewer:
        raise SettingError(
            "worlds and networks cannot be shared evenly",
            expected="scale.worlds a multiple of scale.networks, or the other way round",
            received=f"scale.worlds={worlds} scale.networks={networks}",
        )
    each = more // fewer
    if worlds >= networks:
        return [[[WorldShare(n * each + k) for k in range(each)]] for n in range(networks)]
    return [[[WorldShare(world, k, each)] for k in range(each)] for world in range(worlds)]


def cells_of(scale: ScaleConfig, ranks: Ranks) -> dict[int, list[list[WorldShare]]]:
    """Return the cells whose rollouts this process learns from, by their numbers among all cells.

    Raises:
        SettingError: There are fewer cells than processes that learn.
    """
    every = cells(scale.worlds, scale.networks)
    if len(every) < ranks.size:
        raise SettingError(
            f"{ranks.size} processes learn, and each needs workers of its own",
            expected=f"scale.worlds={ranks.size} scale.networks={ranks.size} or more",
            received=f"scale.worlds={scale.worlds} scale.networks={scale.networks}",
        )
    first, count = cut_rows(len(every), ranks.size, 1)[ranks.rank]
    return {number: every[number] for number in range(first, first + count)}


def serve_learners(scale: ScaleConfig, ranks: Ranks) -> bool:
    """Return True if worlds serve the processes of ``torchrun``, each of which plays a part."""
    return scale.mode == "ascend" and not ranks.is_alone


def num_workers(scale: ScaleConfig) -> int:
    """Return the number of processes of Ray that play for all learners."""
    apart = scale.mode == "ascend" or scale.worlds != scale.networks
    return scale.networks + (scale.worlds if apart else 0)


def check_scale(config: TrainConfig, ranks: Ranks) -> None:
    """Raise SettingError for settings of workers that would wait for ever, or lose decisions."""
    scale = config.scale
    cells_of(scale, ranks)
    if scale.networks > scale.worlds and not scale.max_staleness:
        raise SettingError(
            "the networks of a world end their rollouts at different moments",
            expected="scale.max_staleness=1 or more, or as many worlds as networks",
            received=f"scale.worlds={scale.worlds} scale.networks={scale.networks}",
        )
    if config.ppo.clone_kl and config.net.memory != "none":
        raise SettingError(
            "ppo.clone_kl with a network with a memory needs all decisions of a row, but "
            "rollouts of lost processes, and old ones, are dropped",
            expected="scale.mode=local, or scale.mode=ascend with torchrun",
            received=f"scale.mode={scale.mode}",
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
