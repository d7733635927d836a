"""Notices environments that write into each other's observations.

``ListEnv`` reads observations when all rows have acted. An array that rows share and fill one after
the other then shows the last row's values in all of them. Looking at every array of every row would
cost more than reading them, and would refuse tables that are shared and never change; so one row
is watched, and only for what would be wrong: that it changes while the others run. Rows that
happen to end with the same values as the watched one are noticed in a later step.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from entity_env.errors import ObservationError
from entity_env.observation import Observation

__all__ = ["Watch"]


class Watch:
    """Remembers what a row's observation shows now.

    Args:
        observations: Those of all rows; the others may still be missing.
        row: The row to watch; None watches nothing.
        rows: The number of all rows; one alone is not watched.
    """

    def __init__(self, observations: Sequence[Observation], row: int | None, rows: int) -> None:
        self._observations = observations
        self._row = row if rows > 1 else None
        self._before = {} if self._row is None else _contents(observations[self._row])

    def check(self, where: Callable[[int], str]) -> None:
        """Compare with what the observation shows now, when the others have run.

        Args:
            where: The place of the i-th observation, for errors.

        Raises:
            ObservationError: It has changed.
        """
        if self._row is None:
            return
        now = _contents(self._observations[self._row])
        if now == self._before:
            return
        part = next(
            name for name in {**self._before, **now} if now.get(name) != self._before.get(name)
        )
        sharers = [row for row in range(len(self._observations)) if self._is_shared(part, row)]
        raise ObservationError(
            f"{part} changed after the environment had returned them, while others ran",
            expected="arrays and lists of each environment's own",
            received=f"the same memory as from {where(sharers[0])}" if sharers else None,
            hint="return a copy, such as array.copy(), of what environments share and change",
        ).located(where(self._row))

    def _is_shared(self, part: str, row: int) -> bool:
        """Whether another row shows this part from the same memory."""
        if self._row is None or row == self._row:
            return False
        mine, other = (_held(self._observations[i]).get(part) for i in (self._row, row))
        if isinstance(mine, np.ndarray) and isinstance(other, np.ndarray):
            return np.may_share_memory(mine, other)
        return mine is other


def _held(observation: Any) -> dict[str, Any]:
    """The arrays and lists of an observation by name; none of an observation that is no good."""
    try:
        return dict(_parts(observation))
    except Exception:  # whatever an odd object raises; whoever reads it says what is wrong
        return {}


def _parts(observation: Any) -> Iterator[tuple[str, Any]]:
    """The arrays and lists of an observation by name."""
    for name, rows in observation.features.items():
        yield f"the features of {name!r}", rows
    for name, ids in observation.ids.items():
        yield f"the ids of {name!r}", ids
    for name, shown in observation.visible.items():
        yield f"the visibility masks of {name!r}", shown
    for name, who in observation.actions.items():
        yield f"the masks of action {name!r}", getattr(who, "mask", None)
    yield "the global features", observation.global_features


def _contents(observation: Any) -> dict[str, bytes]:
    """What arrays and lists of plain values hold now."""
    return {name: _written(value) for name, value in _held(observation).items()}


def _written(value: Any) -> bytes:
    try:
        # Version 2 of the format: equal bytes for equal values.
        return value.tobytes() if isinstance(value, np.ndarray) else marshal.dumps(value, 2)
    except Exception:  # ValueError: objects that marshal does not know
        return b""
