"""Environments in worker processes that do not wait for each other."""

from __future__ import annotations

import pickle
import select
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, check_seed
from entity_env.errors import SettingError, StateError
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.rows.vec_env import check_count
from entity_env.spaces import ActionName
from entity_env.workers.messages import split_actions
from entity_env.workers.row_loop import pack_games
from entity_env.workers.worker_process import WorkerProcess
from entity_env.workers.worker_rows import WorkerRows

__all__ = ["AsyncEnv"]


@named_arguments(SettingError)
class AsyncEnv(WorkerRows):
    """Rows in worker processes that are stepped as soon as they have their actions.

    Fast rows need not wait for slow ones: ``reset`` and ``act`` return observations of the M rows
    that are ready first, and the others play on meanwhile. The rewards of a row come with its next
    observation::

        with AsyncEnv(Game, num_envs=32, num_processes=8, batch_size=8) as env:
            obs = env.reset()
            while ...:
                obs = env.act(policy(obs))  # of the rows obs.rows

    Row i plays the same episodes as row i of a ``ListEnv`` with the same seed and the same actions,
    but the rows that are returned together depend on timing. A worker plays its rows one at a time,
    in the order in which their actions arrive. Rows reset themselves; see ``VecObs``. Use an
    instance from one thread only. Needs POSIX.

    Of games of several players, those that are ready first are returned, with at least M rows that
    must act, or with fewer if no other game is running. A game in which no row must act continues
    at the next ``act``.

    Args:
        create_env: Function that makes one environment, or one game of several players; importable
            or picklable with cloudpickle.
        num_envs: The number of rows R.
        num_processes: The number of workers, at most the number of environments or games. More
            workers than cores are useful if environments wait for something else than the CPU.
        batch_size: The number of rows M of an observation, at most ``num_envs``.
        seed: Seed of all rows.
    """

    def __init__(
        self,
        create_env: Callable[[], Environment | MultiPlayerEnvironment],
        num_envs: int,
        num_processes: int,
        batch_size: int,
        seed: int = 0,
    ) -> None:
        check_count("number of environments", num_envs)
        self._batch_size = check_count("batch size", batch_size, most=num_envs)
        self._round = 0
        super().__init__(create_env, num_envs, num_processes, seed, apart=True)
        self._reports = _reports_of(self._workers)
        self._failing = {worker.connection.fileno(): worker for worker in self._workers}
        for descriptor in self._failing:
            self._reports.register(descriptor, select.POLLIN)
        self._reporting = {worker.reports: worker for worker in self._workers}
        counts = [worker.num_rows // self._seats for worker in self._workers]
        self._owners = np.repeat(np.arange(len(counts)), counts).tolist()  # of each game
        # Games that are ready: their numbers, those of their rows that must act, and the places of
        # their observations; and the games and numbers of rows of the last observation. All other
        # games are running.
        self._arrived: deque[tuple[int, int, tuple[int, int]]] = deque()
        self._acting: list[tuple[int, int]] = []

    @property
    def batch_size(self) -> int:
        """The number of rows M of an observation."""
        return self._batch_size

    def __enter__(self) -> AsyncEnv:
        """Return the rows, to be closed at the end of a ``with`` block."""
        return self

    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            seed = check_seed(seed)
        self._round += 1  # drops the results of running and finished steps
        self._arrived.clear()
        self._acting = []
        order = pickle.dumps((self._round, seed))
        return self._exchange(b"s", dict.fromkeys(range(len(self._workers)), order))

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        parts = split_actions(chosen, [frames for _, frames in self._acting])
        shares: dict[int, list[tuple[int, int, bytes]]] = {}
        for (game, frames), part in zip(self._acting, parts, strict=True):
            shares.setdefault(self._owners[game], []).append((game, frames, part))
        self._acting = []
        return self._exchange(b"a", {i: pack_games(share) for i, share in shares.items()})

    def _exchange(self, kind: bytes, messages: Mapping[int, bytes]) -> VecObs:
        """Send messages to workers, and return the next observation; close all after an error."""
        try:
            for i, message in messages.items():
                self._workers[i].send(kind, message)
            while not self._is_enough():
                self._wait()
            return self._next()
        except BaseException:  # a message may be incomplete, for instance after Ctrl-C
            self.close()
            raise

    def _is_enough(self) -> bool:
        """Return True if M rows are ready, or no other game is running."""
        frames = sum(frames for _, frames, _ in self._arrived)
        return frames >= self._batch_size or len(self._arrived) == len(self._owners)

    def _wait(self) -> None:
        """Wait for at least one game, and add all games that have become ready."""
        for descriptor, _ in self._reports.poll():
            if descriptor in self._failing:
                self._failing[descriptor].receive()  # raises the error
                continue
            for number, game, frames, *place in self._reporting[descriptor].take_reports():
                if number == self._round:
                    self._arrived.append((game, frames, (place[0], place[1])))

    def _next(self) -> VecObs:
        """Return an observation of all rows with the frames of the M rows that are ready first."""
        first: list[tuple[int, int, tuple[int, int]]] = []
        total = 0
        while self._arrived and total < self._batch_size:
            first.append(self._arrived.popleft())
            total += first[-1][1]
        first.sort()  # each game is in it once
        self._acting = [(game, frames) for game, frames, _ in first]
        obs = self._format.join(
            [self._workers[self._owners[game]].block.read(place) for game, _, place in first]
        )
        games = np.array([game for game, _ in self._acting], np.int64)
        told = (games[:, None] * self._seats + np.arange(self._seats)).ravel()

        def of_all(values: npt.NDArray[Any], missing: float) -> npt.NDArray[Any]:
            column = np.full(len(self), missing, values.dtype)
            column[told] = values
            return column

        return replace(
            obs,
            reward=of_all(obs.reward, 0.0),
            done=of_all(obs.done, False),
            truncated=of_all(obs.truncated, False),
            metrics={name: of_all(column, np.nan) for name, column in obs.metrics.items()},
            rows=told[obs.rows],
            over=None if obs.over is None else of_all(obs.over, False),
        )

    def _get_state(self) -> list[Any]:
        raise StateError("the rows of an AsyncEnv cannot save their state", expected="a ListEnv")

    def _set_state(self, state: list[Any]) -> VecObs:
        raise StateError("the rows of an AsyncEnv cannot restore a state", expected="a ListEnv")

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        raise SettingError("the rows of an AsyncEnv cannot be drawn", expected="a ListEnv")

    def _running(self) -> list[tuple[Hashable, str]]:
        if any(worker.is_awaited for worker in self._workers):  # they are being started
            return [worker.running() for worker in self._workers if worker.is_awaited]
        if not self._round:
            return []
        here = {game for game, *_ in [*self._arrived, *self._acting]}
        busy = {owner for game, owner in enumerate(self._owners) if game not in here}
        workers = [self._workers[i] for i in sorted(busy)]
        reports = _reports_of(workers)  # the other one may be in use by another thread
        # A worker whose report has not been read, for instance during an update, is not hanging.
        reported = {descriptor for descriptor, _ in reports.poll(0)}
        return [worker.running() for worker in workers if worker.reports not in reported]


def _reports_of(workers: Sequence[WorkerProcess]) -> select.poll:
    """Return an object that waits for reports of workers."""
    reports = select.poll()
    for worker in workers:
        reports.register(worker.reports, select.POLLIN)
    return reports
