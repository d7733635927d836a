"""Environments in worker processes that do not wait for each other."""

from __future__ import annotations

import pickle
import select
import selectors
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping
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
    ClosedError,
    NotReadyError,
    ResetNeededError,
    RowsError,
    SettingError,
    StateError,
    TimeoutValueError,
    shorten,
)
from entity_env.rows.vec_env import LIVE, VecEnv, check_count
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.workers.action_format import deal_actions
from entity_env.workers.asked_rows import AskedRows, Ready
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.row_loop import GO_ON, ROUND
from entity_env.workers.worker_process import (
    WorkerProcess,
    common_spaces,
    end_workers,
    start_workers,
)

__all__ = ["AsyncEnv", "Ready"]

_LONGEST_WAIT = 3600.0
"""Seconds that one system call waits: what it can take ends at some weeks."""
_FOR_EVER = 1e12
"""Seconds that count as no limit."""


@named_arguments(SettingError)
class AsyncEnv(VecEnv):
    """Steps each row as soon as it has its actions, and returns the first M that are ready.

    Where steps take very different times, rows that are done need not wait for slow ones. It is a
    ``VecEnv`` whose observations ask M rows at a time; what a row got while others were asked comes
    with the observation that asks it::

        with AsyncEnv(Game, num_envs=32, num_processes=8, batch_size=8) as env:
            obs = env.reset()
            while ...:
                obs = env.act(policy(obs))  # of the rows obs.rows

    Sending and receiving can also be separate calls::

            env.async_reset()
            while ...:
                ready = env.recv()
                env.send(policy(ready.obs), ready.rows)

    Row i plays the same episodes as row i of a ``ListEnv`` of the same seed that receives the same
    actions; which rows come together depends on time. A worker plays its rows one at a time, in the
    order in which their actions arrive. Rows reset themselves, as in ``VecObs``. Use it from one
    thread. Needs POSIX.

    Of games of several players each game is stepped for itself, when all of its rows that are asked
    have their actions. ``recv`` then returns the games that are ready first, with M rows that are
    asked or more, or with fewer where no other game is on its way.

    Args:
        create_env: Makes one environment, or one game of several players, importable or picklable
            with cloudpickle.
        num_envs: The number of rows R.
        num_processes: The number of workers, at most ``num_envs``, or the number of games. More
            than there are cores make sense where environments wait for something else than the
            processor.
        batch_size: The number of rows M that ``recv`` returns, at most ``num_envs``.
        seed: Seeds all rows.
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
        self._num_envs = int(num_envs)
        self._batch_size = check_count("batch size", batch_size, most=num_envs)
        self._workers = start_workers(create_env, num_envs, num_processes, seed, apart=True)
        self._selector = selectors.DefaultSelector()
        self._finalizer = weakref.finalize(self, _end, self._workers, self._selector)
        self._round = 0
        LIVE.add(self)
        try:
            self._spaces = common_spaces(self._workers)
        except BaseException:
            self.close()
            raise
        for worker in self._workers:
            self._selector.register(worker.channel.fileno(), selectors.EVENT_READ, worker)
        self._seats = self._workers[0].seats
        counts = [worker.num_rows // self._seats for worker in self._workers]
        self._owners = np.repeat(np.arange(len(counts)), counts)  # of each game
        self._format = ObsFormat(self.obs_space(), self.action_space())
        # A game is ready, with the number of its rows that are asked and the place of its
        # observation; or its rows are asked for actions; or it is on its way.
        self._arrived: deque[tuple[int, int, bytes]] = deque()
        self._asked = AskedRows(len(self))
        self._acting = all_rows(0)  # whom the last observation of ``act`` asks

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        space: ObsSpace = self._spaces["obs_space"]
        return space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        space: dict[ActionName, ActionSpace] = self._spaces["action_space"]
        return space

    @property
    def batch_size(self) -> int:
        """The number of rows M that ``recv`` returns."""
        return self._batch_size

    def __len__(self) -> int:
        """Return the number of rows R."""
        return self._num_envs

    @property
    def num_seats(self) -> int:
        """The number of rows of one game."""
        return self._seats

    def async_reset(self, seed: int | None = None) -> None:
        """Start a new episode in each row; with a seed, restart the rows' random numbers first.

        Returns at once; ``recv`` comes next. Steps that run are finished and dropped, as are those
        that wait.
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
        """Return the M rows that became ready first and have not been returned; waits for them.

        Args:
            timeout: Seconds to wait at most; None or infinity waits as long as it takes.

        Raises:
            NotReadyError: The time is over. Nothing is lost: call it again.
            RowsError: Fewer than M rows are ready or on their way, so that it would wait for ever.
        """
        self._check_begun("recv")
        return self._receive(_end_of(timeout))

    def send(self, actions: Mapping[ActionName, ActionBuffer], rows: Any) -> None:
        """Give rows their actions; returns at once.

        Args:
            actions: For each action one number for each actor of the rows' observations, as in
                ``VecEnv.act``. Shape: (M, A, 1), int64.
            rows: The rows that they are for: ``Ready.rows`` of a ``recv``, or some of them in any
                order, each once. Shape: (M,).

        Raises:
            RowsError: Rows that do not wait for actions, or that come from different ``recv``.
        """
        self._check_begun("send")
        numbers = self._asked.numbers(rows)
        if not len(numbers):
            return
        obs = self._asked.obs(numbers)
        chosen = check_actions(actions, obs, self.action_space(), numbers)
        self._last = None  # ``act`` would answer it again
        self._deal(chosen, numbers)

    def __enter__(self) -> AsyncEnv:
        """Use as a context manager that closes at the end."""
        return self

    def _reset(self, seed: int | None) -> VecObs:
        self.async_reset(seed)
        return self._next()

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._deal(chosen, self._acting)
        return self._next()

    def _next(self) -> VecObs:
        """Return the M rows that are ready first, as an observation of all rows that asks these."""
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
        raise StateError("the rows of an AsyncEnv do not save their state", expected="a ListEnv")

    def _set_state(self, state: list[Any]) -> VecObs:
        raise StateError("the rows of an AsyncEnv do not restore a state", expected="a ListEnv")

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        raise SettingError(
            "the rows of an AsyncEnv are not drawn while they play", expected="a ListEnv"
        )

    def _running(self) -> list[tuple[Hashable, str]]:
        if any(worker.is_awaited for worker in self._workers):  # they are being started
            return [worker.running() for worker in self._workers if worker.is_awaited]
        if not self._round:
            return []
        here = {game for game, _, _ in self._arrived} | self._asked.games(self._seats)
        busy = set(self._owners[[i for i in range(len(self._owners)) if i not in here]].tolist())
        reports = select.poll()
        for i in busy:
            reports.register(self._workers[i].channel.fileno(), select.POLLIN)
        reported = {descriptor for descriptor, _ in reports.poll(0)}
        # A worker whose report has not been read yet, such as during an update, does not hang.
        workers = [self._workers[i] for i in sorted(busy)]
        return [own.running() for own in workers if own.channel.fileno() not in reported]

    def _close(self) -> None:
        self._finalizer()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise ClosedError("this environment is closed", hint="make a new one")

    def _check_begun(self, what: str) -> None:
        self._check_open()
        if self._round == 0:
            raise ResetNeededError(f"{what} was called before async_reset", hint="call it first")

    def _receive(self, end: float | None, ascending: bool = False) -> Ready:
        """Receive until the moment ``end``; the rows in order of arrival, or of their numbers."""
        there = self._num_envs - len(self._asked)
        if self._seats > 1:
            there = self._games_there()
        if there < (self._batch_size if self._seats == 1 else 1):
            raise RowsError(
                f"recv would wait for ever: it returns {self._batch_size} rows, "
                f"and {there} are ready or on their way",
                expected=f"at most {self._num_envs - self._batch_size} rows that wait for actions",
                received=f"{len(self._asked)}: {self._asked.text()}",
                hint="send them their actions first",
            )
        try:
            while not self._is_enough():
                self._wait(end)
            return self._take(ascending)
        except NotReadyError:
            raise
        except BaseException:  # Ctrl-C too may have come in the middle of a message
            self.close()
            raise

    def _send(self, kind: bytes, messages: Mapping[int, bytes]) -> None:
        """Send some of the workers a message each."""
        try:
            for i, message in messages.items():
                self._workers[i].send(kind, message)
        except BaseException:
            self.close()
            raise

    def _wait(self, end: float | None) -> None:
        """Note the rows that have become ready; waits for some of them."""
        left = _LONGEST_WAIT if end is None else max(0.0, end - time.monotonic())
        events = self._selector.select(min(left, _LONGEST_WAIT))
        if not events and end is not None and time.monotonic() >= end:
            raise NotReadyError(
                "the time for recv is over",
                expected=f"{self._batch_size} rows that are ready",
                received=f"{len(self._arrived)} rows",
                hint="nothing is lost: call recv again",
            )
        for key, _ in events:
            worker: WorkerProcess = key.data
            for report in worker.take():
                number, game, frames = ROUND.unpack_from(report)
                if number == self._round:
                    self._arrived.append((game, frames, report[ROUND.size :]))

    def _games_there(self) -> int:
        """Return the number of games that are ready or on their way."""
        return len(self) // self._seats - len(self._asked.games(self._seats))

    def _is_enough(self) -> bool:
        """Return True if M rows are ready, or all rows that can be expected."""
        if self._seats == 1:
            return len(self._arrived) >= self._batch_size
        frames = sum(frames for _, frames, _ in self._arrived)
        return frames >= self._batch_size or len(self._arrived) == self._games_there()

    def _take(self, ascending: bool) -> Ready:
        first: list[tuple[int, int, bytes]] = []
        frames = 0
        while self._arrived and frames < self._batch_size:
            first.append(self._arrived.popleft())
            frames += first[-1][1]
        if ascending:
            first.sort()  # no game is there twice
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
                if not frames:  # there is nothing to wait for: it may go on
                    self._send(b"g", {int(self._owners[game]): GO_ON.pack(game)})
        self._asked.add(ready)
        return ready


def _end_of(timeout: float | None) -> float | None:
    """Return the time at which a call that begins now must end."""
    if timeout is None:
        return None
    is_number = isinstance(timeout, int | float | np.integer | np.floating)
    if isinstance(timeout, bool) or not is_number or not timeout >= 0:
        raise TimeoutValueError(
            "invalid timeout", expected="seconds >= 0, or None", received=shorten(timeout)
        )
    # Also infinity, and whole numbers that no float holds.
    return None if timeout > _FOR_EVER else time.monotonic() + float(timeout)


def _end(workers: list[WorkerProcess], selector: selectors.BaseSelector) -> None:
    selector.close()
    end_workers(workers)
