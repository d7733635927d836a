"""The rows of an ``AsyncEnv`` that wait for actions, and their observations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.vec_obs import VecObs
from entity_env.errors import ActionError, shorten

__all__ = ["AskedRows", "Ready"]


@dataclass(frozen=True)
class Ready:
    """The rows that became ready first, and their observations.

    Args:
        rows: The number of each row, in the order in which they became ready. Shape: (M,), int64.
        obs: Their observations, in the same order: M rows.
        told: For games of several players, all rows of the games that are ready, including those
            that wait. ``reward`` and ``done`` of ``obs`` are for these rows, and ``obs.rows`` are
            places in ``told``. Shape: (T,), int64.
    """

    rows: npt.NDArray[np.int64]
    obs: VecObs
    told: npt.NDArray[np.int64] | None = None


class AskedRows:
    """The batch, and the place in it, of each row that waits for actions.

    Args:
        num_envs: The number of rows R.
    """

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._places: dict[int, tuple[Ready, int]] = {}

    def __len__(self) -> int:
        """Return the number of rows that wait for actions."""
        return len(self._places)

    def add(self, ready: Ready) -> None:
        """Add the rows of ``ready``, which wait for actions."""
        self._places.update((row, (ready, i)) for i, row in enumerate(ready.rows.tolist()))

    def remove(self, rows: npt.NDArray[np.int64]) -> None:
        """Remove rows that have their actions."""
        for row in rows.tolist():
            del self._places[row]

    def clear(self) -> None:
        """Remove all rows."""
        self._places.clear()

    def games(self, seats: int) -> set[int]:
        """Return the games of ``seats`` rows each that have rows waiting for actions."""
        return {row // seats for row in self._places}

    def text(self) -> str:
        """Return the numbers of the waiting rows, for a message."""
        return shorten(sorted(self._places)) if self._places else "none"

    def numbers(self, rows: Any) -> npt.NDArray[np.int64]:
        """Return ``rows`` as an array of distinct rows that wait for actions. Shape: (M,), int64.

        Raises:
            ActionError: ``rows`` has other elements.
        """
        try:
            numbers = np.asarray(rows)
        except ValueError:  # lists of different lengths
            numbers = np.array(None)
        if numbers.size == 0:
            return np.zeros(0, np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise ActionError(
                "the rows are not numbers of rows",
                expected=f"whole numbers from 0 to {self._num_envs - 1}, such as Ready.rows",
                received=shorten(rows),
            )
        seen: set[int] = set()
        for row in numbers.tolist():
            if row in seen or row not in self._places:
                known = 0 <= row < self._num_envs
                problem = "is given twice" if row in seen else "does not wait for actions"
                raise ActionError(
                    f"row {row} {problem if known else 'does not exist'}",
                    expected=f"rows that recv has returned, each once; waiting: {self.text()}",
                    received=shorten(numbers.tolist()),
                )
            seen.add(row)
        return numbers.astype(np.int64)

    def obs(self, rows: npt.NDArray[np.int64]) -> VecObs:
        """Return the observations of at least one row, with action masks in the order of the rows.

        Raises:
            ActionError: They were returned by different calls of ``recv``.
        """
        ready, _ = self._places[int(rows[0])]
        strangers = [row for row in rows.tolist() if self._places[row][0] is not ready]
        if strangers:
            raise ActionError(
                f"rows {rows[0]} and {strangers[0]} come from different calls of recv",
                expected="all or some of the rows of one Ready",
                received=shorten(rows.tolist()),
                hint="call send once for each Ready",
            )
        if np.array_equal(rows, ready.rows):
            return ready.obs
        places = np.array([self._places[row][1] for row in rows.tolist()], np.int64)
        masks = ready.obs.action_masks
        return replace(
            ready.obs, action_masks={name: mask.select(places) for name, mask in masks.items()}
        )
