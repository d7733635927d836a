"""A ``VecEnv`` whose environments run in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, check_seed
from entity_env.errors import SettingError, StateError, counted, shorten
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.spaces import ActionName
from entity_env.workers.messages import pickled, split_actions
from entity_env.workers.worker_rows import WorkerRows

__all__ = ["ParallelEnv"]


@named_arguments(SettingError)
class ParallelEnv(WorkerRows):
    """Rows in worker processes, each of which plays a consecutive part of the rows.

    For any number of processes, the results equal those of ``ListEnv`` with the same seed, or of
    ``SeatRows`` for games of several players. A game is played by one worker.

    Actions are sent in one message for each worker and step, observations in shared memory. All
    rows wait for the slowest; see ``AsyncEnv`` for rows that differ in speed. Needs POSIX.

    Args:
        create_env: Function that makes one environment, or one game of several players; importable
            or picklable with cloudpickle, such as classes of a notebook and lambdas.
        num_envs: The number of rows R.
        num_processes: The number of workers, at most the number of environments or games.
        seed: Seed of all rows.
    """

    def __init__(
        self,
        create_env: Callable[[], Environment | MultiPlayerEnvironment],
        num_envs: int,
        num_processes: int,
        seed: int = 0,
    ) -> None:
        super().__init__(create_env, num_envs, num_processes, seed, apart=False)
        self._counts = [worker.num_rows for worker in self._workers]
        self._frames = list(self._counts)  # the number of each worker's rows that must act

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
                expected=f"a list of {counted(len(self), 'row')}",
                received=shorten(state),
            )
        ends = np.cumsum([0, *self._counts])
        # The last worker gets all remaining rows, and notices a wrong number of them.
        parts = [state[ends[i] : ends[i + 1]] for i in range(len(self._counts) - 1)]
        return self._joined(self._ask("set_state", [*parts, state[ends[-2] :]]))

    def _check_wrappable(self) -> None:
        """Do nothing: environments can be wrapped."""

    def _wrap_each(self, wrapper: Callable[[Environment], Environment]) -> None:
        argument = pickled("the wrapper", wrapper)
        answers = self._ask("wrap_each", [argument] * len(self._workers))
        self._spaces["has_state"] = all(answers)

    def _share_draws(self, copies: int) -> None:
        self._ask("share_draws", [copies] * len(self._workers))

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return list(chain.from_iterable(self._ask("render", [kwargs] * len(self._workers))))

    def _running(self) -> list[tuple[Hashable, str]]:
        # The worker that is being read has not answered; later ones may have.
        return [worker.running() for worker in self._workers if worker.is_awaited]

    def _ask(self, request: str, arguments: list[Any]) -> list[Any]:
        """Send a request to each worker, and return the answers; close all after an error."""
        what = f"the argument of {request}"
        messages = [pickled(what, (request, argument)) for argument in arguments]
        try:
            for worker, message in zip(self._workers, messages, strict=True):
                worker.send(b"p", message)
            return [worker.receive() for worker in self._workers]
        except BaseException:
            # After an error, or Ctrl-C between two messages, answers no longer match requests.
            self.close()
            raise

    def _joined(self, places: list[tuple[int, int]]) -> VecObs:
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
