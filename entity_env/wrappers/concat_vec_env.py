"""``ConcatVecEnv``, which joins several sets of rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.kinds.table import answer_forms
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, check_seed
from entity_env.errors import EntityEnvError, SettingError, shorten
from entity_env.rows.vec_env import VecEnv, check_saved_rows
from entity_env.spaces import ActionName, ActionSpace, ObsSpace, check_same_spaces
from entity_env.workers.action_format import read_actions, split_actions
from entity_env.workers.obs_format import ObsFormat
from entity_env.wrappers.vec_wrapper import act_unchecked, check_rows

__all__ = ["ConcatVecEnv"]


@named_arguments(SettingError)
class ConcatVecEnv(VecEnv):
    """The rows of several ``VecEnv`` s with equal spaces, in order.

    The parts may differ in kind and size, such as rows with other settings, or compiled rows and
    rows in Python. Each part is seeded with a seed spawned from the common one.

    Args:
        envs: The parts, at least one.

    Raises:
        SettingError: The list is empty, has something else than a ``VecEnv``, or has one twice.
        SpaceError: Their spaces differ.
    """

    def __init__(self, envs: Sequence[VecEnv]) -> None:
        if isinstance(envs, str) or not isinstance(envs, Sequence) or not envs:
            raise SettingError(
                "ConcatVecEnv joins rows", expected="a list of VecEnvs", received=shorten(envs)
            )
        self.envs = [check_rows("ConcatVecEnv", env) for env in envs]
        if len(set(map(id, self.envs))) != len(self.envs):
            raise SettingError("ConcatVecEnv has the same rows twice", received=shorten(envs))
        check_same_spaces(
            [{"obs_space": e.obs_space(), "action_space": e.action_space()} for e in self.envs],
            _part,
        )
        self._counts = [len(env) for env in self.envs]
        self._format = ObsFormat(self.obs_space(), self.action_space())
        self._forms = answer_forms(self.action_space())
        self._inner: list[VecObs] = []  # the last observation of each part

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self.envs[0].obs_space()

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        return self.envs[0].action_space()

    def __len__(self) -> int:
        """Return the number of rows of all parts."""
        return sum(self._counts)

    @property
    def num_seats(self) -> int:
        """The largest number of rows of one game in any part."""
        return max(env.num_seats for env in self.envs)

    def has_state(self) -> bool:
        """Return True if all parts save and restore their state."""
        return all(env.has_state() for env in self.envs)

    def _reset(self, seed: int | None) -> VecObs:
        seeds: list[int | None] = [None] * len(self.envs)
        if seed is not None:
            streams = np.random.SeedSequence(check_seed(seed)).spawn(len(self.envs))
            seeds = [int(stream.generate_state(1)[0]) for stream in streams]
        shown = []
        for i, (env, own) in enumerate(zip(self.envs, seeds, strict=True)):
            with _located(i):
                shown.append(env.reset(own))
        return self._joined(shown)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        shown = []
        frames = [obs.num_frames for obs in self._inner]
        for i, message in enumerate(split_actions(chosen, frames)):
            own = read_actions(message, self._forms, frames[i])
            with _located(i):
                shown.append(act_unchecked(self.envs[i], own, self._inner[i]))
        return self._joined(shown)

    def _joined(self, shown: list[VecObs]) -> VecObs:
        self._inner = shown
        return self._format.join([(self._format.pack(obs), 0) for obs in shown])

    def _get_state(self) -> list[Any]:
        state = []
        for i, env in enumerate(self.envs):
            with _located(i):
                state += env.get_state()
        return state

    def _set_state(self, state: list[Any]) -> VecObs:
        check_saved_rows(state, len(self))
        shown = []
        ends = np.cumsum(self._counts).tolist()
        for i, (env, end) in enumerate(zip(self.envs, ends, strict=True)):
            with _located(i):
                shown.append(env.set_state(state[end - self._counts[i] : end]))
        return self._joined(shown)

    def _check_wrappable(self) -> None:
        for i, env in enumerate(self.envs):
            with _located(i):
                env._check_wrappable()

    def _wrap_each(self, wrapper: Callable[[Environment], Environment]) -> None:
        for i, env in enumerate(self.envs):
            try:
                with _located(i):
                    env.wrap_each(wrapper)
            except BaseException:
                self.close()  # some parts are wrapped already, so that the parts no longer match
                raise

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        pictures = []
        for i, env in enumerate(self.envs):
            with _located(i):
                pictures += env.render(**kwargs)
        return pictures

    def _close(self) -> None:
        with contextlib.ExitStack() as stack:  # closes all parts even if one fails
            for env in reversed(self.envs):
                stack.callback(env.close)


def _part(i: int) -> str:
    return f"part {i}"


@contextlib.contextmanager
def _located(i: int) -> Iterator[None]:
    """Add the number of the part to errors."""
    try:
        yield
    except EntityEnvError as error:
        error.where = f"{_part(i)}, {error.where}" if error.where else _part(i)
        raise
