"""``VecValidate``, which checks the observations of a ``VecEnv`` for its author."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env.arguments import named_arguments
from entity_env.batching.frame import RESERVED_METRICS
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import (
    EntityEnvError,
    MetricError,
    ObservationError,
    RewardError,
    SettingError,
    shorten,
)
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName
from entity_env.wrappers.vec_frame_checks import check_array, check_frames
from entity_env.wrappers.vec_wrapper import VecWrapper

__all__ = ["VecValidate"]


@named_arguments(SettingError)
class VecValidate(VecWrapper):
    """A wrapper that checks names, types, shapes, dtypes and values of the observations of rows.

    For instance, features must be finite, discrete features within their range, and actors must
    exist, be visible and have a choice. Errors name the environment and the step. Every ``VecEnv``
    checks actions.

    Args:
        env: The rows.
    """

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self._reader = FrameReader(env.obs_space(), env.action_space())
        self._step = 0

    def _reset(self, seed: int | None) -> VecObs:
        self._step = 0
        return self._begun(super()._reset(seed), "reset")

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._step += 1
        return self._checked(super()._act(chosen), "act")

    def _set_state(self, state: list[Any]) -> VecObs:
        return self._begun(super()._set_state(state), "set_state")

    def _begun(self, obs: VecObs, what: str) -> VecObs:
        self._checked(obs, what)
        for part, values in (("reward", obs.reward), ("done", obs.done)):
            if values.any():
                raise ObservationError(
                    f"{part} is not {values.dtype.type(0)} at the start",
                    expected="no rewards and no ends before the first step",
                    received=values[np.argmax(values != 0)],
                    where=f"environment {np.argmax(values != 0)}, {what}",
                )
        return obs

    def _checked(self, obs: VecObs, what: str) -> VecObs:
        try:
            self._check_obs(obs)
        except EntityEnvError as error:
            error.where = ", ".join(filter(None, [error.where, f"step {self._step}", what]))
            raise
        return obs

    def _check_obs(self, obs: VecObs) -> None:
        rows = len(self)
        if not isinstance(obs, VecObs):
            raise ObservationError("rows did not return a VecObs", received=shorten(obs))
        _check_rows(obs, rows)
        check_frames(obs, self._reader, obs.rows)
        _check_ends(obs, rows)
        _check_metrics(obs, rows)
        cut_off = np.flatnonzero(obs.truncated)
        if (obs.final is not None) != (len(cut_off) > 0):
            raise ObservationError(
                "final does not match truncated",
                expected="the last observations of the truncated rows, None without such rows",
                received=f"{len(cut_off)} truncated rows and final={shorten(obs.final, 60)}",
            )
        if obs.final is not None:
            try:
                check_frames(obs.final, self._reader, cut_off)
            except EntityEnvError as error:
                error.where = ", ".join(filter(None, ["final", error.where]))
                raise


def _check_rows(obs: VecObs, rows: int) -> None:
    check_array("rows", obs.rows, (len(obs.rows),), np.int64)
    around = np.concatenate([[-1], obs.rows, [rows]])
    if (np.diff(around) < 1).any():
        raise ObservationError(
            "rows are not distinct numbers of rows in ascending order",
            expected=f"numbers from 0 to {rows - 1}",
            received=shorten(obs.rows.tolist()),
        )


def _check_ends(obs: VecObs, rows: int) -> None:
    check_array("reward", obs.reward, (rows,), np.float32)
    finite = np.isfinite(obs.reward)
    if not finite.all():
        raise RewardError(
            "the reward is not finite",
            received=obs.reward[np.argmin(finite)],
            where=f"environment {np.argmin(finite)}",
        )
    check_array("done", obs.done, (rows,), np.bool_)
    check_array("truncated", obs.truncated, (rows,), np.bool_)
    wrong = obs.truncated & ~obs.done
    if wrong.any():
        raise ObservationError(
            "a row is truncated but not done",
            expected="done=True if truncated=True",
            where=f"environment {np.argmax(wrong)}",
        )


def _check_metrics(obs: VecObs, rows: int) -> None:
    if not isinstance(obs.metrics, Mapping) or (obs.metrics and not obs.done.any()):
        raise MetricError(
            "there are metrics, although no episode ended",
            expected="an empty dict",
            received=shorten(obs.metrics),
        )
    for name in RESERVED_METRICS:
        if obs.done.any() and name not in obs.metrics:
            raise MetricError(f"metric {name!r} is missing", received=shorten(list(obs.metrics)))
    for name, column in obs.metrics.items():
        check_array(f"metric {name!r}", column, (rows,), np.float64)
        given = ~np.isnan(column)
        wrong = (given & ~obs.done) | np.isinf(column)
        if name in RESERVED_METRICS:
            wrong |= obs.done & ~given
        if wrong.any():
            raise MetricError(
                f"metric {name!r} is {column[np.argmax(wrong)]}",
                expected="a finite number in rows whose episode ended, NaN in all other rows",
                where=f"environment {np.argmax(wrong)}",
            )
