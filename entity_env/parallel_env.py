"""A ``VecEnv`` whose environments run in worker processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from itertools import chain
from multiprocessing import Pipe
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt

from entity_env.batch import VecObs
from entity_env.environment import Environment, check_seed
from entity_env.errors import (
    EnvironmentFailedError,
    NumEnvsError,
    SpaceError,
    StateError,
    WorkerDiedError,
    shorten,
)
from entity_env.ragged import RaggedBufferI64
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.transport import Packed, cat_obs, pack_actions, split_actions
from entity_env.vec_env import VecEnv, check_count
from entity_env.worker import PROGRESS, revive

__all__ = ["ParallelEnv"]


class ParallelEnv(VecEnv):
    """Cuts the rows into consecutive parts, one for each worker process.

    Gives the same results as ``ListEnv`` for the same seed, whatever the number of processes.
    Observations cross in one message of flat arrays for each worker and step. Needs POSIX.

    Args:
        create_env: Makes one environment. It must be importable or picklable (with cloudpickle:
            classes of a notebook and lambdas are fine).
        num_envs: The number of rows R.
        num_processes: The number of workers, at most ``num_envs``.
        seed: Seeds all rows.
    """

    def __init__(
        self,
        create_env: Callable[[], Environment],
        num_envs: int,
        num_processes: int,
        seed: int = 0,
    ) -> None:
        if os.name != "posix":
            raise NumEnvsError("worker processes need Linux or macOS", hint="use ListEnv")
        check_count("number of environments", num_envs)
        check_count("number of processes", num_processes, most=num_envs)
        check_seed(seed)
        factory = _pickled(create_env)
        self._counts = [len(part) for part in np.array_split(np.arange(num_envs), num_processes)]
        first_rows = np.cumsum([0, *self._counts]).tolist()
        self._workers = [_Worker(row, n) for row, n in zip(first_rows, self._counts, strict=False)]
        self._finalizer = weakref.finalize(self, _end_all, self._workers)
        starts = [
            {"create_env": factory, "num_envs": w.num_rows, "seed": seed, "first_row": w.first_row}
            for w in self._workers
        ]
        answers = self._ask("start", starts)
        self._spaces = answers[0]
        for kind in ("obs_space", "action_space"):
            other = next((a[kind] for a in answers if a[kind] != self._spaces[kind]), None)
            if other is not None:
                self.close()
                raise SpaceError(
                    f"the environments of different workers have a different {kind}",
                    expected=shorten(self._spaces[kind]),
                    received=shorten(other),
                )

    def obs_space(self) -> ObsSpace:
        """What the rows observe."""
        space: ObsSpace = self._spaces["obs_space"]
        return space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """What the rows can do."""
        space: dict[ActionName, ActionSpace] = self._spaces["action_space"]
        return space

    def __len__(self) -> int:
        """The number of rows."""
        return sum(self._counts)

    def has_state(self) -> bool:
        """Whether every environment saves and restores its state."""
        return bool(self._spaces["has_state"])

    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            check_seed(seed)
        return cat_obs(self._ask("reset", [seed] * len(self._workers)))

    def _act(self, chosen: Mapping[ActionName, RaggedBufferI64]) -> VecObs:
        parts: list[Packed] = self._ask("act", split_actions(pack_actions(chosen), self._counts))
        return cat_obs(parts)

    def _get_state(self) -> list[Any]:
        return list(chain.from_iterable(self._ask("get_state", [None] * len(self._workers))))

    def _set_state(self, state: list[Any]) -> VecObs:
        if not isinstance(state, list):
            raise StateError(
                "the saved state does not fit",
                expected=f"a list of {len(self)} rows",
                received=shorten(state),
            )
        ends = np.cumsum([0, *self._counts])
        # The last part takes whatever is left, so that a wrong number of rows is noticed there.
        parts = [state[ends[i] : ends[i + 1]] for i in range(len(self._counts) - 1)]
        return cat_obs(self._ask("set_state", [*parts, state[ends[-2] :]]))

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return list(chain.from_iterable(self._ask("render", [kwargs] * len(self._workers))))

    def _close(self) -> None:
        self._finalizer()

    def _ask(self, request: str, arguments: list[Any]) -> list[Any]:
        """Send one request to each worker, then collect; the first failure ends them all."""
        try:
            for worker, argument in zip(self._workers, arguments, strict=True):
                worker.send(request, argument)
            return [worker.receive() for worker in self._workers]
        except BaseException:
            # After a failure, or Ctrl-C between two messages, answers no longer match requests.
            self.close()
            raise


def _pickled(create_env: Callable[[], Environment]) -> bytes:
    try:
        factory: bytes = cloudpickle.dumps(create_env)
    except Exception as error:  # whatever the objects that it holds raise
        raise EnvironmentFailedError(
            f"create_env cannot be sent to a worker: {shorten(error)}",
            expected="a class or function that can be imported or pickled",
            received=shorten(create_env),
        ) from error
    return factory


_START = "from entity_env.worker import main; main()"


class _Worker:
    """One process with its pipe, and the file in which it notes the row that runs."""

    def __init__(self, first_row: int, num_rows: int) -> None:
        self.first_row = first_row
        self.num_rows = num_rows
        self._progress = tempfile.TemporaryFile()  # noqa: SIM115  (closed by end)
        self._pipe, far_end = Pipe()
        descriptors = (far_end.fileno(), self._progress.fileno())
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *map(str, descriptors)],
            pass_fds=descriptors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
            stdin=subprocess.DEVNULL,
        )
        far_end.close()

    def send(self, request: str, argument: Any) -> None:
        # A worker that is gone is reported by receive, which knows how it ended.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._pipe.send((request, argument))

    def receive(self) -> Any:
        try:
            status, answer = self._pipe.recv()
        except (EOFError, OSError):  # OSError: it ended in the middle of a message
            raise self._death() from None
        if status == "error":
            raise revive(*answer)
        return answer

    def end(self) -> None:
        """Close the pipe, which ends a healthy worker, then insist."""
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._process.kill()
        self._process.wait()
        self._progress.close()

    def _death(self) -> WorkerDiedError:
        code = self._process.wait()
        noted = os.pread(self._progress.fileno(), PROGRESS.size, 0)
        row, step = PROGRESS.unpack(noted) if noted else (self.first_row, 0)
        cause = f"signal {-code}" if code < 0 else f"exit status {code}"
        return WorkerDiedError(
            f"the worker of environments {self.first_row} to "
            f"{self.first_row + self.num_rows - 1} died ({cause})",
            received=f"it last ran environment {row} in step {step}",
            hint="signal 9 is often the system running out of memory" if code == -9 else None,
            where=f"environment {row}, step {step}",
        )


def _end_all(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.end()
