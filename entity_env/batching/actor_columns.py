"""Reads the masks of one action in many frames at once: actors by index, choices as booleans.

The rules are those of ``feature_columns.py``: common shapes only, and whatever is raised leaves the
answer to ``FrameReader``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np

from entity_env.batching.feature_columns import Ids, pick
from entity_env.batching.feature_tables import (
    ARRAYS,
    Bools,
    Ints,
    UnusualError,
    are_given,
    boolean_table,
    booleans,
    sizes,
)
from entity_env.batching.features import LISTS, every, is_masked
from entity_env.observation import (
    CategoricalActionMask,
    ContinuousActionMask,
    GlobalCategoricalActionMask,
    GlobalContinuousActionMask,
    SelectEntityActionMask,
)
from entity_env.spaces import ActionName, EntityName

__all__ = ["CategoricalColumn", "ContinuousColumn", "Layout", "SelectColumn"]

Given = Sequence[Mapping[ActionName, Any]]
"""What each frame gives as its action masks."""

_NO_ACTOR = CategoricalActionMask(actor_types=())
_NO_SELECTOR = SelectEntityActionMask(actor_types=(), actee_types=())
_NO_PLAYER = GlobalCategoricalActionMask()
_NO_SETTER = ContinuousActionMask(actor_types=())
_NO_SETTING_PLAYER = GlobalContinuousActionMask()


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
        if shown is not None and not every(shown[indices + self.first.repeat(lengths)]):
            raise UnusualError
        return indices, lengths

    def _of_types(self, types: list[Any]) -> tuple[Ints, Ints]:
        if not set(map(type, types)) <= LISTS | {NoneType}:
            raise UnusualError
        if types.count(types[0]) == len(types):  # the usual case
            same = self._names(types[0])
            if len(same) == 1:  # without a table, in half the time
                return _ranges(self._starts[same[0]], self._counts[same[0]])
            shape = len(same), len(types)  # also where no type is named
            starts, counts = (
                np.array([of[name] for name in same], np.int64).reshape(shape).T
                for of in (self._starts, self._counts)
            )
            return _ranges(starts, counts)
        keys = [None if names is None else tuple(names) for names in types]
        distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        # A line for each type, and one more for a type of which there is nothing.
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
        """Whether each entity is shown, frame by frame. Shape: (N,)."""
        shown = np.ones(int(self.totals.sum()), np.bool_)
        for name, own in hidden.items():
            indices, lengths = _ranges(self._starts[name], self._counts[name])
            shown[indices + self.first.repeat(lengths)] = own
        return shown


@dataclass(slots=True)
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
        rows = [mask.mask for mask in masks]
        return cls(actors, lengths, _choices(rows, len(actors), lengths, choices))

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
        actors, lengths = layout.totals[there], there.astype(np.int64)
        return cls(actors, lengths, _choices(rows, len(actors), lengths, choices))


@dataclass(slots=True)
class ContinuousColumn:
    """Who sets numbers in each frame.

    Args:
        actors: Entity indices within the frame. Shape: (A,).
        lengths: The number of actors of each frame. Shape: (B,).
    """

    actors: Ints
    lengths: Ints

    @classmethod
    def of(cls, given: Given, name: ActionName, layout: Layout) -> ContinuousColumn:
        """Read the masks of a continuous action."""
        masks = pick(given, name, _NO_SETTER)
        if set(map(type, masks)) != {ContinuousActionMask}:
            raise UnusualError
        return cls(
            *layout.entities(
                [mask.actor_ids for mask in masks], [mask.actor_types for mask in masks]
            )
        )

    @classmethod
    def of_players(cls, given: Given, name: ActionName, layout: Layout) -> ContinuousColumn:
        """Read the masks of a global one: its actor stands after the entities of the frame."""
        masks = pick(given, name, _NO_SETTING_PLAYER)
        if set(map(type, masks)) != {GlobalContinuousActionMask}:
            raise UnusualError
        there = np.array([mask is not _NO_SETTING_PLAYER for mask in masks], np.bool_)
        return cls(layout.totals[there], there.astype(np.int64))


@dataclass(slots=True)
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
        if not every(both):
            actors = actors[both.repeat(lengths)]
            actees = actees[both.repeat(actee_lengths)]
            lengths, actee_lengths = lengths * both, actee_lengths * both
        pairs = [
            mask.mask if there else None for mask, there in zip(masks, both.tolist(), strict=True)
        ]
        return cls(actors, lengths, actees, actee_lengths, _pairs(pairs, lengths, actee_lengths))


def _choices(masks: Sequence[Any], actors: int, lengths: Ints, choices: int) -> Bools:
    """The masks of all actors, (A, C); each leaves a choice."""
    kinds = set(map(type, masks))
    if kinds == {NoneType}:
        return np.ones((actors, choices), np.bool_)
    counts = lengths.tolist()
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
    if not actors:
        return np.zeros((0, choices), np.bool_)
    if 0 in counts:
        masks = [mask for mask in masks if len(mask)]
    allowed = boolean_table(masks, kinds, choices)
    # Across the rows NumPy looks for a choice twice as fast as along each of them.
    if not every(np.logical_or.reduce(np.ascontiguousarray(allowed.T))):
        raise UnusualError
    return allowed


def _pairs(masks: Sequence[Any], actors: Ints, actees: Ints) -> Bools | None:
    """The masks of all pairs, (P,); each leaves its actor an actee."""
    if not are_given(masks):
        return None
    if any(map(is_masked, masks)):
        raise UnusualError
    shapes = list(zip(actors.tolist(), actees.tolist(), strict=True))
    parts = [
        np.ones(shape, np.bool_) if mask is None else np.array(mask)
        for mask, shape in zip(masks, shapes, strict=True)
    ]
    if [part.shape for part in parts] != shapes:
        raise UnusualError
    allowed = booleans(np.concatenate([part.ravel() for part in parts if part.size]))
    options = actees.repeat(actors)  # of each actor; at least one
    if not every(np.logical_or.reduceat(allowed, options.cumsum() - options)):
        raise UnusualError
    return allowed


def _ranges(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """All numbers of the ranges ``start .. start + count - 1``, row by row: K of them, or one.

    Args:
        starts: Shape: (B, K) or (B,).
        counts: As many.

    Returns:
        The numbers, shape (N,), and how many each row has, shape (B,).
    """
    each = counts.ravel()
    ends = each.cumsum()
    shifts = starts.ravel() - (ends - each)
    numbers = np.arange(ends[-1] if len(ends) else 0) + shifts.repeat(each)
    return numbers, counts if counts.ndim == 1 else counts.sum(axis=1)
