"""Base of rows in worker processes."""

from __future__ import annotations

import os
import pickle
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from entity_env.environment import Environment, check_seed
from entity_env.errors import SeatError, SettingError
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.rows.vec_env import LIVE, VecEnv, check_count
from entity_env.spaces import ActionName, ActionSpace, ObsSpace, check_same_spaces
from entity_env.workers.messages import pickled
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.worker import SECONDS_TO_CLOSE, cut_rows
from entity_env.workers.worker_process import WorkerProcess

__all__ = ["WorkerRows", "end_workers"]


class WorkerRows(VecEnv):
    """Rows in worker processes, each of which plays a consecutive part of the rows.

    Args:
        create_env: Function that makes one environment, or one game of several players; importable
            or picklable with cloudpickle.
        num_envs: The number of rows R.
        num_processes: The number of workers, at most the number of environments or games.
        seed: Seed of all rows.
        apart: True to step each environment, or each game, separately.

    Raises:
        SpaceError: The environments have different spaces.
    """

    def __init__(
        self,
        create_env: Callable[[], Environment | MultiPlayerEnvironment],
        num_envs: int,
        num_processes: int,
        seed: int,
        *,
        apart: bool,
    ) -> None:
        self._workers = _start_workers(create_env, num_envs, num_processes, seed, apart)
        self._finalizer = weakref.finalize(self, end_workers, self._workers)
        LIVE.add(self)
        try:
            self._spaces = _common_spaces(self._workers)
        except BaseException:
            self.close()
            raise
        self._seats = self._workers[0].seats
        self._format = ObsFormat(self.obs_space(), self.action_space())

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        space: ObsSpace = self._spaces["obs_space"]
        return space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        space: dict[ActionName, ActionSpace] = self._spaces["action_space"]
        return space

    def __len__(self) -> int:
        """Return the number of rows R."""
        return sum(worker.num_rows for worker in self._workers)

    @property
    def num_seats(self) -> int:
        """The number of rows of one game."""
        return self._seats

    def _close(self) -> None:
        self._finalizer()


def end_workers(workers: Sequence[WorkerProcess]) -> None:
    """End all workers; those that do not close their environments in time are killed."""
    for worker in workers:
        worker.connection.close()
    last = time.monotonic() + SECONDS_TO_CLOSE
    for worker in workers:
        worker.end(max(0.0, last - time.monotonic()))


def _start_workers(
    create_env: Callable[[], Environment | MultiPlayerEnvironment],
    num_envs: int,
    num_processes: int,
    seed: int,
    apart: bool,
) -> list[WorkerProcess]:
    """Start the processes; each makes its environments and answers with their spaces."""
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


def _common_spaces(workers: Sequence[WorkerProcess]) -> dict[str, Any]:
    """Return the spaces of all workers."""
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
