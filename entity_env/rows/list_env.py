"""``ListEnv``, which plays environments one after the other in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.row_reader import ReadRows, RowReader, ended_rows
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, begin_episode
from entity_env.errors import DAMAGES, EntityEnvError, ObservationError, SettingError
from entity_env.garbage import uncollected
from entity_env.metrics import EpisodeTrackers, metric_columns
from entity_env.observation import Observation
from entity_env.own_methods import returns_state, warn_of_return
from entity_env.rows.row_environments import RowEnvironments, RowsOfEnvironments
from entity_env.rows.vec_env import LIVE, check_count, check_saved_rows, damaged_state
from entity_env.spaces import ActionName

__all__ = ["ListEnv"]


@named_arguments(SettingError)
class ListEnv(RowsOfEnvironments):
    """Rows of environments that are stepped in a loop.

    Observations are read after all rows have acted. An environment may reuse its arrays and lists
    in its next ``act`` or ``reset``, but an ObservationError is raised if environments share them.
    Garbage is collected between steps only.

    Args:
        create_env: Function that makes one environment; called once for each row.
        num_envs: The number of rows R.
        seed: Seed of all rows; row i uses the i-th spawned random stream.
        first_row: Number of the first row in errors and seeds, if the rows are a part of a larger
            set.
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
        LIVE.add(self)
        self._create_env = create_env
        self._rows: ReadRows = None  # type: ignore[assignment]  # the frames of the next actions
        self._envs = RowEnvironments(first_row, on_row)
        self._episodes = EpisodeTrackers(num_envs)
        try:
            self._reader = RowReader(**self._envs.make(create_env, num_envs))
            self._envs.seed(seed)
        except BaseException:
            with contextlib.suppress(EntityEnvError):  # report the first error
                self._close()
            raise

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._episodes)

    def alike(self, num_envs: int) -> ListEnv:
        """Make other rows of the same environments, for instance for a search."""
        return ListEnv(self._create_env, num_envs)

    def resample(self, games: npt.NDArray[np.bool_]) -> VecObs:
        """Draw anew what some rows (R,) hide from their players; return the observation."""
        for row in np.flatnonzero(games).tolist():
            self._envs.call(row, "resample", self._envs.innermost(row).resample)
        return self.set_state(self.get_state())

    def has_state(self) -> bool:
        """Return True if every environment saves and restores its state."""
        if not all(env.has_state() for env in self._envs):
            return False
        # All environments have the same class; before reset they may have no state.
        return self._rows is None or returns_state(next(iter(self._envs)))

    @uncollected
    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            self._envs.seed(seed)
        self._envs.step = 0
        first: list[Observation] = []
        self._envs.reset(first, range(len(self)))
        obs = self._begin(first, "reset")
        for row, metrics in enumerate(self._rows.outcome.metrics):
            self._episodes.begin(row, metrics)
        return obs

    @uncollected
    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._envs.step += 1
        observations = self._envs.act(self._rows.typed_actions(chosen, self.action_space()))
        over, cut_off = ended_rows(observations)
        if over or cut_off:
            return self._restart(observations, over, cut_off)
        self._rows = self._reader.read(observations, self._envs.places("act"))
        self._episodes.add(self._rows.outcome.rewards, self._rows.outcome.metrics)
        return self._rows.obs

    def _restart(
        self, observations: list[Observation], over: list[int], cut_off: list[int]
    ) -> VecObs:
        """Start new episodes in the rows whose episodes ended or were cut off by a limit."""
        # The last observation is read before its environment starts the next episode.
        places = self._envs.places
        ended, final = dict[int, tuple[float, Mapping[str, float]]](), None
        if over:
            own = [observations[row] for row in over]
            outcome = self._reader.outcome(own, places("act", over))
            ended.update(zip(over, outcome.results(), strict=True))
        if cut_off:
            own = [observations[row] for row in cut_off]
            last = self._reader.read(own, places("act", cut_off))
            ended.update(zip(cut_off, last.outcome.results(), strict=True))
            final = last.obs
        self._envs.reset(observations, sorted(ended))
        now = self._reader.read(observations, places("act", new=ended))
        self._check_unfinished(now, "reset")
        rewards, metrics = now.outcome.rewards.copy(), list(now.outcome.metrics)
        for row, (reward, last_metrics) in ended.items():
            rewards[row], metrics[row] = reward, last_metrics
        self._episodes.add(rewards, metrics)
        summaries: list[dict[str, float] | None] = [None] * len(metrics)
        for row in ended:
            summaries[row] = self._episodes[row].summary()
            self._episodes.begin(row, now.outcome.metrics[row])
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

    def _begin(self, observations: list[Observation], what: str) -> VecObs:
        """Read the observations that ``reset`` or ``set_state`` returned in all rows."""
        self._rows = self._reader.read(observations, self._envs.places(what))
        self._check_unfinished(self._rows, what)
        return replace(self._rows.obs, reward=np.zeros(len(observations), np.float32))

    def _check_unfinished(self, rows: ReadRows, what: str) -> None:
        for row in np.flatnonzero(rows.obs.done).tolist():
            raise ObservationError(
                f"{what} returned an observation that is done",
                expected="done=False: a new episode has at least one step",
            ).located(self._envs.where(row))

    def _get_state(self) -> list[Any]:
        return [
            {
                "env": self._envs.call(row, "get_state", env.get_state),
                "rng": env.rng.bit_generator.state,
                "episode": self._episodes[row].get_state(),
                "step": self._envs.step,
            }
            for row, env in enumerate(self._envs)
        ]

    def _set_state(self, state: list[Any]) -> VecObs:
        check_saved_rows(state, len(self))
        observations: list[Observation] = []
        for row, (saved, env) in enumerate(zip(state, self._envs, strict=True)):
            try:
                env.rng.bit_generator.state = saved["rng"]
                self._episodes.set_state(row, saved["episode"])
                self._envs.step = int(saved["step"])
                own = saved["env"]
            except DAMAGES as error:
                raise damaged_state(saved, error).located(self._envs.where(row)) from error
            shown = self._envs.call(row, "set_state", env.set_state, own)
            if not isinstance(shown, Observation):
                warn_of_return(env, "set_state", shown)
                shown = self._envs.call(row, "reset", begin_episode, env.reset)
                self._episodes.begin(row, {})
            observations.append(shown)
        return self._begin(observations, "set_state")

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return [
            self._envs.call(row, "render", env.render, **kwargs)
            for row, env in enumerate(self._envs)
        ]
