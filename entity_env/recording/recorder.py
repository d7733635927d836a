"""``RecordEpisodes``: rows that write their decisions into a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_number, named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs, check_final
from entity_env.errors import RecordingError, SettingError, check_known, shorten
from entity_env.recording.columns import FrameFormat
from entity_env.recording.decision_log import DecisionLog
from entity_env.recording.parquet import TableFormat, import_arrow
from entity_env.recording.parts import PartWriter
from entity_env.rows.vec_env import VecEnv, check_count
from entity_env.spaces import ActionName
from entity_env.wrappers.vec_wrapper import VecWrapper

__all__ = ["RecordEpisodes"]

_FULL = 32 << 20
"""Number of bytes of frames at which a part is written, even if it has fewer frames."""
Notes = Mapping[ActionName, Any]


@named_arguments(SettingError)
class RecordEpisodes(VecWrapper):
    """A wrapper of rows that writes observations, actions and their outcomes into a folder.

    The folder gets parts, files of Parquet with a row for each decision: when enough frames or
    seconds have passed, at each ``reset``, and at ``close``. A program that is killed loses only
    the decisions since the last part. ``EpisodeDataset`` reads the folder. Rewards of rows that
    wait, such as seats of a game, belong to their last decision. Make the recorder the outermost
    wrapper, because other wrappers do not pass log-probabilities on.

    with RecordEpisodes(ListEnv(MyEnv, 16), "games.episodes") as env:
        obs = env.reset()
        for _ in range(1000):
            obs = env.act(policy(obs))

    Args:
        env: The rows.
        path: Path of the folder.
        part_frames: Largest number of frames in a part. Larger parts compress better.
        part_seconds: Number of seconds after which a part is written. A part of few frames has some
            kilobytes.
        overwrite: True to replace an existing recording.

    Raises:
        RecordingError: The path exists, without ``overwrite``; the folder has other files; or it
            cannot be written.
        SettingError: ``part_frames`` is below 1, or ``part_seconds`` is negative.
        MissingPackageError: pyarrow is not installed.
    """

    def __init__(
        self,
        env: VecEnv,
        path: str | os.PathLike[str],
        *,
        part_frames: int = 16_384,
        part_seconds: float = 10.0,
        overwrite: bool = False,
    ) -> None:
        super().__init__(env)
        self._most = check_count("part_frames", part_frames, error=SettingError)
        self._seconds = check_number("part_seconds", part_seconds, 0.0)
        self._spaces = self.obs_space(), self.action_space()
        import_arrow()
        self._writer = PartWriter(path, overwrite=overwrite)
        # True if all steps have log_probs, and logits; None before the first one.
        self._noted: tuple[bool, bool] | None = None
        self._given = False, False  # True if the current step has log_probs, and logits
        self._notes: dict[str, dict[ActionName, npt.NDArray[np.float32]]] = {}
        self._log = DecisionLog(*self._spaces)
        self._unwritten: list[Any] = []  # tables that could not be written
        self._since = time.monotonic()

    def act(
        self,
        actions: Mapping[ActionName, ActionBuffer],
        *,
        log_probs: Mapping[ActionName, Any] | None = None,
        logits: Mapping[ActionName, Any] | None = None,
    ) -> VecObs:
        """Play one step in each row and record it.

        Log-probabilities or logits must be given for all steps or for none; they are stored as
        float32. An action without actors may be left out.

        Args:
            actions: The actions, as for every ``VecEnv``.
            log_probs: For each action the log-probability of each actor's choice. Shape: (A,).
            logits: For each action the logits of each actor's choices, shape (A, C); for a
                select-entity action those of all actor-actee pairs, frame by frame and actor by
                actor, shape (P,); for a continuous one means and deviations, shape (A, 2 * K).

        Raises:
            RecordingError: A shape is wrong, and nothing is played; or the disk is full, and the
                step is played and written later if there is space again.
        """
        self._check_open()
        if self._last is not None:
            self._given = log_probs is not None, logits is not None
            _check_given(self._given, self._noted)
            self._notes = _read_notes(log_probs, logits, self._last)
        return super().act(actions)

    def __enter__(self) -> RecordEpisodes:
        """Return the recorder, to be closed at the end of a ``with`` block, even after an error."""
        return self

    def _reset(self, seed: int | None) -> VecObs:
        return self._begin(super()._reset(seed), after_reset=True)

    def _set_state(self, state: list[Any]) -> VecObs:
        return self._begin(super()._set_state(state), after_reset=False)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        obs = super()._act(chosen)
        check_final(obs)
        choices = {name: buffer.as_array().flatten() for name, buffer in chosen.items()}
        self._log.add({"choices": choices, **self._notes}, obs)
        self._noted = self._given
        is_due = time.monotonic() - self._since >= self._seconds
        if is_due or self._log.size >= self._most or self._log.num_bytes >= _FULL:
            self._write(is_end=False)
        return obs

    def _begin(self, obs: VecObs, *, after_reset: bool) -> VecObs:
        """Continue from an observation of a reset or a restored state."""
        self._write(is_end=True)
        self._log.begin(obs, after_reset=after_reset)
        return obs

    def _write(self, *, is_end: bool, is_close: bool = False) -> None:
        """Write a part, if there is a frame that can be written, or the recording has no part."""
        has_log_probs, has_logits = self._noted or (False, False)
        frames = FrameFormat(*self._spaces, has_log_probs=has_log_probs, has_logits=has_logits)
        form = TableFormat(frames)
        taken = self._log.take(is_end=is_end)
        if taken is not None:
            self._unwritten.append(form.table(*taken))
        if is_close and self._writer.is_empty and not self._unwritten:
            self._unwritten.append(form.schema.empty_table())  # keeps the spaces
        if self._unwritten:
            self._writer.write(self._unwritten, form)
        self._unwritten, self._since = [], time.monotonic()

    def _close(self) -> None:
        try:
            self._write(is_end=True, is_close=True)
        finally:
            self._writer.close()
            super()._close()


def _check_given(given: tuple[bool, bool], always: tuple[bool, bool] | None) -> None:
    """Raise RecordingError unless a step has the same parts as all steps before it."""
    if always is None or given == always:
        return
    for what, now, before in zip(("log_probs", "logits"), given, always, strict=True):
        if now != before:
            raise RecordingError(
                f"{what} are given for some steps only",
                expected=f"{what} {'in every step' if before else 'in no step'}, as in the first",
                received=f"a step {'with' if now else 'without'} {what}",
            )


def _read_notes(
    log_probs: object, logits: object, obs: VecObs
) -> dict[str, dict[ActionName, npt.NDArray[np.float32]]]:
    """Return the log-probabilities and the logits of all actions that are given, as flat arrays."""
    masks: Mapping[ActionName, Any] = obs.action_masks
    shapes = {
        "log_probs": {name: (int(mask.actors.items()),) for name, mask in masks.items()},
        "logits": {name: mask.logits_shape for name, mask in masks.items()},
    }
    notes = {}
    for what, given in (("log_probs", log_probs), ("logits", logits)):
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise RecordingError(
                f"{what} are not a mapping",
                expected="a dict from action names to arrays",
                received=shorten(given),
            )
        check_known(RecordingError, f"{what} of an unknown action {{}}", given, masks)
        notes[what] = {
            name: _flat(f"{what} of action {name!r}", given.get(name), shape)
            for name, shape in shapes[what].items()
        }
    return notes


def _flat(what: str, given: object, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    try:
        # A copy, because the caller may change its array.
        values = np.array([] if given is None else given, np.float32)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor with a gradient
        is_tensor = hasattr(given, "detach")
        raise RecordingError(
            f"{what} cannot be converted to a NumPy array of numbers",
            expected=f"an array of numbers, shape {shape}",
            received=shorten(given),
            hint="convert tensors by tensor.detach().float().cpu()" if is_tensor else None,
        ) from error
    nobody = shape[0] == 0 and values.size == 0
    if values.shape != shape and not nobody:
        raise RecordingError(
            f"{what} have the wrong shape",
            expected=shape,
            received="nothing" if given is None else values.shape,
        )
    return values.ravel()
