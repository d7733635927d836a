"""``VecValidate``, which checks the observations of a ``VecEnv`` for its author."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.frame import RESERVED_METRICS
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.kind import VecMask
from entity_env.batching.ragged import ActionBuffer, RaggedBufferBool
from entity_env.batching.unbatch import observations_of
from entity_env.batching.vec_obs import VecObs, batch_frames
from entity_env.errors import EntityEnvError, ObservationError, SettingError, shorten
from entity_env.observation import Observation
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName
from entity_env.wrappers.vec_wrapper import VecWrapper

__all__ = ["VecValidate"]


@named_arguments(SettingError)
class VecValidate(VecWrapper):
    """A wrapper that checks the observations of rows: first their form, then their values.

    It is for authors of a ``VecEnv``; the rows of this package check what environments return.
    Every frame is read like the observation of an environment. Errors name the row and the step.

    Args:
        env: The rows.
    """

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self._reader = reader = FrameReader(env.obs_space(), env.action_space())
        known = len(reader.obs_space.global_features)
        self._empty = reader.read(Observation(features={}, global_features=[0.0] * known))
        self._steps = 0

    def _reset(self, seed: int | None) -> VecObs:
        self._steps = 0
        return self._checked(super()._reset(seed), "reset")

    def _set_state(self, state: list[Any]) -> VecObs:
        return self._checked(super()._set_state(state), "set_state")

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._steps += 1
        return self._checked(super()._act(chosen), "act")

    def _checked(self, obs: VecObs, what: str) -> VecObs:
        try:
            _expect("class of the observation", type(obs), VecObs)
            _check_results(obs, len(self), is_first=what != "act")
            self._check_frames("", obs, obs.rows)
            cut_off = np.flatnonzero(obs.truncated)
            _expect("final", type(obs.final), VecObs if len(cut_off) else type(None))
            if obs.final is not None:
                self._check_frames("final ", obs.final, cut_off)
        except EntityEnvError as error:
            error.where = ", ".join(filter(None, [error.where, f"step {self._steps}", what]))
            raise
        return obs

    def _check_frames(self, of: str, obs: VecObs, rows: npt.NDArray[np.int64]) -> None:
        spaces = self._reader.obs_space, self._reader.action_space
        empty = batch_frames([self._empty] * len(rows), *spaces)
        hiding = [name for name in empty.features if name in (obs.visible or {})]
        _check_form(f"{of}features", obs.features, empty.features)
        _check_form(f"{of}global_features", obs.global_features, empty.global_features)
        _check_form(f"{of}visible", obs.visible, dict.fromkeys(hiding, _no_flags(len(rows))))
        _check_form(f"{of}action_masks", obs.action_masks, empty.action_masks)
        try:
            for mask in obs.action_masks.values():
                for named in (mask.actors, getattr(mask, "actees", mask.actors)):
                    if (named.as_array() < 0).any():
                        raise IndexError("a negative index")
            observations = observations_of(obs, *spaces)
        except (IndexError, ValueError) as error:
            raise ObservationError(
                f"the {of}action_masks do not fit their frames",
                expected="indices of entities, and a row of the mask for each actor, or for each "
                "pair of an actor and an actee",
                received=str(error),
            ) from error
        for i, observation in enumerate(observations):
            where = f"{of}environment {rows[i]}"
            frame = self._reader.read(observation, where)
            for name, mask in obs.action_masks.items():
                who = frame.actions.get(name)
                actors = mask.actors[i].as_array().ravel().tolist()
                can_act = [] if who is None else who.actors.tolist()
                _expect(f"actors of action {name!r}", actors, can_act, where)


def _check_form(part: str, given: Any, empty: Any) -> None:
    """Compare names, classes, dtypes and sizes with those of as many frames without entities."""
    if isinstance(empty, VecMask) and type(given) is type(empty):
        for name in (field.name for field in fields(empty)):
            own, other = getattr(given, name), getattr(empty, name)
            if other is None and own is not None:  # a mask of pairs
                other = _no_flags(empty.actors.size0())
            if isinstance(own, np.ndarray) and isinstance(other, np.ndarray):  # bounds
                own, other = own.tolist(), other.tolist()
            _check_form(f"{part}.{name}", own, other)
    elif isinstance(empty, Mapping) and isinstance(given, Mapping):
        _expect(f"names of {part}", list(given), list(empty))
        for name, own in given.items():
            _check_form(f"{part}[{name!r}]", own, empty[name])
    else:
        _expect(part, _form(given), _form(empty))


def _no_flags(frames: int) -> RaggedBufferBool:
    return RaggedBufferBool.from_flattened(np.zeros((0, 1), np.bool_), np.zeros(frames, np.int64))


def _form(value: Any) -> str:
    """Return the class, dtype and sizes of an array or a ragged buffer, or another value."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}, shape {value.shape}"
    if hasattr(value, "size2"):
        return f"{type(value).__name__}, shape ({value.size0()}, any number, {value.size2()})"
    return shorten(value)


def _check_results(obs: VecObs, count: int, is_first: bool) -> None:
    """Check the rows, rewards, ends and metrics of ``count`` rows."""
    for name, dtype in (("reward", "float32"), ("done", "bool"), ("truncated", "bool")):
        _expect(name, _form(getattr(obs, name)), f"{dtype}, shape ({count},)")
    _expect("rows", _form(obs.rows), f"int64, shape ({np.size(obs.rows)},)")
    _expect("rows", obs.rows.tolist(), sorted({*range(count)} & {*obs.rows.tolist()}))
    _expect_each("reward", obs.reward, np.isfinite(obs.reward), "a finite number")
    _expect_each("done", obs.done, obs.done | ~obs.truncated, "True, as truncated is True")
    if is_first:
        for part, values in (("reward", obs.reward), ("done", obs.done)):
            _expect_each(part, values, values == 0, f"{values.dtype.type(0)} before the first step")
    _check_form("metrics", obs.metrics, dict.fromkeys(obs.metrics or {}, np.zeros(count)))
    _expect("metrics", bool(obs.metrics), bool(obs.done.any()))
    if obs.metrics:
        _expect("metrics", [n for n in RESERVED_METRICS if n in obs.metrics], [*RESERVED_METRICS])
    for name, column in obs.metrics.items():
        is_given = np.isfinite(column) | (np.isnan(column) & (name not in RESERVED_METRICS))
        valid = np.where(obs.done, is_given, np.isnan(column))
        expected = "a finite number in rows whose episode ended, NaN in all other rows"
        _expect_each(f"metric {name!r}", column, valid, expected)


def _expect(what: str, received: Any, expected: Any, where: str | None = None) -> None:
    if received != expected:
        texts = [own if isinstance(own, str) else shorten(own) for own in (expected, received)]
        raise ObservationError(f"wrong {what}", expected=texts[0], received=texts[1], where=where)


def _expect_each(what: str, values: npt.NDArray[Any], valid: Any, expected: str) -> None:
    """Raise an error that names the first row whose value is not valid."""
    if not valid.all():
        row = int(np.argmin(valid))
        raise ObservationError(
            f"wrong {what}", expected=expected, received=values[row], where=f"environment {row}"
        )
