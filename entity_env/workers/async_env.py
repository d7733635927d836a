"""Environments in worker processes that do not wait for each other."""

from __future__ import annotations

import pickle
import select
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.action_checks import check_actions
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs, all_rows
from entity_env.environment import Environment, check_seed
from entity_env.errors import (
    ActionError,
    ClosedError,
    NotReadyError,
    ResetNeededError,
    SettingError,
    StateError,
    counted,
    shorten,
)
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.rows.vec_env import check_count
from entity_env.spaces import ActionName
from entity_env.workers.action_format import deal_actions
from entity_env.workers.asked_rows import AskedRows, Ready
from entity_env.workers.row_loop import GO_ON
from entity_env.workers.worker_process import WorkerProcess
from entity_env.workers.worker_rows import WorkerRows

__all__ = ["AsyncEnv", "Ready"]

_LONGEST_WAIT = 3600.0
"""Seconds that one system call waits, which cannot wait for more than some weeks."""
_FOR_EVER = 1e12
"""Number of seconds from which on a timeout is no limit."""


@named_arguments(SettingError)
class AsyncEnv(WorkerRows):
    """Rows in worker processes that are stepped as soon as they have their actions.

    Fast rows need not wait for slow ones. As a ``VecEnv``, it returns observations of the M rows
    that are ready first. The rewards of a row come with its next observation::

        with AsyncEnv(Game, num_envs=32, num_processes=8, batch_size=8) as env:
            obs = env.reset()
            while ...:
                obs = env.act(policy(obs))  # of the rows obs.rows

    Sending and receiving can also be separate calls::

            env.async_reset()
            while ...:
                ready = env.recv()
                env.send(policy(ready.obs), ready.rows)

    Row i plays the same episodes as row i of a ``ListEnv`` with the same seed and the same actions,
    but the rows that are returned together depend on timing. A worker plays its rows one at a time,
    in the order in which their actions arrive. Rows reset themselves; see ``VecObs``. Use an
    instance from one thread only. Needs POSIX.

    A game of several players is stepped when all of its rows that must act have their actions.
    ``recv`` then returns the games that are ready first, with at least M rows that must act, or
    with fewer if no other game is running.

    Args:
        create_env: Function that makes one environment, or one game of several players; importable
            or picklable with cloudpickle.
        num_envs: The number of rows R.
        num_processes: The number of workers, at most the number of environments or games. More
            workers than cores are useful if environments wait for something else than the CPU.
        batch_size: The number of rows M that ``recv`` returns, at most ``num_envs``.
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
        self._owners = np.repeat(np.arange(len(counts)), counts)  # of each game
        # A game is ready (stored with the number of its rows that must act and the place of its
        # observation), or waits for actions, or is running.
        self._arrived: deque[tuple[int, int, tuple[int, int]]] = deque()
        self._asked = AskedRows(len(self))
        self._acting = all_rows(0)  # the rows that must act in the last observation of ``act``

    @property
    def batch_size(self) -> int:
        """The number of rows M that ``recv`` returns."""
        return self._batch_size

    def async_reset(self, seed: int | None = None) -> None:
        """Start a new episode in each row; with a seed, restart the random numbers first.

        Return at once; call ``recv`` next. Results of running and finished steps are dropped.
        """
        self._check_open()
        self._last = None
        if seed is not None:
            seed = check_seed(seed)
        self._round += 1
        self._arrived.clear()
        self._asked.clear()
        order = pickle.dumps((self._round, seed))
        self._send(b"s", dict.fromkeys(range(len(self._workers)), order))

    def recv(self, timeout: float | None = None) -> Ready:
        """Wait for the M rows that are ready first, and return them.

        Args:
            timeout: Largest number of seconds to wait; None or infinity for no limit.

        Raises:
            NotReadyError: The time is over. Nothing is lost, and ``recv`` can be called again.
            ActionError: Fewer than M rows are ready or running, so that the call would not end.
        """
        self._check_begun("recv")
        return self._receive(_end_of(timeout))

    def send(self, actions: Mapping[ActionName, ActionBuffer], rows: Any) -> None:
        """Send actions to rows, and return at once.

        Args:
            actions: For each action one number for each actor of the rows' observations, as in
                ``VecEnv.act``. Shape: (M, A, 1), int64.
            rows: The rows of the actions: ``Ready.rows`` of a call of ``recv``, or some of them in
                any order, each once. Shape: (M,).

        Raises:
            ActionError: Rows do not wait for actions, or come from different calls of ``recv``.
        """
        self._check_begun("send")
        numbers = self._asked.numbers(rows)
        if not len(numbers):
            return
        obs = self._asked.obs(numbers)
        chosen = check_actions(actions, obs, self.action_space(), numbers)
        self._last = None  # else ``act`` could send actions for it again
        self._deal(chosen, numbers)

    def __enter__(self) -> AsyncEnv:
        """Return the rows, to be closed at the end of a ``with`` block."""
        return self

    def _reset(self, seed: int | None) -> VecObs:
        self.async_reset(seed)
        return self._next()

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._deal(chosen, self._acting)
        return self._next()

    def _next(self) -> VecObs:
        """Return an observation of all rows with the frames of the M rows that are ready first."""
        ready = self._receive(None, ascending=True)
        self._acting = ready.rows
        told = ready.rows if ready.told is None else ready.told

        def of_all(values: npt.NDArray[Any], missing: float) -> npt.NDArray[Any]:
            column = np.full(len(self), missing, values.dtype)
            column[told] = values
            return column

        return replace(
            ready.obs,
            reward=of_all(ready.obs.reward, 0.0),
            done=of_all(ready.obs.done, False),
            truncated=of_all(ready.obs.truncated, False),
            metrics={name: of_all(column, np.nan) for name, column in ready.obs.metrics.items()},
            rows=ready.rows,
            over=None if ready.obs.over is None else of_all(ready.obs.over, False),
        )

    def _deal(self, chosen: Mapping[ActionName, ActionBuffer], rows: npt.NDArray[np.int64]) -> None:
        """Send checked actions to the workers of these rows."""
        self._asked.remove(rows)
        self._send(b"a", deal_actions(chosen, rows, self._owners[rows // self._seats]))

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
        here = {game for game, _, _ in self._arrived} | self._asked.games(self._seats)
        busy = set(self._owners[[i for i in range(len(self._owners)) if i not in here]].tolist())
        workers = [self._workers[i] for i in sorted(busy)]
        reports = _reports_of(workers)  # the other one may be in use by another thread
        # A worker whose report has not been read, for instance during an update, is not hanging.
        reported = {descriptor for descriptor, _ in reports.poll(0)}
        return [worker.running() for worker in workers if worker.reports not in reported]

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise ClosedError("the environment is closed", hint="make a new one")

    def _check_begun(self, what: str) -> None:
        self._check_open()
        if self._round == 0:
            raise ResetNeededError(f"{what} was called before async_reset", hint="call it first")

    def _receive(self, end: float | None, ascending: bool = False) -> Ready:
        """Receive rows until the time ``end``, in order of arrival or of their numbers."""
        there = len(self) - len(self._asked)
        if self._seats > 1:
            there = self._games_there()
        if there < (self._batch_size if self._seats == 1 else 1):
            raise ActionError(
                f"recv would never return: it waits for {counted(self._batch_size, 'row')}, "
                f"but only {there} are ready or running",
                expected=f"at most {len(self) - self._batch_size} rows that wait for actions",
                received=f"{len(self._asked)}: {self._asked.text()}",
                hint="send them their actions first",
            )
        try:
            while not self._is_enough():
                self._wait(end)
            return self._take(ascending)
        except NotReadyError:
            raise
        except BaseException:  # a message may be incomplete, for instance after Ctrl-C
            self.close()
            raise

    def _send(self, kind: bytes, messages: Mapping[int, bytes]) -> None:
        """Send messages to workers, given by their numbers."""
        try:
            for i, message in messages.items():
                self._workers[i].send(kind, message)
        except BaseException:
            self.close()
            raise

    def _wait(self, end: float | None) -> None:
        """Wait for at least one row, and add all rows that have become ready."""
        left = _LONGEST_WAIT if end is None else max(0.0, end - time.monotonic())
        events = self._reports.poll(1e3 * min(left, _LONGEST_WAIT))
        if not events and end is not None and time.monotonic() >= end:
            raise NotReadyError(
                "the time for recv is over",
                expected=f"{counted(self._batch_size, 'row')} ready",
                received=counted(len(self._arrived), "row"),
                hint="call recv again; nothing is lost",
            )
        for descriptor, _ in events:
            if descriptor in self._failing:
                self._failing[descriptor].receive()  # raises the error
                continue
            for number, game, frames, *place in self._reporting[descriptor].take_reports():
                if number == self._round:
                    self._arrived.append((game, frames, (place[0], place[1])))

    def _games_there(self) -> int:
        """Return the number of games that are ready or running."""
        return len(self) // self._seats - len(self._asked.games(self._seats))

    def _is_enough(self) -> bool:
        """Return True if M rows are ready, or no other row is running."""
        if self._seats == 1:
            return len(self._arrived) >= self._batch_size
        frames = sum(frames for _, frames, _ in self._arrived)
        return frames >= self._batch_size or len(self._arrived) == self._games_there()

    def _take(self, ascending: bool) -> Ready:
        first: list[tuple[int, int, tuple[int, int]]] = []
        frames = 0
        while self._arrived and frames < self._batch_size:
            first.append(self._arrived.popleft())
            frames += first[-1][1]
        if ascending:
            first.sort()  # each game is in it once
        games = np.array([game for game, _, _ in first], np.int64)
        parts = [
            self._workers[owner].block.read(place)
            for owner, (_, _, place) in zip(self._owners[games].tolist(), first, strict=True)
        ]
        obs = self._format.join(parts)
        ready = Ready(games, obs)
        if self._seats > 1:
            told = (games[:, None] * self._seats + np.arange(self._seats)).ravel()
            ready = Ready(told[obs.rows], obs, told)
            for game, frames, _ in first:
                if not frames:  # no row must act: the game continues
                    self._send(b"g", {int(self._owners[game]): GO_ON.pack(game)})
        self._asked.add(ready)
        return ready


def _reports_of(workers: Sequence[WorkerProcess]) -> select.poll:
    """Return an object that waits for reports of workers."""
    reports = select.poll()
    for worker in workers:
        reports.register(worker.reports, select.POLLIN)
    return reports


def _end_of(timeout: float | None) -> float | None:
    """Return the time at which a call that begins now must end, or None for no limit."""
    if timeout is None:
        return None
    is_number = isinstance(timeout, int | float | np.integer | np.floating)
    if isinstance(timeout, bool) or not is_number or not timeout >= 0:
        raise SettingError(
            "invalid timeout", expected="seconds >= 0, or None", received=shorten(timeout)
        )
    # This includes infinity, and integers that are too large for a float.
    return None if timeout > _FOR_EVER else time.monotonic() + float(timeout)
