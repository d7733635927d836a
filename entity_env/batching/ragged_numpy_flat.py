"""What the NumPy ragged buffers compute, on all rows and the length of each frame."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "ALL_ROWS",
    "Ints",
    "Parts",
    "Store",
    "cat_columns",
    "cat_frames",
    "cat_rows",
    "check_array",
    "combine",
    "is_int",
    "pad_and_pack",
    "pick_rows",
    "repeated_indices",
    "row_picker",
    "rows_of",
    "select",
    "write",
]

Ints: TypeAlias = npt.NDArray[np.int64]
Parts: TypeAlias = tuple[npt.NDArray[Any], Ints]
"""All rows, shape (N, D), and the length of each frame, shape (B,)."""

ALL_ROWS = slice(None)


def is_int(value: object) -> bool:
    """Whether a value is one index."""
    return isinstance(value, int | np.integer)


class Store:
    """Rows and frame lengths, which a buffer shares with its views; pushes are joined when read."""

    def __init__(self, values: npt.NDArray[Any], lengths: Ints) -> None:
        self.width = values.shape[1]
        self._parts: list[Parts] = [(values, lengths)]

    def push(self, values: npt.NDArray[Any], lengths: Ints) -> None:
        """Add frames."""
        self._parts.append((values, lengths))

    def read(self) -> Parts:
        """All rows and lengths; writing to the rows changes the store."""
        if len(self._parts) > 1:
            self._parts = [cat_frames(self._parts)]
        return self._parts[0]

    def clear(self) -> None:
        """Remove all frames."""
        values, lengths = self._parts[0]
        self._parts = [(values[:0].copy(), lengths[:0].copy())]


def check_array(name: str, array: Any, dtype: Any, dim: int) -> None:
    """Raise TypeError unless ``array`` is an array of that type and number of dimensions."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"argument {name!r}: {type(array).__name__!r} is not an array")
    if array.dtype != dtype:
        wanted = np.dtype(dtype)
        raise TypeError(f"argument {name!r}: type mismatch: from={array.dtype}, to={wanted}")
    if array.ndim != dim:
        raise TypeError(f"argument {name!r}: dimensionality mismatch: from={array.ndim}, to={dim}")


def combine(op: Callable[..., Any], left: Parts, right: Parts) -> Parts:
    """``op`` for every value; a side whose frames all have one row repeats it."""
    (a, a_lengths), (b, b_lengths) = left, right
    if a.shape[1] == b.shape[1] and len(a_lengths) == len(b_lengths):
        if np.array_equal(a_lengths, b_lengths):
            return op(a, b), a_lengths
        if (b_lengths == 1).all():
            return op(a, np.repeat(b, a_lengths, axis=0)), a_lengths
        if (a_lengths == 1).all():
            return op(np.repeat(a, b_lengths, axis=0), b), b_lengths
    raise ValueError(
        f"Dimensions mismatch: ({len(a_lengths)}, {a_lengths.tolist()}, {a.shape[1]}) != "
        f"({len(b_lengths)}, {b_lengths.tolist()}, {b.shape[1]})"
    )


def repeated_indices(lengths: Ints, dim: int) -> Ints:
    """For each row its frame (``dim=0``), or its place in the frame (1)."""
    frame = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    if dim == 0:
        return frame
    place: Ints = np.arange(len(frame), dtype=np.int64) - (np.cumsum(lengths) - lengths)[frame]
    return place


def select(which: Any, count: int, name: str) -> Ints:
    """The frames or columns that an int, a list, an array or a slice selects of ``count``."""
    if isinstance(which, slice):
        _check_step(which)
        return np.arange(count)[which]
    indices = np.array([which] if is_int(which) else which)
    if indices.size == 0 and indices.ndim == 1:
        return np.zeros(0, np.int64)
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"a {name} index is an int, whole numbers or a slice, not {which!r}")
    outside = indices[(indices < 0) | (indices >= count)]
    if len(outside):
        raise IndexError(f"{name} {outside[0]} of a ragged buffer with {count}")
    return indices.astype(np.int64)


def row_picker(which: Any) -> Any:
    """Rows within each frame, as a slice or an array."""
    if isinstance(which, slice):
        _check_step(which)
        if min(which.start or 0, which.stop or 0) < 0:
            raise ValueError("rows cannot be counted from the end")
        return ALL_ROWS if which == ALL_ROWS else which
    return select(which, np.iinfo(np.int64).max, "row")


def _check_step(which: slice) -> None:
    if which.step is not None and which.step < 1:
        raise ValueError(f"a ragged buffer needs a step of at least 1, not {which.step}")


def rows_of(frames: Ints, lengths: Ints) -> Ints:
    """The rows of some frames, one frame after the other."""
    counts = lengths[frames]
    ends = np.cumsum(counts)
    shift = np.repeat((np.cumsum(lengths) - lengths)[frames] - (ends - counts), counts)
    rows: Ints = np.arange(counts.sum(), dtype=np.int64) + shift
    return rows


def pick_rows(frames: Ints, pick: Any, lengths: Ints) -> tuple[Ints, Ints]:
    """The picked rows of some frames, and how many each frame has."""
    if pick is ALL_ROWS:
        return rows_of(frames, lengths), lengths[frames]
    starts = np.cumsum(lengths) - lengths
    picked = [np.zeros(0, np.int64)]
    for start, length in zip(starts[frames], lengths[frames], strict=True):
        if isinstance(pick, slice):
            places = np.arange(length)[pick]
        else:  # up to the first row that the frame does not have
            places = pick[np.logical_and.accumulate(pick < length)]
        picked.append(start + places)
    return np.concatenate(picked), np.array([len(rows) for rows in picked[1:]], np.int64)


def cat_frames(parts: Sequence[Parts]) -> Parts:
    """The frames of all parts."""
    _check_same("features", [values.shape[1] for values, _ in parts])
    lengths = np.concatenate([lengths for _, lengths in parts])
    return np.concatenate([values for values, _ in parts]), lengths


def cat_rows(parts: Sequence[Parts]) -> Parts:
    """For each frame the rows of all parts."""
    _check_same("subarrays", [len(lengths) for _, lengths in parts])
    values, lengths = cat_frames(parts)
    frames = len(parts[0][1])
    # frame i of part j is frame j * frames + i of the joined list
    order = np.arange(len(parts) * frames).reshape(len(parts), frames).T.reshape(-1)
    return values[rows_of(order, lengths)], lengths.reshape(len(parts), frames).sum(axis=0)


def cat_columns(parts: Sequence[Parts]) -> Parts:
    """Wider rows. A part with one row in a frame repeats it for the rows of the others."""
    _check_same("sequences", [len(lengths) for _, lengths in parts])
    table = np.array([lengths for _, lengths in parts])  # (parts, frames)
    wanted = np.ones(table.shape[1], np.int64)
    for part, lengths in enumerate(table):
        clash = np.flatnonzero((lengths != 1) & (wanted != 1) & (lengths != wanted))
        if len(clash):
            raise ValueError(
                f"Buffer {part} has {lengths[clash[0]]} items for sequence {clash[0]}, "
                f"but expected {wanted[clash[0]]}"
            )
        wanted = np.where(lengths != 1, lengths, wanted)
    columns = []
    for values, lengths in parts:
        repeats = np.repeat(np.where(lengths == wanted, 1, wanted), lengths)
        columns.append(np.repeat(values, repeats, axis=0))
    return np.concatenate(columns, axis=1), wanted


def _check_same(what: str, counts: list[int]) -> None:
    if len(set(counts)) > 1:
        found = ", ".join(map(str, counts))
        raise ValueError(f"All buffers must have the same number of {what}, but found {found}")


def pad_and_pack(lengths: Ints) -> tuple[Ints, npt.NDArray[np.float32], Ints] | None:
    """Place each frame in the sequence with the most room, or in a new one; see ``padpack``."""
    if len(lengths) == 0 or (lengths == lengths[0]).all():
        return None
    longest = int(lengths.max())
    sequences: list[tuple[int, int]] = []  # (-free, number): the first has the most room
    starts = np.empty(len(lengths), np.int64)
    for i, length in enumerate(lengths.tolist()):
        if sequences and -sequences[0][0] >= length:
            room, sequence = heapq.heappop(sequences)
        else:
            room, sequence = -longest, len(sequences)
        starts[i] = (sequence + 1) * longest + room
        heapq.heappush(sequences, (room + length, sequence))
    frame = repeated_indices(lengths, 0)
    place = repeated_indices(lengths, 1) + starts[frame]
    index = np.zeros(len(sequences) * longest, np.int64)
    batch = np.full(len(sequences) * longest, np.nan, np.float32)
    index[place] = np.arange(len(frame))
    batch[place] = frame
    return index.reshape(-1, longest), batch.reshape(-1, longest), place


def write(values: npt.NDArray[Any], lengths: Ints, dtype: str) -> str:
    """The text of ``repr``. The floats of a frame of one row have another form than the rest."""
    text, start = "RaggedBuffer([\n", 0
    for length in lengths.tolist():
        rows, start = values[start : start + length], start + length
        if length == 0:
            text += "    [],\n"
        elif length == 1:
            text += f"    [[{', '.join(map(_exact, rows[0]))}]],\n"
        else:
            lines = ["        [" + ", ".join(map(_plain, row)) for row in rows if len(row)]
            text += "    [\n" + "],\n".join(lines) + "],\n    ],\n"
    return text + f"], '{len(lengths)} * var * {values.shape[1]} * {dtype})"


def _plain(value: Any) -> str:
    """A number in positional form, whole floats without a point."""
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.integer):
        return str(value)
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else str(value)
    return np.format_float_positional(value, trim="-")


def _exact(value: Any) -> str:
    """A number with a point if it is a float, very large and small ones with an exponent."""
    if not isinstance(value, np.floating) or not np.isfinite(value):
        return _plain(value)
    if value == 0 or np.float32(1e-4) <= abs(value) < np.float32(1e16):
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="-", exp_digits=1).replace("e+", "e")
