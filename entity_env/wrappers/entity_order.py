"""Entity indices of many rows, with and without the entity types that are left out."""

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
    """The numbers of each row's entities in a space and in a part of it.

    The index after the last entity is that of the player, before and after.

    Args:
        ends: The index after the last entity of each type. Shape: (R, types).
        shift: What leads from an index to the new one. Shape: (R, types + 1).
        stays: Which types are in the part; the player is. Shape: (types + 1,).
        new_ends: As ``ends``, of the part. Shape: (R, types of the part).
        back: As ``shift``, from the new index to the old one. Shape: (R, types of the part).
    """

    ends: Ints
    shift: Ints
    stays: Bools
    new_ends: Ints
    back: Ints

    @classmethod
    def of(cls, obs: VecObs, selection: Selection) -> EntityOrder:
        """Return the numbers in ``obs``, which shows ``selection.whole``."""
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
