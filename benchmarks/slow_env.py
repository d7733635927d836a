"""Steps that take as long as they are told, and busy processes: for ``benchmarks/workers.py``."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.connection
import statistics
import time

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
)

__all__ = ["BusyPair", "Slow", "busy", "loops_per_second"]


class Slow(Environment):
    """One walker with five choices, episodes of 50 steps, each of which takes a drawn time.

    Args:
        least: Seconds.
        most: Seconds.
        rare: The share of steps that take ``most``, the others taking ``least``; None draws
            anything between, evenly.
        loops_per_second: How fast to compute in that time; 0 waits instead.
    """

    def __init__(
        self, least: float, most: float, rare: float | None = None, loops_per_second: float = 0.0
    ) -> None:
        self.least, self.most, self.rare = least, most, rare
        self.loops_per_second = loops_per_second
        self.time = 0

    def obs_space(self):
        """Return the space of a walker and three stones."""
        return ObsSpace(entities={"Walker": Entity(["time"]), "Stone": Entity(["x", "y"])})

    def action_space(self):
        """Five directions."""
        return {"Go": CategoricalActionSpace(["left", "right", "up", "down", "stay"])}

    def reset(self):
        """Return the first observation."""
        self.time = 0
        return self._observe()

    def act(self, actions):
        """Let time pass."""
        if self.rare is None:
            seconds = self.rng.uniform(self.least, self.most)
        else:
            seconds = self.most if self.rng.random() < self.rare else self.least
        if self.loops_per_second:
            busy(round(seconds * self.loops_per_second))
        else:
            time.sleep(seconds)
        self.time += 1
        return self._observe()

    def _observe(self):
        return Observation(
            features={"Walker": [[self.time]], "Stone": [[1, 2], [3, 4], [5, 6]]},
            ids={"Walker": ["w"]},
            actions={"Go": CategoricalActionMask(actor_ids=["w"])},
            reward=1.0,
            done=self.time == 50,
        )


def busy(loops: int) -> None:
    """Keep one core busy, without making objects: how fast that is depends on a process's past."""
    for _ in itertools.repeat(None, loops):
        pass


def loops_per_second() -> float:
    """Return the loops per second of ``busy``, by the median over a second: bursts vary by half."""
    times = []
    while sum(times) < 1.0:
        start = time.process_time()
        busy(100_000)
        times.append(time.process_time() - start)
    return 100_000 / statistics.median(times)


class BusyPair:
    """Two plain processes that are busy at the same time."""

    def __enter__(self) -> BusyPair:
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        self._processes = []
        for _ in range(2):
            near, far = context.Pipe()
            process = context.Process(target=_busy_on_demand, args=(far,), daemon=True)
            process.start()
            self._pipes.append(near)
            self._processes.append(process)
        self.busy(1)
        return self

    def busy(self, loops: int) -> None:
        """Run the same number of loops in each of them at once; return when both are done."""
        for pipe in self._pipes:
            pipe.send(loops)
        for pipe in self._pipes:
            pipe.recv()

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join()


def _busy_on_demand(pipe: multiprocessing.connection.Connection) -> None:
    while (loops := pipe.recv()) is not None:
        busy(loops)
        pipe.send(None)
