"""Detection of environments that write into each other's observations.

``ListEnv`` reads observations after all rows have acted. An array that rows share and fill one
after the other would have the last row's values in all of them. Comparing the arrays of all rows
would take longer than reading them, and would not allow shared constant tables. One row is
therefore checked for changes while the others run. A row that happens to have the same values as
the checked row is detected in a later step.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from entity_env.errors import ObservationError
from entity_env.observation import (
    CategoricalActionMask,
    ContinuousActionMask,
    Observation,
    SelectEntityActionMask,
)

__all__ = ["Watch"]


class Watch:
    """The current contents of a row's observation.

    Args:
        observations: The observations of all rows; those of other rows may still be missing.
        row: The row to check, or None.
        rows: The number of rows; a single row is not checked.
    """

    def __init__(self, observations: Sequence[Observation], row: int | None, rows: int) -> None:
        self._observations = observations
        self._row = row if rows > 1 else None
        self._before = {} if self._row is None else _written(observations[self._row])

    def check(self, where: Callable[[int], str]) -> None:
        """Compare the contents with those after the other rows have run.

        Args:
            where: Function that returns the place of observation i, for errors.

        Raises:
            ObservationError: The observation has changed.
        """
        if self._row is None:
            return
        written = self._before, _written(self._observations[self._row])
        if written[0] == written[1]:
            return
        old, new = (_by_name(marshal.loads(w)) if isinstance(w, bytes) else w for w in written)
        part = next((name for name in {**old, **new} if new.get(name) != old.get(name)), None)
        if part is None:  # equal values in different forms
            return
        sharers = [row for row in range(len(self._observations)) if self._is_shared(part, row)]
        raise ObservationError(
            f"{part} changed after the environment had returned them, while others ran",
            expected="separate arrays and lists for each environment",
            received=f"the same memory as from {where(sharers[0])}" if sharers else None,
            hint="return copies, such as array.copy(), of arrays that environments change",
        ).located(where(self._row))

    def _is_shared(self, part: str, row: int) -> bool:
        """Return True if another row shows this part from the same memory."""
        if self._row is None or row == self._row:
            return False
        shown = [self._observations[i] for i in (self._row, row)]
        if shown[0] is shown[1]:
            return True
        mine, other = (_by_name(_contents(observation)).get(part) for observation in shown)
        if isinstance(mine, np.ndarray) and isinstance(other, np.ndarray):
            return np.may_share_memory(mine, other)
        return mine is other and not isinstance(mine, bool | int | float)


def _contents(observation: Any) -> list[Any]:
    """Return the arrays of an observation: a dict for each of ``_KINDS`` and actions.

    The last element has the parts in ``_ONCE``.
    """
    try:
        return [
            observation.features,
            observation.ids,
            observation.visible,
            {name: _PARTS.get(type(who), _mask)(who) for name, who in observation.actions.items()},
            _once(observation),
        ]
    except Exception:  # an object may raise anything; the reader raises the error
        return []


def _mask(who: Any) -> tuple[Any]:
    return (getattr(who, "mask", None),)


def _by_name(contents: list[Any]) -> dict[str, Any]:
    try:
        *dicts, actions, once = contents
        named = dict(zip(_ONCE, once, strict=True))
        for kind, own in zip(_KINDS, dicts, strict=True):
            named |= {kind.format(name): value for name, value in (own or {}).items()}
        for action, parts in actions.items():
            named |= {
                f"{kind} of action {action!r}": v for kind, v in zip(_ACTION, parts, strict=False)
            }
    except Exception:
        return {}
    return named


def _written(observation: Any) -> bytes | dict[str, bytes]:
    """Return the present values of arrays and lists as bytes."""
    contents = _contents(observation)
    try:
        return marshal.dumps(contents, _VERSION)
    except Exception:  # ValueError: an array that is a view, an object that marshal does not know
        return {name: _written_alone(value) for name, value in _by_name(contents).items()}


def _written_alone(value: Any) -> bytes:
    try:
        return value.tobytes() if isinstance(value, np.ndarray) else marshal.dumps(value, _VERSION)
    except Exception:
        return b""


_KINDS = ("the features of {!r}", "the ids of {!r}", "the visibility masks of {!r}")
_ACTION = ("the masks", "the actor ids", "the actor types", "the actee ids", "the actee types")
_PARTS: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {
    CategoricalActionMask: attrgetter("mask", "actor_ids", "actor_types"),
    ContinuousActionMask: lambda mask: (None, mask.actor_ids, mask.actor_types),
    SelectEntityActionMask: attrgetter(
        "mask", "actor_ids", "actor_types", "actee_ids", "actee_types"
    ),
}
"""Readers of the parts of a mask that ``_ACTION`` names; other kinds have the first only."""
_ONCE = ("the global features", "the metrics", "the reward", "done", "truncated")
_once = attrgetter("global_features", "metrics", "reward", "done", "truncated")
_VERSION = 2
"""The version of marshal's format without references, in which equal values have equal bytes."""
