"""A worker process as seen by its parent, which starts it and exchanges messages with it."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
from collections.abc import Hashable, Iterator
from multiprocessing import Pipe
from typing import Any

from entity_env.errors import ClosedError, WorkerDiedError
from entity_env.workers.interpreter import close_in_forks, start_python
from entity_env.workers.row_loop import REPORT
from entity_env.workers.shared_block import SharedBlock
from entity_env.workers.worker import PLACE, SECONDS_TO_CLOSE, revive

__all__ = ["WorkerProcess"]

_START = "from entity_env.workers.worker import main; main()"
_SECONDS_TO_DIE = 2 * SECONDS_TO_CLOSE
"""The time after which a worker is killed; it normally ends itself sooner."""


class WorkerProcess:
    """A worker process with its connection, its pipe of reports and its shared memory.

    The first byte of a message is its kind. The parent sends actions (``a``), requests as pickles
    (``p``) and resets of ``AsyncEnv`` (``s``); a worker sends the place of an observation (``o``),
    answers as pickles (``p``) and errors (``e``). Workers of an ``AsyncEnv`` write the places of
    observations into a pipe, as records of one size, so that one system call reads all that have
    arrived.

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
        self.connection, other_end = Pipe()
        close_in_forks(self.connection)
        self.block = SharedBlock.create()
        self.reports, reports_end = os.pipe()
        descriptors = (other_end.fileno(), self.block.fileno(), reports_end)
        try:
            self._process = start_python(
                _START, *map(str, descriptors), pass_fds=descriptors, stdin=subprocess.DEVNULL
            )
        except BaseException:  # no process, no memory, Ctrl-C
            self.connection.close()
            self._release()
            raise
        finally:
            other_end.close()
            os.close(reports_end)

    def send(self, kind: bytes, content: bytes) -> None:
        """Send a message."""
        if self.connection.closed:
            raise ClosedError(
                "the workers of an environment can only be used by the process that made them",
                hint="this process was forked from it; make the environment in this process",
            )
        # receive raises the error for a worker that has ended.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(kind + content)

    def receive(self) -> Any:
        """Return the next answer or place; raise an error that the worker sent."""
        self.is_awaited = True
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            if isinstance(error, EOFError | ConnectionError) or _is_end_in_message(error):
                raise self._death() from None
            raise  # of a signal's handler
        finally:
            self.is_awaited = False
        kind, content = message[:1], message[1:]
        if kind == b"o":
            return PLACE.unpack(content)
        answer = pickle.loads(content)
        if kind == b"e":
            raise revive(*answer)
        return answer

    def take_reports(self) -> Iterator[tuple[int, ...]]:
        """Return the reports that have arrived, of which there is at least one."""
        return REPORT.iter_unpack(os.read(self.reports, 1000 * REPORT.size))

    def running(self) -> tuple[Hashable, str]:
        """Return the running call in the format of ``VecEnv._running``."""
        row, step = self._noted()
        where = f"{self.place(row)}, step {step}, in the worker process {self._process.pid}"
        return (self._process.pid, row, step), where

    def end(self, seconds: float) -> None:
        """Wait for the process, whose connection is closed, then kill it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        self._process.kill()
        self._process.wait()
        self._release()

    def _release(self) -> None:
        self.block.close()
        os.close(self.reports)

    def place(self, row: int) -> str:
        """Return the name of a row in errors."""
        return f"environment {row}" if self.seats == 1 else f"game {row // self.seats}"

    def _noted(self) -> tuple[int, int]:
        row, step = self.block.noted()
        return max(row, self.first_row), step  # nothing is noted before the first row runs

    def _death(self) -> WorkerDiedError:
        try:
            code = self._process.wait(_SECONDS_TO_DIE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        row, step = self._noted()
        cause = f"signal {-code}" if code < 0 else f"exit status {code}"
        first, last = self.place(self.first_row), self.first_row + self.num_rows - 1
        kind, _, number = first.partition(" ")
        return WorkerDiedError(
            f"the worker of {kind}s {number} to {last // self.seats} died ({cause})",
            received=f"it last ran {self.place(row)} in step {step}",
            hint="signal 9 is often the system running out of memory" if code == -9 else None,
            where=f"{self.place(row)}, step {step}",
        )


def _is_end_in_message(error: OSError) -> bool:
    """Return True for the error of a ``Connection`` whose other side ended within a message."""
    return type(error) is OSError and error.errno is None
