"""Format of a ``VecObs`` as bytes, to send it to another process and to join several."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.kinds.table import kind_of
from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64
from entity_env.batching.vec_obs import VecActionMask, VecObs, all_rows
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["ObsFormat"]

Column: TypeAlias = Sequence[Any]
"""The values of one column in each joined part, or None for a part without the column."""


class ObsFormat:
    """The columns of a ``VecObs`` of given spaces, one after the other in memory.

    A message has the number of values of each column (int64, -1 for a column that is left out),
    followed by the values. Columns are ordered by the size of a value, so that they are aligned::

        int64    lengths of each entity type; actors, their lengths, actees, their lengths of each
                 action; the rows of the frames, left out if all rows have a frame
        float64  metrics (K, R)
        float32  features of each entity type, rewards, global features
        bool     visible of each entity type, mask of each action (left out of continuous ones),
                 done, truncated
        uint8    names of the metrics as JSON; the final observation as such a message
        bool     over

    Writer and reader need equal spaces with their names in the same order.
    """

    def __init__(self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> None:
        self._widths = {name: len(entity.names) for name, entity in obs_space.entities.items()}
        self._globals = len(obs_space.global_names)
        self._spaces = dict(action_space)
        kinds = {name: kind_of(space) for name, space in action_space.items()}
        self._kinds_of = kinds
        types, actions = len(self._widths), len(kinds)
        selects = sum(kind.selects for kind in kinds.values())
        self._ints = types + 2 * actions + 2 * selects + 1
        # The letter of each column's type, as in ``struct``, and the bytes of a value.
        letters = "q" * self._ints + "d" + "f" * (types + 2) + "?" * (types + actions + 2) + "BB?"
        self._kinds: list[tuple[Any, int]] = [
            (letter, struct.calcsize(letter)) for letter in letters
        ]
        self._counts = struct.Struct(f"{len(letters)}q")

    def pack(self, obs: VecObs) -> bytes:
        """Return ``obs`` as a message."""
        ints: list[Any] = [obs.features[name].size1() for name in self._widths]
        bools: list[Any] = [_flat(obs.visible.get(name)) for name in self._widths]
        for name, kind in self._kinds_of.items():
            mask: Any = obs.action_masks[name]
            ints += [mask.actors.size1(), mask.actors.as_array()]
            if kind.selects:
                ints += [mask.actees.size1(), mask.actees.as_array()]
            bools.append(_flat(getattr(mask, "mask", None)))
        columns = [
            *ints,
            None if obs.num_frames == len(obs) else obs.rows,
            np.stack(list(obs.metrics.values())) if obs.metrics else None,
            *(obs.features[name].as_array() for name in self._widths),
            obs.reward,
            obs.global_features,
            *bools,
            obs.done,
            obs.truncated,
            np.frombuffer(json.dumps(list(obs.metrics)).encode(), np.uint8)
            if obs.metrics
            else None,
            None if obs.final is None else np.frombuffer(self.pack(obs.final), np.uint8),
            obs.over,
        ]
        counts = [-1 if column is None else column.size for column in columns]
        there = [column for column in columns if column is not None]
        return self._counts.pack(*counts) + b"".join(there)

    def join(self, parts: Sequence[tuple[Any, int]]) -> VecObs:
        """Join the rows of several messages, in order, to one observation with its own memory.

        Args:
            parts: The memory of each message, and the number of its first byte.
        """
        columns: list[Column] = list(zip(*(self._read(*part) for part in parts), strict=True))
        over = columns.pop()
        types = len(self._widths)
        ints, rest = columns[: self._ints], columns[self._ints :]
        metrics, floats = rest[0], rest[1 : types + 3]
        bools, (metric_names, finals) = rest[types + 3 : -2], rest[-2:]
        lengths = [_joined(column, np.int64) for column in ints[:types]]
        counts = [len(part) for part in floats[types]]
        rows = _rows(ints[-1], counts)
        final_parts = [(final, 0) for final in finals if final is not None]
        return VecObs(
            features={
                name: _features(column, own, width)
                for (name, width), column, own in zip(
                    self._widths.items(), floats[:types], lengths, strict=True
                )
            },
            action_masks=self._masks(ints[types:-1], bools[types:-2]),
            reward=_joined(floats[types], np.float32),
            done=_joined(bools[-2], np.bool_),
            truncated=_joined(bools[-1], np.bool_),
            global_features=_joined(floats[-1], np.float32).reshape(len(rows), self._globals),
            visible={
                name: _bools(shown, [int(np.sum(part)) for part in own_counts], own)
                for name, shown, own_counts, own in zip(
                    self._widths, bools[:types], ints[:types], lengths, strict=True
                )
                if any(part is not None for part in shown)
            },
            metrics=_metrics(metrics, metric_names, counts),
            final=self.join(final_parts) if final_parts else None,
            rows=rows,
            over=None if None in over else _joined(over, np.bool_),
        )

    def _read(self, memory: Any, start: int) -> list[Any]:
        """Return the columns of one message, without copying them."""
        view = memoryview(memory)
        counts = self._counts.unpack_from(view, start)
        start += self._counts.size
        columns: list[Any] = []
        for (kind, size), count in zip(self._kinds, counts, strict=True):
            if count < 0:
                columns.append(None)
            else:
                end = start + count * size
                columns.append(view[start:end].cast(kind))
                start = end
        return columns

    def _masks(self, ints: Sequence[Column], bools: Sequence[Column]) -> dict[str, VecActionMask]:
        masks: dict[str, VecActionMask] = {}
        columns = iter(ints)
        for (name, space), column in zip(self._spaces.items(), bools, strict=True):
            counts, mask, actees = next(columns), None, None
            lengths = _joined(counts, np.int64)
            actors, kind = _indices(next(columns), lengths), self._kinds_of[name]
            there = any(part is not None for part in column)
            if kind.selects:
                actee_counts = next(columns)
                actee_lengths = _joined(actee_counts, np.int64)
                actees = _indices(next(columns), actee_lengths)
                if there:
                    both = zip(counts, actee_counts, strict=True)
                    sizes = [int(np.dot(a, b)) for a, b in both]
                    mask = _bools(column, sizes, lengths * actee_lengths)
            elif there:
                values = _joined(column, np.bool_).reshape(-1, len(space))  # type: ignore[arg-type]
                mask = RaggedBufferBool.from_flattened(values, lengths)
            masks[name] = kind.build(space, actors, mask, actees)
        return masks


def _rows(column: Column, counts: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the rows of the frames of all parts, given the number of rows of each part."""
    if all(part is None for part in column):
        return all_rows(sum(counts))
    starts = np.cumsum([0, *counts])
    return np.concatenate(
        [
            start + (all_rows(count) if part is None else np.asarray(part, np.int64))
            for part, start, count in zip(column, starts, counts, strict=False)
        ]
    )


def _flat(buffer: RaggedBufferBool | None) -> npt.NDArray[np.bool_] | None:
    return None if buffer is None else buffer.as_array()


def _joined(column: Column, dtype: type) -> npt.NDArray[Any]:
    """Return a copy of the values of a column that all parts have."""
    return np.frombuffer(bytearray().join(column), dtype)


def _features(column: Column, lengths: npt.NDArray[np.int64], width: int) -> RaggedBufferF32:
    # The number of rows is passed, because without features the values do not contain it.
    values = _joined(column, np.float32).reshape(int(lengths.sum()), width)
    return RaggedBufferF32.from_flattened(values, lengths)


def _indices(column: Column, lengths: npt.NDArray[np.int64]) -> RaggedBufferI64:
    return RaggedBufferI64.from_flattened(_joined(column, np.int64)[:, None], lengths)


def _bools(
    column: Column, sizes: Sequence[int], lengths: npt.NDArray[np.int64]
) -> RaggedBufferBool:
    """Return a buffer with one value for each row, True for parts without the column."""
    parts = [
        b"\1" * size if part is None else part for part, size in zip(column, sizes, strict=True)
    ]
    return RaggedBufferBool.from_flattened(_joined(parts, np.bool_)[:, None], lengths)


def _metrics(
    column: Column, names: Column, counts: Sequence[int]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the metrics of all parts, NaN in the rows of parts without them."""
    joined: dict[str, npt.NDArray[np.float64]] = {}
    ends = np.cumsum(counts).tolist()
    for values, own, end, count in zip(column, names, ends, counts, strict=True):
        if values is None:
            continue
        lines = np.asarray(values).reshape(-1, count)
        for name, line in zip(json.loads(bytes(own)), lines, strict=True):
            if name not in joined:
                joined[name] = np.full(ends[-1], np.nan)
            joined[name][end - count : end] = line
    return dict(sorted(joined.items()))
