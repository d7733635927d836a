"""Fast reader of the actors of many frames, as entity indices.

It reads common shapes only, and leaves everything that raises an error to ``FrameReader``; see
``feature_columns.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np

from entity_env.batching.feature_columns import Ids, pick
from entity_env.batching.feature_tables import ARRAYS, Bools, Ints, UnusualError, sizes
from entity_env.batching.features import LISTS, every
from entity_env.spaces import ActionName, EntityName

__all__ = ["Given", "RowLayout", "picked"]

Given = Sequence[Mapping[ActionName, Any]]
"""The action masks of each frame."""


class RowLayout:
    """The layout of the entities in each frame.

    Args:
        lengths: For each type the number of entities in each frame. Shape of each: (B,).
        hidden: For each type with hidden entities a mask of the visible ones. Shape: (N,).
        ids: The ids of all frames.

    Attributes:
        totals: The number of entities of each frame. Shape: (B,).
        first: The number of entities in all frames before a frame. Shape: (B,).
    """

    def __init__(
        self, lengths: Mapping[EntityName, Ints], hidden: Mapping[EntityName, Bools], ids: Ids
    ) -> None:
        self._counts = lengths
        self._starts = {}
        self.totals: Ints = np.zeros(len(ids.frames), np.int64)
        for name, own in lengths.items():
            self._starts[name] = self.totals
            self.totals = self.totals + own
        self.first: Ints = self.totals.cumsum() - self.totals
        self._ids = ids
        self._shown = self._all_shown(hidden) if hidden else None

    def entities(self, ids: list[Any], types: list[Any]) -> tuple[Ints, Ints]:
        """Return the named entities: indices within frames (A,), counts (B,).

        Args:
            ids: For each frame a list of ids, or None.
            types: For each frame a list of types, or None. With neither, all entities are actors.
        """
        if set(map(type, ids)) == {NoneType}:
            indices, lengths = self._of_types(types)
        else:
            named = [
                self._named(frame, *given)
                for frame, given in enumerate(zip(ids, types, strict=True))
            ]
            indices = np.fromiter(chain.from_iterable(named), np.int64)
            lengths = sizes(named)
        shown = self._shown
        if shown is not None and not every(shown[indices + self.first.repeat(lengths)]):
            raise UnusualError
        return indices, lengths

    def players(self, masks: list[Any], nobody: object) -> tuple[Ints, Ints]:
        """Return the global actors of the frames whose mask is not ``nobody``."""
        there = np.array([mask is not nobody for mask in masks], np.bool_)
        return self.totals[there], there.astype(np.int64)

    def _of_types(self, types: list[Any]) -> tuple[Ints, Ints]:
        if not set(map(type, types)) <= LISTS | {NoneType}:
            raise UnusualError
        if types.count(types[0]) == len(types):  # the usual case
            same = self._names(types[0])
            if len(same) == 1:  # twice as fast without a table
                return _ranges(self._starts[same[0]], self._counts[same[0]])
            shape = len(same), len(types)  # also for an empty list of types
            starts, counts = (
                np.array([of[name] for name in same], np.int64).reshape(shape).T
                for of in (self._starts, self._counts)
            )
            return _ranges(starts, counts)
        keys = [None if names is None else tuple(names) for names in types]
        distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        # A line for each type, and one for an absent type.
        line = {name: number for number, name in enumerate(self._counts)}
        nothing = np.zeros_like(self.totals)
        starts = np.array([*self._starts.values(), nothing])
        counts = np.array([*self._counts.values(), nothing])
        lines = [[line[name] for name in self._names(key)] for key in distinct]
        widest = max(map(len, lines))
        padded = np.array([own + [len(line)] * (widest - len(own)) for own in lines], np.int64)
        chosen = padded[[distinct[key] for key in keys]]  # (B, K)
        frames = np.arange(len(keys))[:, None]
        return _ranges(starts[chosen, frames], counts[chosen, frames])

    def _names(self, names: Sequence[EntityName] | None) -> Sequence[EntityName]:
        if names is None:
            return list(self._counts)
        if type(names) not in LISTS or len(set(names)) != len(names):
            raise UnusualError
        return names

    def _named(self, frame: int, ids: Any, types: Any) -> Sequence[int]:
        if ids is None:
            pairs = [(self._starts[name], self._counts[name]) for name in self._names(types)]
            ranges = (range(start[frame], start[frame] + count[frame]) for start, count in pairs)
            return list(chain.from_iterable(ranges))
        if type(ids) not in ARRAYS:
            raise UnusualError
        index_of = self._ids.index_of(frame)
        indices = [index_of[entity] for entity in ids]
        if len(set(indices)) != len(indices):
            raise UnusualError
        return indices

    def _all_shown(self, hidden: Mapping[EntityName, Bools]) -> Bools:
        """Return True if each entity is shown, frame by frame. Shape: (N,)."""
        shown = np.ones(int(self.totals.sum()), np.bool_)
        for name, own in hidden.items():
            indices, lengths = _ranges(self._starts[name], self._counts[name])
            shown[indices + self.first.repeat(lengths)] = own
        return shown


def picked(given: Given, name: ActionName, nobody: object, kind: type) -> list[Any]:
    """Return the masks of an action in many frames, ``nobody`` for frames without one."""
    masks = pick(given, name, nobody)
    if set(map(type, masks)) != {kind}:
        raise UnusualError
    return masks


def _ranges(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of ranges ``start .. start + count - 1``; a row has K ranges, or one.

    Args:
        starts: Shape: (B, K) or (B,).
        counts: Shape of ``starts``.

    Returns:
        The numbers, shape (N,), and their number in each row, shape (B,).
    """
    each = counts.ravel()
    ends = each.cumsum()
    shifts = starts.ravel() - (ends - each)
    numbers = np.arange(ends[-1] if len(ends) else 0) + shifts.repeat(each)
    return numbers, counts if counts.ndim == 1 else counts.sum(axis=1)
