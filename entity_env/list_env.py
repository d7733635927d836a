"""The reference ``VecEnv``: environments one after the other, in this process."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.batch import VecObs
from entity_env.environment import Environment, check_seed, seed_environment
from entity_env.errors import (
    EntityEnvError,
    EnvironmentFailedError,
    ObservationError,
    StateError,
    shorten,
)
from entity_env.metrics import EpisodeTracker, metric_columns
from entity_env.observation import Observation
from entity_env.ragged import RaggedBufferI64
from entity_env.rows import RowReader, Rows, ended_rows
from entity_env.shared_memory import Watch
from entity_env.spaces import ActionName, ActionSpace, ObsSpace, check_same_spaces
from entity_env.vec_env import VecEnv, check_count, check_saved_rows

__all__ = ["ListEnv"]


class ListEnv(VecEnv):
    """Steps a list of environments in a loop.

    Observations are read when all rows have acted. An environment may use its arrays and lists
    again in its next ``act`` or ``reset``; to change some that others show is an ObservationError.

    Args:
        create_env: Makes one environment; called once for each row.
        num_envs: The number of rows R.
        seed: Seeds all rows; row i draws from the i-th stream that is spawned from it.
        first_row: The number of the first row in errors and seeds, where this is a part of a
            larger whole.
        on_row: Called with (row, step) before a row's environment runs.
    """

    def __init__(
        self,
        create_env: Callable[[], Environment],
        num_envs: int,
        seed: int = 0,
        *,
        first_row: int = 0,
        on_row: Callable[[int, int], None] | None = None,
    ) -> None:
        check_count("number of environments", num_envs)
        self._first_row = first_row
        self._on_row = on_row
        self._step = 0
        self._rows: Rows  # what the next actions answer
        self._envs: list[Environment] = []
        self._trackers = [EpisodeTracker() for _ in range(num_envs)]
        try:
            for row in range(num_envs):
                self._envs.append(self._environment(row, create_env))
            self._reader = self._common_reader()
            self._seed(check_seed(seed))
        except BaseException:
            with contextlib.suppress(EntityEnvError):  # the first error is the one to tell
                self._close()
            raise

    def obs_space(self) -> ObsSpace:
        """What the rows observe."""
        return self._reader.obs_space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """What the rows can do."""
        return self._reader.action_space

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._envs)

    def has_state(self) -> bool:
        """Whether every environment saves and restores its state."""
        return all(env.has_state() for env in self._envs)

    def _seed(self, seed: int) -> None:
        for row, env in enumerate(self._envs):
            stream = np.random.SeedSequence(seed, spawn_key=(self._first_row + row,))
            # 32 bits: what every seeding function takes, numpy.random.seed included.
            self._call(row, "seed", seed_environment, env, int(stream.generate_state(1)[0]))

    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            self._seed(check_seed(seed))
        self._step = 0
        first: list[Observation] = []
        self._reset_rows(first, range(len(self)))
        obs = self._begin(first, "reset")
        for tracker, metrics in zip(self._trackers, self._rows.outcome.metrics, strict=True):
            tracker.begin(metrics)
        return obs

    def _act(self, chosen: Mapping[ActionName, RaggedBufferI64]) -> VecObs:
        self._step += 1
        observations = self._play(self._rows.typed_actions(chosen, self.action_space()))
        over, cut_off = ended_rows(observations)
        if over or cut_off:
            return self._restart(observations, over, cut_off)
        self._rows = self._reader.read(observations, self._places("act"))
        outcome = self._rows.outcome
        EpisodeTracker.add_all(self._trackers, outcome.rewards.tolist(), outcome.metrics)
        return self._rows.obs

    def _restart(
        self, observations: list[Observation], over: list[int], cut_off: list[int]
    ) -> VecObs:
        """Start new episodes in the rows that are over, and in those that a limit cut off."""
        # What an episode ended with is read before its environment starts the next one.
        ended, final = dict[int, tuple[float, Mapping[str, float]]](), None
        if over:
            own = [observations[row] for row in over]
            outcome = self._reader.outcome(own, self._places("act", over))
            ended.update(zip(over, outcome.results(), strict=True))
        if cut_off:
            own = [observations[row] for row in cut_off]
            last = self._reader.read(own, self._places("act", cut_off))
            ended.update(zip(cut_off, last.outcome.results(), strict=True))
            final = last.obs
        kept = next((row for row in range(len(self)) if row not in ended), None)
        watch = Watch(observations, kept, len(self))
        self._reset_rows(observations, sorted(ended))
        watch.check(self._places("act", new=ended))
        now = self._reader.read(observations, self._places("act", new=ended))
        self._check_unfinished(now, "reset")
        rewards, metrics = now.outcome.rewards.copy(), list(now.outcome.metrics)
        for row, (reward, last_metrics) in ended.items():
            rewards[row], metrics[row] = reward, last_metrics
        EpisodeTracker.add_all(self._trackers, rewards.tolist(), metrics)
        summaries: list[dict[str, float] | None] = [None] * len(metrics)
        for row in ended:
            summaries[row] = self._trackers[row].summary()
            self._trackers[row].begin(now.outcome.metrics[row])
        done, truncated = np.zeros((2, len(metrics)), np.bool_)
        done[list(ended)] = True
        truncated[cut_off] = True
        self._rows = now
        return replace(
            now.obs,
            reward=rewards.astype(np.float32),
            done=done,
            truncated=truncated,
            metrics=metric_columns(summaries),
            final=final,
        )

    def _reset_rows(self, observations: list[Observation], rows: Sequence[int]) -> None:
        """Put what ``rows`` show after a reset into ``observations``."""
        for row in rows:
            observations[row : row + 1] = [self._call(row, "reset", self._envs[row].reset)]
            if row == rows[0]:
                watch = Watch(observations, row, len(self))
        watch.check(self._places("reset"))

    def _begin(self, observations: list[Observation], what: str) -> VecObs:
        """Read what ``reset`` or ``set_state`` returned in all rows."""
        self._rows = self._reader.read(observations, self._places(what))
        self._check_unfinished(self._rows, what)
        return replace(self._rows.obs, reward=np.zeros(len(observations), np.float32))

    def _check_unfinished(self, rows: Rows, what: str) -> None:
        for row in np.flatnonzero(rows.obs.done).tolist():
            raise ObservationError(
                f"{what} returned an observation that is done",
                expected="done=False: a new episode has at least one step",
            ).located(self._where(row))

    def _places(
        self, what: str, rows: Sequence[int] | None = None, new: Container[int] = ()
    ) -> Callable[[int], str]:
        """The place of the i-th of ``rows`` (None: of all), for errors; ``new`` ones were reset."""

        def place(i: int) -> str:
            row = i if rows is None else rows[i]
            return f"{self._where(row)}, {'reset' if row in new else what}"

        return place

    def _get_state(self) -> list[Any]:
        return [
            {
                "env": self._call(row, "get_state", env.get_state),
                "rng": env.rng.bit_generator.state,
                "episode": tracker.get_state(),
                "step": self._step,
            }
            for row, (env, tracker) in enumerate(zip(self._envs, self._trackers, strict=True))
        ]

    def _set_state(self, state: list[Any]) -> VecObs:
        check_saved_rows(state, len(self))
        observations = []
        for row, saved in enumerate(state):
            env = self._envs[row]
            try:
                env.rng.bit_generator.state = saved["rng"]
                self._trackers[row].set_state(saved["episode"])
                self._step = int(saved["step"])
                own = saved["env"]
            except (KeyError, TypeError, ValueError) as error:
                raise StateError(
                    f"the saved state is damaged: {type(error).__name__}: {error}",
                    received=shorten(saved),
                ).located(self._where(row)) from error
            observations.append(self._call(row, "set_state", env.set_state, own))
            if row == 0:
                watch = Watch(observations, row, len(self))
        watch.check(self._places("set_state"))
        return self._begin(observations, "set_state")

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return [
            self._call(row, "render", env.render, **kwargs) for row, env in enumerate(self._envs)
        ]

    def _close(self) -> None:
        self._on_row = None  # the row to report is the one that ran, not the one that closes
        failed: EntityEnvError | None = None
        for row, env in enumerate(self._envs):
            try:
                self._call(row, "close", env.close)
            except EntityEnvError as error:  # the others hold something to release, too
                failed = failed or error
        if failed is not None:
            raise failed

    def _play(self, actions: list[dict[ActionName, Action]]) -> list[Observation]:
        """One step of each environment; as ``_call``, without a call more for each row."""
        observations = []
        row, note = 0, self._on_row
        try:
            for row, (env, own) in enumerate(zip(self._envs, actions, strict=True)):
                if note is not None:
                    note(self._first_row + row, self._step)
                observations.append(env.act(own))
                if row == 0:
                    watch = Watch(observations, row, len(self))
        except Exception as error:
            self._blame(row, "act", error)
        watch.check(self._places("act"))
        return observations

    def _call(
        self, row: int, what: str, function: Callable[..., Any], *args: Any, **kw: Any
    ) -> Any:
        """Run the environment's own code; what it raises names the row and the step."""
        if self._on_row is not None:
            self._on_row(self._first_row + row, self._step)
        try:
            return function(*args, **kw)
        except Exception as error:
            self._blame(row, what, error)

    def _blame(self, row: int, what: str, error: Exception) -> NoReturn:
        if isinstance(error, EntityEnvError):
            raise error.located(f"{self._where(row)}, {what}") from error.__cause__
        raise EnvironmentFailedError(
            f"the environment raised {type(error).__name__} in {what}: {error}",
            received="".join(traceback.format_exception(error)).rstrip(),
        ).located(self._where(row)) from error

    def _common_reader(self) -> RowReader:
        """The reader of all rows, which must have the same spaces."""
        spaces = [
            {
                "obs_space": self._call(row, "obs_space", env.obs_space),
                "action_space": self._call(row, "action_space", env.action_space),
            }
            for row, env in enumerate(self._envs)
        ]
        check_same_spaces(spaces, self._where)
        return RowReader(**spaces[0])

    def _where(self, row: int) -> str:
        return f"environment {self._first_row + row}, step {self._step}"

    def _environment(self, row: int, create_env: Callable[[], Environment]) -> Environment:
        env = self._call(row, "create_env", create_env) if callable(create_env) else create_env
        if env is create_env or not isinstance(env, Environment):
            raise ObservationError(
                "create_env did not make an environment",
                expected="a subclass of entity_env.Environment, or what makes an instance",
                received=shorten(env),
            ).located(self._where(row))
        return env
