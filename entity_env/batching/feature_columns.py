"""Fast reader of many observations, which makes an array for each entity type.

It reads common shapes only: dicts, lists, tuples, arrays. It accepts nothing that ``FrameReader``
does not accept. If it raises any error, the observations may be valid or not: ``FrameReader`` then
reads them one by one, and raises the error for the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add, is_, itemgetter
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.feature_tables import (
    ARRAYS,
    Bools,
    Floats,
    Ints,
    UnusualError,
    are_given,
    booleans,
    finite_table,
    sizes,
    table,
)
from entity_env.batching.features import LARGEST, every
from entity_env.batching.step_results import read_metrics
from entity_env.observation import EntityID, Observation
from entity_env.spaces import EntityName, Feature

__all__ = [
    "Ids",
    "Outcome",
    "all_dicts",
    "feature_column",
    "global_column",
    "pick",
    "visible_column",
]

_TRUTHS = {bool, np.bool_}
_NUMBERS = {float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_}


def all_dicts(parts: Sequence[Any], known: frozenset[str]) -> None:
    """Raise an error for parts that are not dicts, and for keys that are not ``known``."""
    if set(map(type, parts)) != {dict} or (any(parts) and not set().union(*parts) <= known):
        raise UnusualError


def pick(given: Sequence[Mapping[str, Any]], name: str, absent: Any) -> list[Any]:
    """Return ``given[i].get(name, absent)`` for all i."""
    try:
        return list(map(itemgetter(name), given))  # twice as fast
    except KeyError:
        return [own.get(name, absent) for own in given]


def feature_column(
    given: Sequence[Mapping[EntityName, Any]], name: EntityName, features: Sequence[Feature]
) -> tuple[Floats, Ints]:
    """Return the rows of one entity type, (N, F) float32, and their number in each frame, (B,)."""
    column = pick(given, name, ())
    kinds = set(map(type, column))
    if NoneType in kinds:
        column = [() if rows is None else rows for rows in column]
        kinds = kinds - {NoneType} | {tuple}
    return finite_table(table(column, kinds, len(features)), features), sizes(column)


def global_column(values: Sequence[Any], features: Sequence[Feature]) -> Floats:
    """Return the global features of all frames. Shape: (B, G), float32."""
    kinds = set(map(type, values))
    if not features and kinds == {list} and not any(values):
        return np.zeros((len(values), 0), np.float32)
    if not kinds <= ARRAYS:
        raise UnusualError
    array = np.array(values)
    if array.shape != (len(values), len(features)):
        raise UnusualError
    return finite_table(array, features)


@dataclass(slots=True)
class Ids:
    """The ids of all frames.

    Args:
        frames: For each frame the id of each entity by index; None for types without ids.
        columns: The given ids of each type that occurs, frame by frame; may be empty.
        counts: The number of entities of each type that occurs, frame by frame.
    """

    frames: Sequence[list[EntityID]]
    columns: Sequence[Sequence[Sequence[EntityID]]]
    counts: Sequence[Sequence[int]]

    @classmethod
    def of(
        cls, given: Sequence[Mapping[EntityName, Any]], lengths: Mapping[EntityName, Ints]
    ) -> Ids:
        """Check that ids are lists of the right length, hashable, and unique in their frame."""
        columns, filled, counts = [], [], []  # of the types that occur
        for name, own in lengths.items():
            column = pick(given, name, None)
            kinds = set(map(type, column))
            if kinds == {NoneType} and not own.any():
                continue
            if not kinds <= ARRAYS | {NoneType}:
                raise UnusualError
            if kinds != {list}:
                column = [None if ids is None else list(ids) for ids in column]
            counts.append(own.tolist())
            whole = column
            if NoneType in kinds:
                pairs = zip(column, counts[-1], strict=True)
                whole = [[None] * count if ids is None else ids for ids, count in pairs]
                column = [[] if ids is None else ids for ids in column]
            if list(map(len, whole)) != counts[-1]:
                raise UnusualError
            columns.append(column)
            filled.append(whole)
        known = _frame_by_frame(columns, len(given))
        if sum(map(len, map(set, known))) != sum(map(len, known)):
            raise UnusualError
        complete = all(map(is_, columns, filled))
        return cls(known if complete else _frame_by_frame(filled, len(given)), columns, counts)

    def index_of(self, frame: int) -> dict[EntityID, int]:
        """Return the entity index of each id of a frame."""
        index: dict[EntityID, int] = {}
        start = 0
        for column, count in zip(self.columns, self.counts, strict=True):
            index.update(zip(column[frame], range(start, start + count[frame]), strict=False))
            start += count[frame]
        return index


def visible_column(
    given: Sequence[Mapping[EntityName, Any]], name: EntityName, lengths: Ints
) -> Bools | None:
    """Return a mask (N,) of the visible entities of a type, or None if all are."""
    column = [frame.get(name) for frame in given]
    if not are_given(column):
        return None
    counts = lengths.tolist()
    parts = [
        np.ones(count, np.bool_) if mask is None else np.array(mask)
        for mask, count in zip(column, counts, strict=True)
    ]
    if [part.shape for part in parts] != [(count,) for count in counts]:
        raise UnusualError
    shown = booleans(np.concatenate([part for part in parts if len(part)] or [_NONE_SHOWN]))
    return None if every(shown) else shown


@dataclass(slots=True)
class Outcome:
    """The rewards and ends of the last step of all frames.

    Args:
        rewards: Finite in float32. Shape: (B,), float64.
        done: Shape: (B,), bool.
        truncated: True only if ``done`` is, too. Shape: (B,), bool.
        metrics: The checked metrics of each frame.
    """

    rewards: npt.NDArray[np.float64]
    done: Bools
    truncated: Bools
    metrics: Sequence[Mapping[str, float]]

    @classmethod
    def of(cls, observations: Sequence[Observation]) -> Outcome:
        """Check rewards, ends and metrics."""
        rewards: list[Any] = [observation.reward for observation in observations]
        metrics: list[Any] = [observation.metrics for observation in observations]
        if not set(map(type, rewards)) <= _NUMBERS or set(map(type, metrics)) != {dict}:
            raise UnusualError
        values = np.fromiter(rewards, np.float64, len(rewards))
        if not every(np.abs(values) <= LARGEST):  # also for NaN
            raise UnusualError
        # Copies, also of empty dicts, because an environment may fill its dict later.
        checked = [_NO_METRICS] * len(metrics)
        if any(metrics):
            checked = [read_metrics(own) if own else _NO_METRICS for own in metrics]
        return cls(values, *_ends(observations), checked)

    def results(self) -> list[tuple[float, Mapping[str, float]]]:
        """Return the reward and the metrics of each frame."""
        return list(zip(self.rewards.tolist(), self.metrics, strict=True))


def _ends(observations: Sequence[Observation]) -> tuple[Bools, Bools]:
    """Return masks of the done and of the truncated frames."""
    done, truncated = np.zeros((2, len(observations)), np.bool_)
    for frame, observation in enumerate(observations):
        if observation.done is not False or observation.truncated is not False:
            if type(observation.done) not in _TRUTHS or type(observation.truncated) not in _TRUTHS:
                raise UnusualError
            done[frame], truncated[frame] = observation.done, observation.truncated
    if not every(truncated <= done):
        raise UnusualError
    return done, truncated


def _frame_by_frame(columns: Sequence[list[list[EntityID]]], frames: int) -> list[list[EntityID]]:
    """Return new lists with the ids of each frame, given the ids of each type."""
    if len(columns) < 2:
        return list(map(list, columns[0])) if columns else [[] for _ in range(frames)]
    joined = columns[0]
    for column in columns[1:]:
        joined = list(map(add, joined, column))
    return joined


_NONE_SHOWN = np.zeros(0, np.bool_)
_NO_METRICS: Mapping[str, float] = {}
