"""Rows whose state at the beginning of a rollout can be restored after it has failed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from entity_env import VecEnv, VecObs
from entity_env.batching.ragged import ActionBuffer
from entity_env.wrappers import VecWrapper

__all__ = ["RowHistory"]

_RATIO = 400.0
"""Ratio of the time between two saved states to the time that saving one takes."""


class RowHistory(VecWrapper):
    """Rows that keep their last saved state and all choices since then.

    Saving the state of all rows takes 2 to 3% of an update, and keeping choices nothing. After a
    failure, other rows of the same game begin with the saved state and repeat the choices. The
    state is saved again from time to time, so that few choices must be repeated.

    Args:
        env: Rows.
        make_rows: Function that makes other rows of the same game.
    """

    def __init__(self, env: VecEnv, make_rows: Callable[[], VecEnv]) -> None:
        super().__init__(env)
        self._make_rows = make_rows
        self._saved: str | None = None
        self._choices: list[Mapping[str, ActionBuffer]] = []
        self._marked = 0
        self._renewed_at = 0.0  # time from which on the state may be saved again

    def mark(self) -> None:
        """Mark the present state, which ``marked_state`` returns later.

        Nothing is kept before ``get_state`` or ``set_state`` has been called, as for rows that
        cannot save their state.
        """
        begun = time.perf_counter()
        if self._saved is not None and self._choices and begun >= self._renewed_at:
            self.get_state()
            ended = time.perf_counter()
            self._renewed_at = ended + _RATIO * (ended - begun)
        self._marked = len(self._choices)

    def marked_state(self) -> list[Any] | None:
        """Return what ``get_state`` would have returned at the mark; None without a saved state."""
        if self._saved is None:
            return None
        state: list[Any] = json.loads(self._saved)
        if not self._marked:
            return state
        with self._make_rows() as rows:
            rows.set_state(state)
            for chosen in self._choices[: self._marked]:
                rows.act(chosen)
            return rows.get_state()

    def _reset(self, seed: int | None) -> VecObs:
        self._saved = None
        return super()._reset(seed)

    def _act(self, chosen: Mapping[str, ActionBuffer]) -> VecObs:
        if self._saved is not None:
            self._choices.append(chosen)
        return super()._act(chosen)

    def _get_state(self) -> list[Any]:
        state = super()._get_state()
        self._keep(state)
        return state

    def _set_state(self, state: list[Any]) -> VecObs:
        obs = super()._set_state(state)
        self._keep(state)
        return obs

    def _keep(self, state: list[Any]) -> None:
        try:
            self._saved = json.dumps(state)
        except (TypeError, ValueError):  # a checkpoint names what cannot be saved
            self._saved = None
        self._choices, self._marked = [], 0
