"""Worker processes as seen by their parent, which starts them and exchanges messages."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from entity_env.environment import Environment, check_seed
from entity_env.errors import SeatError, SettingError, WorkerDiedError
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.rows.vec_env import check_count
from entity_env.spaces import check_same_spaces
from entity_env.workers.channel import Channel
from entity_env.workers.interpreter import start_python
from entity_env.workers.pickles import pickled
from entity_env.workers.row_share import cut_rows
from entity_env.workers.shared_block import SharedBlock
from entity_env.workers.worker import SECONDS_TO_CLOSE, revive

__all__ = ["WorkerProcess", "common_spaces", "end_workers", "start_workers"]

_START = "from entity_env.workers.worker import main; main()"
_SECONDS_TO_DIE = 2 * SECONDS_TO_CLOSE
"""The time after which a worker is killed; it normally ends itself sooner."""


class WorkerProcess:
    """A worker process with its socket and its shared memory.

    Args:
        first_row: Its first row; corrected for games when their number of seats is known.
        num_rows: The number of its rows.
    """

    seats = 1
    """The number of rows of one game."""
    is_awaited = False
    """True while the parent waits for its answer."""

    def __init__(self, first_row: int, num_rows: int) -> None:
        self.first_row = first_row
        self.num_rows = num_rows
        near, far = socket.socketpair()
        self.channel = Channel(near)
        self.block = SharedBlock.create()
        descriptors = (far.fileno(), self.block.fileno())
        try:
            self._process = start_python(
                _START, *map(str, descriptors), pass_fds=descriptors, stdin=subprocess.DEVNULL
            )
        except BaseException:  # no process, no memory, Ctrl-C
            self.channel.close()
            self.block.close()
            raise
        finally:
            far.close()

    def send(self, kind: bytes, content: bytes) -> None:
        """Send a message."""
        # receive raises the error for a worker that has ended.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.channel.send(kind, content)

    def receive(self) -> Any:
        """Return the next answer or the bytes of a report; raise an error that the worker sent."""
        self.is_awaited = True
        try:
            return self._understood(*self.channel.receive())
        except (EOFError, ConnectionError):  # a signal's handler may raise other OSErrors
            raise self._death() from None
        finally:
            self.is_awaited = False

    def running(self) -> tuple[Hashable, str]:
        """Return the running call in the format of ``VecEnv._running``."""
        row, step = self.block.noted()
        row = max(row, self.first_row)  # nothing is noted before the first row runs
        where = f"{self.place(row)}, step {step}, in the worker process {self._process.pid}"
        return (self._process.pid, row, step), where

    def take(self) -> list[Any]:
        """Wait for at least one answer, and return all that have arrived."""
        try:
            messages = self.channel.take()
        except (EOFError, ConnectionError):
            raise self._death() from None
        return [self._understood(*message) for message in messages]

    def end(self, seconds: float) -> None:
        """Wait for the process, whose channel is closed, then kill it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        self._process.kill()
        self._process.wait()
        self.block.close()

    @staticmethod
    def _understood(kind: bytes, content: bytes) -> Any:
        if kind == b"o":
            return content
        answer = pickle.loads(content)
        if kind == b"e":
            raise revive(*answer)
        return answer

    def _death(self) -> WorkerDiedError:
        try:
            code = self._process.wait(_SECONDS_TO_DIE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        row, step = self.block.noted()
        row = max(row, self.first_row)  # nothing is noted before the first row runs
        cause = f"signal {-code}" if code < 0 else f"exit status {code}"
        first, last = self.place(self.first_row), self.first_row + self.num_rows - 1
        kind, _, number = first.partition(" ")
        return WorkerDiedError(
            f"the worker of {kind}s {number} to {last // self.seats} died ({cause})",
            received=f"it last ran {self.place(row)} in step {step}",
            hint="signal 9 is often the system running out of memory" if code == -9 else None,
            where=f"{self.place(row)}, step {step}",
        )

    def place(self, row: int) -> str:
        """Return the name of a row in errors."""
        return f"environment {row}" if self.seats == 1 else f"game {row // self.seats}"


def start_workers(
    create_env: Callable[[], Environment | MultiPlayerEnvironment],
    num_envs: int,
    num_processes: int,
    seed: int,
    *,
    apart: bool,
) -> list[WorkerProcess]:
    """Start the processes; each makes its environments and answers with their spaces.

    Args:
        create_env: Function that makes one environment; importable or picklable with cloudpickle.
        num_envs: The number of rows R, which are divided into consecutive parts.
        num_processes: The number of workers, at most ``num_envs``.
        seed: Seed of all rows.
        apart: True to step each row, or each game, separately.
    """
    if os.name != "posix":
        raise SettingError("worker processes need Linux or macOS", hint="use ListEnv")
    check_count("number of environments", num_envs)
    check_count("number of processes", num_processes, most=num_envs)
    check_seed(seed)
    start = {
        "create_env": pickled("create_env", create_env),
        "num_envs": int(num_envs),
        "num_processes": int(num_processes),
        "seed": seed,
        "apart": apart,
    }
    workers: list[WorkerProcess] = []
    try:
        # Each worker finds out whether these are games, and then takes whole games.
        for index, share in enumerate(cut_rows(num_envs, num_processes, 1)):
            workers.append(WorkerProcess(*share))
            workers[-1].send(b"p", pickle.dumps({**start, "index": index}))
    except BaseException:
        end_workers(workers)
        raise
    return workers


def common_spaces(workers: Sequence[WorkerProcess]) -> dict[str, Any]:
    """Return the spaces of all workers.

    Raises:
        SpaceError: The environments have different spaces.
    """
    answers: list[dict[str, Any]] = [worker.receive() for worker in workers]
    for worker, answer in zip(workers, answers, strict=True):
        worker.seats = answer["seats"]
        worker.first_row, worker.num_rows = answer["first_row"], answer["num_rows"]
    spaces = [{name: answer[name] for name in ("obs_space", "action_space")} for answer in answers]
    check_same_spaces(spaces, lambda i: f"{workers[i].place(workers[i].first_row)}, step 0")
    if len({worker.seats for worker in workers}) > 1:
        raise SeatError(
            "the games of the workers have different numbers of seats",
            received=[worker.seats for worker in workers],
        )
    return answers[0]


def end_workers(workers: Sequence[WorkerProcess]) -> None:
    """End all workers; those that do not close their environments in time are killed."""
    for worker in workers:
        worker.channel.close()
    last = time.monotonic() + SECONDS_TO_CLOSE
    for worker in workers:
        worker.end(max(0.0, last - time.monotonic()))
