"""Gymnasium's ``Box`` actions as one continuous action of the player as a whole, and back.

A number between two bounds is what it is. One without a bound on a side, or with one beyond 1e30,
is not limited there, and a warning says so: an agent draws it around 0, or around a place 1 inside
of its only bound, with a deviation that it learns, beginning at 0.5. ``RescaleAction`` of Gymnasium
is no help where there is no bound; ``TransformAction`` gives such numbers bounds. A number whose
bounds are equal is not asked for. Boxes of whole numbers get them rounded.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.errors import MaskShapeError, SpaceError, shorten
from entity_env.spaces import ActionName, ActionSpace, GlobalContinuousActionSpace

__all__ = ["Numbers"]

_ENDLESS = 1e30


@dataclass(frozen=True)
class Numbers:
    """The numbers of a ``Box``.

    Args:
        name: The action.
        space: The box.
        free: Which numbers are to be set; the others have only one value. Shape: that of the box.
    """

    name: ActionName
    space: spaces.Box
    free: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, space: spaces.Box, name: ActionName) -> Numbers:
        """Return the numbers of a box.

        Raises:
            SpaceError: There is nothing to set.
        """
        free = np.asarray(space.low < space.high)
        if not free.any():
            raise SpaceError(
                f"the action space of {name!r} is a Box with nothing to set",
                expected="low < high for at least one of its numbers",
                received=shorten(space),
            )
        made = cls(name, space, free)
        low, high = made._bounds()
        endless = int((~np.isfinite(low) | ~np.isfinite(high)).sum())
        if endless:
            warnings.warn(
                f"action {name!r}: {endless} of {len(low)} numbers have no bound on a side. They "
                "are drawn around 0, or 1 inside of the only bound, with a learned deviation that "
                "begins at 0.5, and are not clipped there. gymnasium.wrappers.TransformAction "
                "gives them bounds.",
                stacklevel=2,
            )
        return made

    def leaves(self) -> Iterator[Numbers]:
        """Return the only one."""
        yield self

    @property
    def names(self) -> list[ActionName]:
        """The name of the action."""
        return [self.name]

    @property
    def counts(self) -> list[int]:
        """The sizes of its parts in a mask of all choices: none."""
        return [0]

    def actions(self) -> Iterator[tuple[ActionName, ActionSpace]]:
        """Return the action."""
        low, high = self._bounds()
        yield self.name, GlobalContinuousActionSpace(low.tolist(), high.tolist())

    def write(self, chosen: Mapping[ActionName, Any]) -> npt.NDArray[Any]:
        """Return the value of the box."""
        values = np.array(self.space.low, np.float64)
        values[self.free] = chosen[self.name]
        if self.space.dtype is not None and self.space.dtype.kind in "iub":
            values = np.rint(values)
        return np.clip(values, self.space.low, self.space.high).astype(self.space.dtype)

    def split(self, mask: Any) -> dict[ActionName, None]:
        """Numbers have no mask.

        Raises:
            MaskShapeError: One is given.
        """
        if mask is not None and np.size(mask):
            raise MaskShapeError(
                f"the action mask of {self.name!r} is for numbers, which have none",
                expected="None",
                received=shorten(mask),
            )
        return {self.name: None}

    def _bounds(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        low = self.space.low[self.free].astype(np.float64)
        high = self.space.high[self.free].astype(np.float64)
        return np.where(low < -_ENDLESS, -np.inf, low), np.where(high > _ENDLESS, np.inf, high)
