"""Ragged buffers in NumPy, for Python versions that ``ragged_buffer`` does not support.

The classes have the methods of the package that this library calls, with the same results and the
same ``repr``. They have no views of rows and columns and no arithmetic; use ``as_array``. A frame
that does not exist raises an ``IndexError``, and an object that is not an index a ``TypeError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as whole
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

__all__ = ["RaggedBuffer", "RaggedBufferBool", "RaggedBufferF32", "RaggedBufferI64", "cat"]

Scalar = TypeVar("Scalar", bound=np.generic)
Ints = npt.NDArray[np.int64]


class RaggedBuffer(Generic[Scalar]):
    """Frames with any number of rows of D values; use one of the subclasses."""

    _dtype: ClassVar[Any] = None
    _name: ClassVar[str] = ""
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # so that NumPy leaves operators to this class

    def __init__(self, features: int) -> None:
        if self._dtype is None:
            raise ValueError("RaggedBuffer is abstract, use RaggedBufferF32, -I64 or -Bool")
        if whole(features) < 0:
            raise OverflowError("features is negative")
        # Pushed parts are joined when they are read: all rows, (N, D), and lengths, (B,).
        self._parts = [(np.empty((0, whole(features)), self._dtype), np.zeros(0, np.int64))]

    @classmethod
    def _of(cls, values: npt.NDArray[Any], lengths: Ints) -> Self:
        buffer = cls(0)
        buffer._parts = [(values, lengths)]
        return buffer

    @classmethod
    def from_array(cls, array: npt.NDArray[Scalar]) -> Self:
        """Return frames of one length. Shape of ``array``: (B, N, D)."""
        _check_array("array", array, cls._dtype, 3)
        frames, rows, width = array.shape
        return cls._of(array.reshape(frames * rows, width).copy(), np.full(frames, rows, np.int64))

    @classmethod
    def from_flattened(cls, flattened: npt.NDArray[Scalar], lengths: Ints) -> Self:
        """Return frames, given by all rows, (N, D), and the number of rows of each frame, (B,)."""
        _check_array("flattened", flattened, cls._dtype, 2)
        _check_array("lengths", lengths, np.int64, 1)
        total = int(lengths.sum())
        if total != len(flattened):
            raise ValueError(
                f"Lengths array specifies {total} items, but data array has {len(flattened)} items"
            )
        if (lengths < 0).any():
            raise ValueError("Lengths array has a negative length")
        return cls._of(flattened.copy(), lengths.copy())

    def push(self, items: npt.NDArray[Scalar]) -> None:
        """Add a frame. Shape of ``items``: (N, D), or (0,) for no rows."""
        _check_array("items", items, self._dtype, getattr(items, "ndim", 0))
        if items.ndim == 1 and not len(items):
            items = np.empty((0, self.size2()), self._dtype)
        if items.ndim != 2:
            raise ValueError("Expected 2 dimensional array")
        self._add(items.copy(), np.array([len(items)], np.int64))

    def push_empty(self) -> None:
        """Add a frame without rows."""
        self._add(np.empty((0, self.size2()), self._dtype), np.zeros(1, np.int64))

    def extend(self, other: RaggedBuffer[Scalar]) -> None:
        """Add the frames of another buffer."""
        self._same_type([other])
        values, lengths = other._read()
        self._add(values.copy(), lengths.copy())

    def clear(self) -> None:
        """Remove all frames."""
        self._parts = type(self)(self.size2())._parts

    def clone(self) -> Self:
        """Return a copy without shared memory."""
        values, lengths = self._read()
        return self._of(values.copy(), lengths.copy())

    def materialize(self) -> Self:
        """Return the buffer itself, as this class has no views to copy."""
        return self

    def as_array(self) -> npt.NDArray[Scalar]:
        """Return a copy of all rows. Shape: (N, D)."""
        return self._read()[0].copy()

    def size0(self) -> int:
        """Return the number of frames."""
        return len(self._read()[1])

    @overload
    def size1(self, i: None = None) -> Ints: ...
    @overload
    def size1(self, i: int) -> int: ...
    def size1(self, i: int | None = None) -> Ints | int:
        """Return the number of rows of each frame, shape (B,), or of frame ``i``."""
        lengths = self._read()[1]
        if i is None:
            return lengths.copy()
        if not 0 <= whole(i) < len(lengths):
            raise ValueError(f"Index {i} out of range")
        return int(lengths[i])

    def size2(self) -> int:
        """Return the number of values in a row."""
        return self._parts[0][0].shape[1]

    def items(self) -> int:
        """Return the number of rows of all frames."""
        return len(self._read()[0])

    def __len__(self) -> int:
        """Return the number of values of all rows."""
        return int(self._read()[0].size)

    def __getitem__(self, i: Any) -> Self:
        """Return some frames: ``b[2]``, ``b[[0, 2]]``, ``b[array]``.

        Raises:
            IndexError: A frame does not exist.
            TypeError: ``i`` is neither an integer nor a list of integers.
        """
        values, lengths = self._read()
        frames = _frames(list(i) if isinstance(i, tuple) else i, len(lengths))
        counts = lengths[frames]
        # The k-th row of a selected frame is k rows after the frame's first row.
        shift = (np.cumsum(lengths) - lengths)[frames] - (np.cumsum(counts) - counts)
        rows = np.arange(counts.sum()) + np.repeat(shift, counts)
        return self._of(values[rows], counts)

    def __eq__(self, other: object) -> bool:
        """Return True if type, lengths, width and all values are equal; NaN never is."""
        if not isinstance(other, RaggedBuffer) or type(other) is not type(self):
            return False
        (a, a_lengths), (b, b_lengths) = self._read(), other._read()
        return np.array_equal(a_lengths, b_lengths) and np.array_equal(a, b)

    @classmethod
    def cat(cls, buffers: Sequence[RaggedBuffer[Scalar]], dim: int = 0) -> Self:
        """Return one buffer with the frames of all of them; ``dim`` must be 0."""
        if not buffers:
            raise ValueError("cat requires at least one ragged buffer")
        cls._same_type(buffers)
        if dim != 0:
            raise ValueError(f"Invalid dimension {dim}, only frames can be joined, dimension 0")
        widths = [buffer.size2() for buffer in buffers]
        if len(set(widths)) > 1:
            found = ", ".join(map(str, widths))
            raise ValueError(
                f"All buffers must have the same number of features, but found {found}"
            )
        values, lengths = zip(*(buffer._read() for buffer in buffers), strict=True)
        return cls._of(np.concatenate(values), np.concatenate(lengths))

    def __repr__(self) -> str:
        """Return all rows as text, in the form of the package."""
        (values, lengths), text, start = self._read(), "RaggedBuffer([\n", 0
        for length in lengths.tolist():
            rows, start = values[start : start + length], start + length
            if length == 0:
                text += "    [],\n"
            elif length == 1:  # the package formats its floats in another way
                text += f"    [[{', '.join(map(_exact, rows[0]))}]],\n"
            else:
                lines = ["        [" + ", ".join(map(_plain, row)) for row in rows if len(row)]
                text += "    [\n" + "],\n".join(lines) + "],\n    ],\n"
        return text + f"], '{len(lengths)} * var * {values.shape[1]} * {self._name})"

    def _read(self) -> tuple[npt.NDArray[Any], Ints]:
        """Return all rows and lengths; copy them before returning them to users."""
        if len(self._parts) > 1:
            values, lengths = zip(*self._parts, strict=True)
            self._parts = [(np.concatenate(values), np.concatenate(lengths))]
        return self._parts[0]

    def _add(self, values: npt.NDArray[Any], lengths: Ints) -> None:
        if values.shape[1] != self.size2():
            raise ValueError(f"Features mismatch: {self.size2()} != {values.shape[1]}")
        self._parts.append((values, lengths))

    @classmethod
    def _same_type(cls, buffers: Sequence[object]) -> None:
        for buffer in buffers:
            if type(buffer) is not cls:
                raise TypeError(f"{type(buffer).__name__!r} is not a {cls.__name__!r}")


class RaggedBufferF32(RaggedBuffer[np.float32]):
    """A ragged buffer of float32."""

    _dtype = np.float32
    _name = "f32"


class RaggedBufferI64(RaggedBuffer[np.int64]):
    """A ragged buffer of int64."""

    _dtype = np.int64
    _name = "i64"


class RaggedBufferBool(RaggedBuffer[np.bool_]):
    """A ragged buffer of bool."""

    _dtype = np.bool_
    _name = "bool"


def cat(buffers: Sequence[Any], dim: int = 0) -> Any:
    """Return one buffer with the frames of several buffers; see ``RaggedBuffer.cat``."""
    if not buffers:
        raise ValueError("Can't concatenate an empty list of buffers")
    if not isinstance(buffers[0], RaggedBuffer):
        raise TypeError(f"Type {type(buffers[0])} is not a RaggedBuffer")
    return type(buffers[0]).cat(buffers, dim)


def _check_array(name: str, array: Any, dtype: Any, dim: int) -> None:
    """Raise TypeError unless ``array`` is an array of that type and number of dimensions."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"argument {name!r}: {type(array).__name__!r} is not an array")
    if array.dtype != dtype:
        wanted = np.dtype(dtype)
        raise TypeError(f"argument {name!r}: type mismatch: from={array.dtype}, to={wanted}")
    if array.ndim != dim:
        raise TypeError(f"argument {name!r}: dimensionality mismatch: from={array.ndim}, to={dim}")


def _frames(which: Any, count: int) -> Ints:
    """Return the frames that an int, a list or an array selects. Shape: (K,), int64."""
    try:
        indices = np.atleast_1d(np.array(which))
    except ValueError:  # lists of different lengths, or of slices
        indices = np.array([None])
    if indices.shape == (0,):
        return np.zeros(0, np.int64)
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"a frame index is an int or a list of whole numbers, not {which!r}")
    outside = indices[(indices < 0) | (indices >= count)]
    if len(outside):
        raise IndexError(f"frame {outside[0]} of a ragged buffer with {count}")
    frames: Ints = indices.astype(np.int64)
    return frames


def _plain(value: Any) -> str:
    """Return a number in positional form, whole floats without a point."""
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.integer):
        return str(value)
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else str(value)
    return np.format_float_positional(value, trim="-")


def _exact(value: Any) -> str:
    """Return a number with a point if it is a float, very large and small ones with an exponent."""
    if not isinstance(value, np.floating) or not np.isfinite(value):
        return _plain(value)
    if value == 0 or np.float32(1e-4) <= abs(value) < np.float32(1e16):
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="-", exp_digits=1).replace("e+", "e")
