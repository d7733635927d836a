"""``RecordEpisodes``: rows that write their steps into a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from entity_env.arguments import named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs, check_final
from entity_env.errors import SettingError
from entity_env.recording.chunk_file import AFTER_RESET, CONTINUES, HAS_LOG_PROBS, HAS_LOGITS
from entity_env.recording.notes import Notes, check_noted, read_notes
from entity_env.recording.steps import Columns, StepFormat
from entity_env.recording.writer import ChunkWriter
from entity_env.rows.vec_env import VecEnv, check_count
from entity_env.spaces import ActionName
from entity_env.wrappers.vec_wrapper import VecWrapper

__all__ = ["RecordEpisodes"]

_FULL = 64 << 20
"""Number of bytes at which a chunk is written, even if it has fewer steps."""


@named_arguments(SettingError)
class RecordEpisodes(VecWrapper):
    """A wrapper of rows that writes observations, actions and their outcomes into a file.

    A chunk is written every ``chunk_steps`` steps, at each ``reset``, and at ``close``; a program
    that is killed loses only the steps since then. ``Recording`` reads the file. Rewards of rows
    that wait, such as seats of a game, belong to their last decision. Make the recorder the
    outermost wrapper, because other wrappers do not pass log-probabilities on.

    with RecordEpisodes(ListEnv(MyEnv, 16), "games.episodes") as env:
        obs = env.reset()
        for _ in range(1000):
            obs = env.act(policy(obs))

    Args:
        env: The rows.
        path: Path of the file.
        chunk_steps: Number of steps in a chunk. Larger chunks compress better, but more steps are
            lost if the program is killed.
        append: True to continue a recording with the same spaces, or to begin a new one if the
            file does not exist. A chunk that was cut off at its end is removed.
        overwrite: True to replace an existing file.

    Raises:
        RecordingError: The file exists, without ``append`` or ``overwrite``; the file to append to
            is not a recording, has other spaces, or is damaged before its end; or it cannot be
            written.
        SettingError: ``chunk_steps`` is below 1.
    """

    def __init__(
        self,
        env: VecEnv,
        path: str | os.PathLike[str],
        *,
        chunk_steps: int = 256,
        append: bool = False,
        overwrite: bool = False,
    ) -> None:
        super().__init__(env)
        self._chunk_steps = check_count(
            "number of steps in a chunk", chunk_steps, error=SettingError
        )
        spaces = self.obs_space(), self.action_space()
        self._writer = ChunkWriter(path, *spaces, append=append, overwrite=overwrite)
        self._form = StepFormat(*spaces)
        self._noted = self._writer.noted
        self._given = False, False  # True if the current step has log_probs, and logits
        self._notes: Notes = []  # of the current step
        self._flag = 0  # how the unwritten steps begin
        self._first = b""  # the observation that they begin with
        self._steps: list[tuple[Columns, bytes]] = []  # decisions, and the observations after them
        self._size = 0  # of all these observations in bytes

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
            check_noted(self._given, self._noted)
            self._notes = read_notes(log_probs, logits, self._last)
        return super().act(actions)

    def __enter__(self) -> RecordEpisodes:
        """Return the recorder, to be closed at the end of a ``with`` block, even after an error."""
        return self

    def flush(self) -> None:
        """Write the steps since the last chunk as a chunk."""
        self._check_open()
        self._write()

    def _reset(self, seed: int | None) -> VecObs:
        return self._begin(super()._reset(seed), AFTER_RESET)

    def _set_state(self, state: list[Any]) -> VecObs:
        return self._begin(super()._set_state(state), 0)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        obs = super()._act(chosen)
        check_final(obs)
        choices = [buffer.as_array().ravel() for buffer in chosen.values()]
        self._steps.append(([*choices, *self._notes], self._form.pack(obs)))
        self._noted = self._given
        self._size += len(self._steps[-1][1])
        if len(self._steps) >= self._chunk_steps or self._size >= _FULL:
            self._write()
        return obs

    def _begin(self, obs: VecObs, flag: int) -> VecObs:
        """Continue from an observation of a reset or a restored state."""
        self._write()
        self._first, self._flag = self._form.pack(obs), flag
        return obs

    def _write(self) -> None:
        if not self._steps:
            return
        messages = [self._first, *(message for _, message in self._steps)]
        arrays = self._form.pack_steps(messages, [decision for decision, _ in self._steps])
        has_log_probs, has_logits = self._noted or (False, False)
        flags = self._flag | HAS_LOG_PROBS * has_log_probs | HAS_LOGITS * has_logits
        self._writer.write(arrays, flags, len(self._steps), len(self))
        # Steps that could not be written are kept for the next call.
        self._first, self._flag, self._steps, self._size = messages[-1], CONTINUES, [], 0

    def _close(self) -> None:
        try:
            self._write()
        finally:
            self._writer.close()
            super()._close()
