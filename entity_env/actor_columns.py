"""Reads the masks of one action in many frames at once: actors by index, choices as booleans.

The rules are those of ``columns.py``: common shapes only, and whatever is raised here leaves the
answer to ``FrameReader``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np

from entity_env.columns import Ids, pick
from entity_env.observation import (
    CategoricalActionMask,
    GlobalCategoricalActionMask,
    SelectEntityActionMask,
)
from entity_env.spaces import ActionName, EntityName
from entity_env.tables import ARRAYS, Bools, Ints, UnusualError, boolean_table, booleans, sizes

__all__ = ["CategoricalColumn", "Layout", "SelectColumn"]

Given = Sequence[Mapping[ActionName, Any]]
"""What each frame gives as its action masks."""

_NO_ACTOR = CategoricalActionMask(actor_types=())
_NO_SELECTOR = SelectEntityActionMask(actor_types=(), actee_types=())
_NO_PLAYER = GlobalCategoricalActionMask()
_LISTS = {list, tuple}


class Layout:
    """Where the entities of each frame stand.

    Args:
        lengths: For each type the number of entities in each frame. Shape of each: (B,).
        hidden: For each type that hides entities which of them are shown. Shape: (N,).
        ids: The ids of all frames.

    Attributes:
        totals: The number of entities of each frame. Shape: (B,).
        first: How many entities all frames before a frame have. Shape: (B,).
    """

    def __init__(
        self, lengths: Mapping[EntityName, Ints], hidden: Mapping[EntityName, Bools], ids: Ids
    ) -> None:
        self._column = {name: column for column, name in enumerate(lengths)}
        frames = len(ids.frames)
        # One column more, for a type of which there is nothing.
        self._counts = np.zeros((frames, len(lengths) + 1), np.int64)
        for column, own in enumerate(lengths.values()):
            self._counts[:, column] = own
        ends = np.cumsum(self._counts, axis=1)
        self._starts = ends - self._counts
        self.totals: Ints = ends[:, -1]
        self.first: Ints = np.cumsum(self.totals) - self.totals
        self._ids = ids
        self._shown = self._all_shown(hidden) if hidden else None

    def entities(self, ids: list[Any], types: list[Any]) -> tuple[Ints, Ints]:
        """The entities that the frames name: indices within their frames (A,), how many (B,).

        Args:
            ids: For each frame a list of ids, or None.
            types: For each frame a list of types, or None. With neither all entities are meant.
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
        if shown is not None and not shown[indices + np.repeat(self.first, lengths)].all():
            raise UnusualError
        return indices, lengths

    def _of_types(self, types: list[Any]) -> tuple[Ints, Ints]:
        if not set(map(type, types)) <= _LISTS | {NoneType}:
            raise UnusualError
        if types.count(types[0]) == len(types):  # the usual case
            same: Any = self._columns(types[0])
            if len(same) == 1:
                same = slice(same[0], same[0] + 1)  # a view, in a tenth of the time
            return _ranges(self._starts[:, same], self._counts[:, same])
        keys = [None if names is None else tuple(names) for names in types]
        distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        columns = [self._columns(key) for key in distinct]
        widest = max(map(len, columns))
        nothing = len(self._column)
        padded = np.array([own + [nothing] * (widest - len(own)) for own in columns], np.int64)
        chosen = padded[[distinct[key] for key in keys]]  # (B, K)
        return _ranges(
            np.take_along_axis(self._starts, chosen, axis=1),
            np.take_along_axis(self._counts, chosen, axis=1),
        )

    def _columns(self, names: Sequence[EntityName] | None) -> list[int]:
        if names is None:
            return list(self._column.values())
        if len(set(names)) != len(names):
            raise UnusualError
        return [self._column[name] for name in names]

    def _named(self, frame: int, ids: Any, types: Any) -> Sequence[int]:
        if ids is None:
            columns = self._columns(types)
            starts, counts = self._starts[frame], self._counts[frame]
            ranges = (range(starts[c], starts[c] + counts[c]) for c in columns)
            return list(chain.from_iterable(ranges))
        if type(ids) not in ARRAYS:
            raise UnusualError
        index_of = self._ids.index_of(frame)
        indices = [index_of[entity] for entity in ids]
        if len(set(indices)) != len(indices):
            raise UnusualError
        return indices

    def _all_shown(self, hidden: Mapping[EntityName, Bools]) -> Bools:
        """Whether each entity is shown, frame by frame. Shape: (N,)."""
        shown = np.ones(int(self.totals.sum()), np.bool_)
        for name, own in hidden.items():
            column = [self._column[name]]
            indices, lengths = _ranges(self._starts[:, column], self._counts[:, column])
            shown[indices + np.repeat(self.first, lengths)] = own
        return shown


@dataclass(frozen=True, slots=True)
class CategoricalColumn:
    """Who picks a choice in each frame.

    Args:
        actors: Entity indices within the frame. Shape: (A,).
        lengths: The number of actors of each frame. Shape: (B,).
        mask: Shape: (A, C).
    """

    actors: Ints
    lengths: Ints
    mask: Bools

    @classmethod
    def of(cls, given: Given, name: ActionName, choices: int, layout: Layout) -> CategoricalColumn:
        """Read the masks of a categorical action."""
        masks = pick(given, name, _NO_ACTOR)
        if set(map(type, masks)) != {CategoricalActionMask}:
            raise UnusualError
        actors, lengths = layout.entities(
            [mask.actor_ids for mask in masks], [mask.actor_types for mask in masks]
        )
        return cls(actors, lengths, _choices([mask.mask for mask in masks], lengths, choices))

    @classmethod
    def of_players(
        cls, given: Given, name: ActionName, choices: int, layout: Layout
    ) -> CategoricalColumn:
        """Read the masks of a global action: its actor stands after the entities of the frame."""
        masks = pick(given, name, _NO_PLAYER)
        if set(map(type, masks)) != {GlobalCategoricalActionMask}:
            raise UnusualError
        there = np.array([mask is not _NO_PLAYER for mask in masks], np.bool_)
        rows = [
            () if mask is _NO_PLAYER else None if mask.mask is None else (mask.mask,)
            for mask in masks
        ]
        lengths = there.astype(np.int64)
        return cls(layout.totals[there], lengths, _choices(rows, lengths, choices))


@dataclass(frozen=True, slots=True)
class SelectColumn:
    """Who selects whom in each frame.

    Args:
        actors: Entity indices within the frame. Shape: (A,).
        lengths: The number of actors of each frame. Shape: (B,).
        actees: Entity indices within the frame. Shape: (E,).
        actee_lengths: The number of actees of each frame. Shape: (B,).
        mask: For each frame its pairs, actor by actor. Shape: (P,). None where all are allowed.
    """

    actors: Ints
    lengths: Ints
    actees: Ints
    actee_lengths: Ints
    mask: Bools | None

    @classmethod
    def of(cls, given: Given, name: ActionName, layout: Layout) -> SelectColumn:
        """Read the masks of a select-entity action."""
        masks = pick(given, name, _NO_SELECTOR)
        if set(map(type, masks)) != {SelectEntityActionMask}:
            raise UnusualError
        actors, lengths = layout.entities(
            [mask.actor_ids for mask in masks], [mask.actor_types for mask in masks]
        )
        actees, actee_lengths = layout.entities(
            [mask.actee_ids for mask in masks], [mask.actee_types for mask in masks]
        )
        # Where there is nothing to select, nobody acts; where nobody acts, nothing is selected.
        both = (lengths > 0) & (actee_lengths > 0)
        if not both.all():
            actors, actees = (
                actors[np.repeat(both, lengths)],
                actees[np.repeat(both, actee_lengths)],
            )
            lengths, actee_lengths = lengths * both, actee_lengths * both
        pairs = [
            mask.mask if there else None for mask, there in zip(masks, both.tolist(), strict=True)
        ]
        return cls(actors, lengths, actees, actee_lengths, _pairs(pairs, lengths, actee_lengths))


def _choices(masks: Sequence[Any], lengths: Ints, choices: int) -> Bools:
    """The masks of all actors, (A, C); each leaves a choice."""
    everybody, counts, kinds = int(lengths.sum()), lengths.tolist(), set(map(type, masks))
    if kinds == {NoneType}:
        return np.ones((everybody, choices), np.bool_)
    if not kinds <= ARRAYS | {NoneType}:
        raise UnusualError
    if NoneType in kinds:
        everything = [True] * choices
        masks = [
            [everything] * count if mask is None else mask
            for mask, count in zip(masks, counts, strict=True)
        ]
        kinds = kinds - {NoneType} | {list}
    if list(map(len, masks)) != counts:
        raise UnusualError
    if not everybody:
        return np.zeros((0, choices), np.bool_)
    if 0 in counts:
        masks = [mask for mask in masks if len(mask)]
    allowed = boolean_table(masks, kinds, choices)
    # Across the rows NumPy looks for a choice twice as fast as along each of them.
    if not np.ascontiguousarray(allowed.T).any(axis=0).all():
        raise UnusualError
    return allowed


def _pairs(masks: Sequence[Any], actors: Ints, actees: Ints) -> Bools | None:
    """The masks of all pairs, (P,); each leaves its actor an actee."""
    if all(mask is None for mask in masks):
        return None
    shapes = list(zip(actors.tolist(), actees.tolist(), strict=True))
    parts = [
        np.ones(shape, np.bool_) if mask is None else np.array(mask)
        for mask, shape in zip(masks, shapes, strict=True)
    ]
    if [part.shape for part in parts] != shapes:
        raise UnusualError
    allowed = booleans(np.concatenate([part.ravel() for part in parts if part.size]))
    options = np.repeat(actees, actors)  # of each actor; at least one
    if not np.logical_or.reduceat(allowed, np.cumsum(options) - options).all():
        raise UnusualError
    return allowed


def _ranges(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """All numbers of the ranges ``start .. start + count - 1``, (B, K) of them, row by row.

    Returns:
        The numbers, shape (N,), and how many each row has, shape (B,).
    """
    each = counts.ravel()
    ends = each.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    numbers = np.arange(total) + (starts.ravel() - (ends - each)).repeat(each)
    return numbers, each if counts.shape[1] == 1 else counts.sum(axis=1)
