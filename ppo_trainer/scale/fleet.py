"""The processes of Ray that play for a learner, and their replacement when one is lost.

A cell is a world and the networks that play it, or a network and the worlds that it plays. Cells
are independent. When a process of a cell is lost, the whole cell is started again, and only its
rollout in progress is lost. Of several learners, each has its own cells (OpenAI's Rapid, 2018).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch

from entity_env import Metric, VecEnv, VecObs
from entity_env.errors import EntityEnvError, counted
from ppo_trainer.experience.collect import Collected, collect
from ppo_trainer.experience.pending import tensors_of
from ppo_trainer.experience.rollout import Trajectories
from ppo_trainer.machine.ranks import Ranks
from ppo_trainer.machine.screen import log, warn
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.scale.ray_cluster import SECONDS_OF_HEAD, check_head, open_ray, why_lost
from ppo_trainer.scale.rollout_worker import Played, RolloutWorker
from ppo_trainer.scale.worlds import (
    RowMaker,
    ServedRows,
    World,
    cells_of,
    num_workers,
    serve_learners,
)
from ppo_trainer.training.session import Session

__all__ = ["Gather", "collect_here", "open_gather"]

Gather: TypeAlias = Callable[[Session, VecObs, Stopwatch], list[Collected]]
"""A function that returns the decisions of an update, and the observation that follows."""

_MOST_LOSSES = 20
"""Number of consecutive losses of a process, without a rollout in between, that end a run."""


@contextmanager
def open_gather(session: Session) -> Iterator[Gather]:
    """Give the function that collects experience: in this process, or from processes of Ray.

    Raises:
        SettingError: Ray is not installed, or settings contradict each other.
    """
    scale, ranks = session.config.scale, session.ranks
    if scale.mode == "local" or serve_learners(scale, ranks):
        yield collect_here
        return
    with open_ray(scale, num_workers(scale)) as ray:
        fleet = Fleet(session, ray)
        log(
            f"{counted(num_workers(scale), 'process')} of Ray play for "
            f"{counted(ranks.size, 'learner')}: {counted(scale.worlds, 'world')}, "
            f"{counted(scale.networks, 'network')}"
        )
        try:
            yield fleet.gather
        finally:
            fleet.close()


def collect_here(session: Session, obs: VecObs, clock: Stopwatch) -> list[Collected]:
    """Play the rows of the session."""
    collectors, ranks = [learner.collector() for learner in session.learners], session.ranks
    # A world waits for all processes that it serves, so they must end rollouts at the same step.
    together = serve_learners(session.config.scale, ranks)
    agreed = (lambda is_full: not ranks.any(not is_full)) if together else bool
    return collect(collectors, session.vec_env, obs, session.config, clock, agreed)


@dataclass(eq=False)
class _Cell:
    """The processes of a cell, and the rollouts that its networks play."""

    number: int
    worlds: list[Any] = field(default_factory=list)
    networks: list[Any] = field(default_factory=list)
    idle: list[Any] = field(default_factory=list)
    busy: dict[Any, tuple[Any, float]] = field(default_factory=dict)

    @property
    def since(self) -> float:
        """The time at which the oldest rollout of the cell began."""
        return min((since for _, since in self.busy.values()), default=math.inf)


class Fleet:
    """The cells of a learner.

    Args:
        session: The run.
        ray: The module ``ray``, or an object with the same functions.
    """

    def __init__(self, session: Session, ray: Any) -> None:
        self._config, self._game, self._ray = session.config, session.game, ray
        self._plan = cells_of(self._config.scale, session.ranks)
        self._wanted = sum(map(len, self._plan.values()))
        self._begun_at, self._starts = session.steps, 0
        self._lost = self._lost_in_a_row = self._lost_frames = 0
        self._dropped = self._dropped_frames = 0
        self._weights: Any = None
        self._version, self._checked = 0, time.monotonic()
        self._waiting: deque[Played] = deque()
        seed = self._next_seed()
        self._cells = [self._make(number, seed) for number in self._plan]

    def gather(self, session: Session, obs: VecObs, clock: Stopwatch) -> list[Collected]:
        """Return one rollout for each network, none older than ``scale.max_staleness`` allows."""
        if time.monotonic() - self._checked > SECONDS_OF_HEAD:
            self._checked = time.monotonic()
            check_head(self._ray)  # without it, Ray ends this process at the next call
        most = self._config.scale.max_staleness
        with clock("weights"):
            weights = {name: tensor.cpu() for name, tensor in session.net.state_dict().items()}
            self._weights, self._version = self._ray.put(weights), session.updates
        taken: list[Played] = []
        with clock("players"):
            for cell in self._cells:
                self._begin_rollouts(cell)
            while len(taken) < self._wanted:
                if not self._waiting:
                    self._hear()
                    continue
                played = self._waiting.popleft()
                if self._version - played.version > most:
                    self._dropped += 1
                    self._dropped_frames += len(played.trajectories)
                else:
                    taken.append(played)
        # In a fixed order, so that without staleness the same seed gives the same numbers.
        return [self._joined(sorted(taken, key=lambda played: played.rank), obs, session.ranks)]

    def close(self) -> None:
        """End all processes."""
        for cell in self._cells:
            self._end(cell)

    def _joined(self, taken: Sequence[Played], obs: VecObs, ranks: Ranks) -> Collected:
        metrics: dict[str, Metric] = {}
        for played in taken:
            for name, metric in played.metrics.items():
                metrics[name] = metrics.get(name, Metric()).merge(metric)
        parts = [
            replace(
                played.trajectories,
                decisions=played.trajectories.decisions.later(self._version - played.version),
            )
            for played in taken
        ]
        size = sum(
            tensor.nbytes for part in parts for tensor in tensors_of(part.decisions).values()
        )
        counts = self._lost, self._lost_frames, self._dropped, self._dropped_frames
        idle, frames = sum(played.idle for played in taken), sum(map(len, parts))
        mine = torch.tensor([*counts, size, frames, idle, len(taken)], dtype=torch.float64)
        *counts_of_all, size, frames, idle, rollouts = ranks.stacked(mine).sum(0).tolist()
        names = "scale/lost", "scale/lost_frames", "scale/dropped", "scale/dropped_frames"
        numbers = dict(zip(names, counts_of_all, strict=True))
        numbers |= {"scale/frame_bytes": size / frames, "scale/idle": idle / rollouts}
        num_truncated = sum(played.num_truncated for played in taken)
        return Collected(Trajectories.cat(parts), None, obs, metrics, num_truncated, numbers)

    def _busy(self) -> list[Any]:
        return [ref for cell in self._cells for ref in cell.busy]

    def _begin_rollouts(self, cell: _Cell) -> None:
        """Let the idle networks of a cell play with the newest weights."""
        for network in cell.idle:
            ref = network.rollout.remote(self._weights, self._version)
            cell.busy[ref] = network, time.monotonic()
        cell.idle.clear()

    def _hear(self) -> None:
        """Wait for a rollout, or for the loss of a process."""
        timeout, errors = self._config.scale.timeout, self._ray.exceptions
        cell = min(self._cells, key=lambda cell: cell.since)
        left = cell.since + timeout - time.monotonic()
        # Cells that go on playing must not hide one that does not.
        calls = self._busy() if left > 0 else list(cell.busy)
        wait = min(max(left, 0.0), SECONDS_OF_HEAD)
        done, _ = self._ray.wait(calls, num_returns=1, timeout=wait)
        if not done:
            check_head(self._ray)
            if left > wait:
                return
            why = f"it has played no rollout within scale.timeout={timeout:g} s"
            self._replace(cell, len(cell.busy), why)
            return
        (ref,) = done
        cell = next(cell for cell in self._cells if ref in cell.busy)
        network, _ = cell.busy.pop(ref)
        try:
            self._waiting.append(self._ray.get(ref))
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:
            raise EntityEnvError(
                "a process that plays for the run has failed", received=why_lost(self._ray, error)
            ) from error
        except errors.RayError as error:
            check_head(self._ray)
            self._replace(cell, 1 + len(cell.busy), why_lost(self._ray, error))
        else:
            self._lost_in_a_row = 0
            cell.idle.append(network)
            if self._config.scale.max_staleness:  # otherwise it waits for the next weights
                self._begin_rollouts(cell)

    def _replace(self, cell: _Cell, rollouts: int, why: str) -> None:
        """Start a cell again, whose networks were playing ``rollouts`` rollouts.

        Raises:
            EntityEnvError: Too many processes were lost one after the other.
        """
        self._lost, self._lost_in_a_row = self._lost + 1, self._lost_in_a_row + 1
        each = self._config.frames_per_update // self._config.scale.networks
        self._lost_frames += rollouts * each
        if self._lost_in_a_row > _MOST_LOSSES:
            raise EntityEnvError(
                f"{_MOST_LOSSES} processes were lost one after the other", received=why
            )
        warn(f"a process that plays for the run is lost, and started again: {why}")
        self._end(cell)
        self._cells[self._cells.index(cell)] = new = self._make(cell.number, self._next_seed())
        self._begin_rollouts(new)

    def _end(self, cell: _Cell) -> None:
        for process in (*cell.networks, *cell.worlds):
            self._ray.kill(process)

    def _next_seed(self) -> int:
        """Return the seed of the cells that start next, which nothing of the run has used.

        The first cells have the run's own seed, so that each world plays the rows of a process of
        ``torchrun``, and a single world those of a run without Ray.
        """
        number, self._starts = self._starts, self._starts + 1
        if not number and not self._begun_at:
            return self._config.seed
        return derived_seed(self._config.seed, f"cells after step {self._begun_at}", number)

    def _make(self, number: int, seed: int) -> _Cell:
        """Start the processes of a cell."""
        config, scale, ray = self._config, self._config.scale, self._ray
        networks, cell = self._plan[number], _Cell(number)
        worlds: dict[int, Any] = {}
        in_one = scale.mode == "rapid" and len(networks) == len(networks[0]) == 1
        for place, parts in enumerate(networks):
            for part in parts:
                if not in_one and part.world not in worlds:
                    make = ray.remote(num_cpus=scale.cpus, max_concurrency=part.shares + 1)(World)
                    rows = RowMaker(config, self._game, part.world, seed)
                    worlds[part.world] = make.remote(rows, part.shares, scale.timeout)
            maker: Callable[[], VecEnv] = RowMaker(config, self._game, parts[0].world, seed)
            if not in_one:
                maker = _ServedMaker([(worlds[part.world], part.share) for part in parts])
            rank = number * len(networks) + place
            cell.networks.append(
                ray.remote(num_cpus=scale.cpus)(RolloutWorker).remote(config, maker, seed, rank)
            )
        cell.worlds = list(worlds.values())
        cell.idle = list(cell.networks)
        return cell


@dataclass(frozen=True)
class _ServedMaker:
    """A function that makes the rows that a network plays in worlds of other processes."""

    places: list[tuple[Any, int]]

    def __call__(self) -> VecEnv:
        """Return rows that call the worlds."""
        import ray

        return ServedRows(self.places, ray.get)
