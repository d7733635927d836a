"""A ``VecEnv`` whose environments run in worker processes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, check_seed
from entity_env.errors import SettingError, StateError, shorten
from entity_env.rows.vec_env import LIVE, VecEnv
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.workers.action_format import split_actions
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.pickles import pickled
from entity_env.workers.worker_process import common_spaces, end_workers, start_workers

__all__ = ["ParallelEnv"]


@named_arguments(SettingError)
class ParallelEnv(VecEnv):
    """Cuts the rows into consecutive parts, one for each worker process.

    Gives the same results as ``ListEnv`` for the same seed, or as ``SeatRows`` for games of several
    players, whatever the number of processes. A game is played by one worker.
    Actions cross in one message for each worker and step, observations in shared memory. All rows
    wait for the slowest: see ``AsyncEnv`` where that is long. Needs POSIX.

    Args:
        create_env: Makes one environment, or one game of several players. It must be importable or
            picklable (with cloudpickle: classes of a notebook and lambdas are fine).
        num_envs: The number of rows R.
        num_processes: The number of workers, at most ``num_envs``, or the number of games.
        seed: Seeds all rows.
    """

    def __init__(
        self,
        create_env: Callable[[], Environment | MultiPlayerEnvironment],
        num_envs: int,
        num_processes: int,
        seed: int = 0,
    ) -> None:
        self._workers = start_workers(create_env, num_envs, num_processes, seed, apart=False)
        self._finalizer = weakref.finalize(self, end_workers, self._workers)
        LIVE.add(self)
        try:
            self._spaces = common_spaces(self._workers)
        except BaseException:
            self.close()
            raise
        self._counts = [worker.num_rows for worker in self._workers]
        self._frames = list(self._counts)  # how many of each worker's rows are asked
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
        """Return the number of rows."""
        return sum(self._counts)

    @property
    def num_seats(self) -> int:
        """The number of rows of one game."""
        return self._workers[0].seats

    def has_state(self) -> bool:
        """Return True if every environment saves and restores its state."""
        has_state = bool(self._spaces["has_state"])
        if not has_state or self._last is None or self._closed:
            return has_state
        return all(self._ask("has_state", [None] * len(self._workers)))

    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            check_seed(seed)
        return self._joined(self._ask("reset", [seed] * len(self._workers)))

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        try:
            parts = split_actions(chosen, self._frames)
            for worker, part in zip(self._workers, parts, strict=True):
                worker.send(b"a", part)
            return self._joined([worker.receive() for worker in self._workers])
        except BaseException:
            self.close()
            raise

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
        return self._joined(self._ask("set_state", [*parts, state[ends[-2] :]]))

    def _check_wrappable(self) -> None:
        """Accept any wrapper."""

    def _wrap_each(self, wrapper: Callable[[Environment], Environment]) -> None:
        argument = pickled("the wrapper", wrapper)
        answers = self._ask("wrap_each", [argument] * len(self._workers))
        self._spaces["has_state"] = all(answers)

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return list(chain.from_iterable(self._ask("render", [kwargs] * len(self._workers))))

    def _running(self) -> list[tuple[Hashable, str]]:
        # Those that wait their turn may have answered; the one that is read has not.
        return [worker.running() for worker in self._workers if worker.is_awaited]

    def _close(self) -> None:
        self._finalizer()

    def _ask(self, request: str, arguments: list[Any]) -> list[Any]:
        """Send one request to each worker, then collect; the first failure ends them all."""
        what = f"what {request} was given"
        messages = [pickled(what, (request, argument)) for argument in arguments]
        try:
            for worker, message in zip(self._workers, messages, strict=True):
                worker.send(b"p", message)
            return [worker.receive() for worker in self._workers]
        except BaseException:
            # After a failure, or Ctrl-C between two messages, answers no longer match requests.
            self.close()
            raise

    def _joined(self, places: list[bytes]) -> VecObs:
        """Return the reports in the workers' shared memory as one observation."""
        obs = self._format.join(
            [worker.block.read(place) for worker, place in zip(self._workers, places, strict=True)]
        )
        if obs.num_frames == len(obs):
            self._frames = self._counts
        else:
            ends = np.searchsorted(obs.rows, np.cumsum(self._counts))
            self._frames = np.diff(ends, prepend=0).tolist()
        return obs
