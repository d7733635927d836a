"""Entity indices of many rows, in a space and in a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.vec_obs import VecObs
from entity_env.wrappers.selection import Selection

__all__ = ["Bools", "EntityOrder", "Ints", "rows_of"]

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EntityOrder:
    """The indices of each row's entities in a space and in a part of it.

    In both, the player has the index after the last entity.

    Args:
        ends: The index after the last entity of each type. Shape: (R, types).
        shift: Numbers to add to an index to get the new index. Shape: (R, types + 1).
        stays: True for the types in the part, and for the player. Shape: (types + 1,).
        new_ends: ``ends`` of the part. Shape: (R, types of the part).
        back: Numbers to add to a new index to get the old one. Shape: (R, types of the part).
    """

    ends: Ints
    shift: Ints
    stays: Bools
    new_ends: Ints
    back: Ints

    @classmethod
    def of(cls, obs: VecObs, selection: Selection) -> EntityOrder:
        """Return the indices in ``obs``, which has the space ``selection.whole``."""
        names = list(selection.whole.entities)
        lengths = np.zeros((obs.num_frames, len(names)), np.int64)
        for place, name in enumerate(names):
            lengths[:, place] = obs.features[name].size1()
        places = [names.index(name) for name in selection.part.entities]
        ends, new_ends = np.cumsum(lengths, axis=1), np.cumsum(lengths[:, places], axis=1)
        back = (ends[:, places] - new_ends).astype(np.int64, copy=False)
        shift = np.zeros((obs.num_frames, len(names) + 1), np.int64)
        shift[:, places] = -back
        shift[:, -1] = lengths[:, places].sum(axis=1) - lengths.sum(axis=1)
        stays = np.isin(np.arange(len(names) + 1), [*places, len(names)])
        return cls(ends, shift, stays, new_ends, back)

    def renumbered(self, entities: Ints, rows: Ints) -> tuple[Bools, Ints]:
        """Return a mask of the entities that stay, and their new indices."""
        types = (entities[:, None] >= self.ends[rows]).sum(axis=1)
        return self.stays[types], entities + self.shift[rows, types]

    def original(self, entities: Ints, rows: Ints) -> Ints:
        """Return the old indices of entities that have new ones."""
        types = (entities[:, None] >= self.new_ends[rows]).sum(axis=1)
        old: Ints = entities + self.back[rows, types]
        return old


def rows_of(buffer: Any) -> Ints:
    """Return the row of each item of a ragged buffer. Shape: (N,), int64."""
    return np.repeat(np.arange(buffer.size0()), buffer.size1())
