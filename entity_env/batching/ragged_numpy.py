"""Ragged buffers in NumPy, for Pythons that the package ``ragged_buffer`` does not support.

The classes have the methods of that package and give the same results, to the text of ``repr``.
They differ where it panics or answers nonsense (an index or a column that does not exist, a
negative one, boolean masks, slices that run backwards): here those raise an ``IndexError``,
``TypeError`` or ``ValueError``. Methods that it refuses on a view work here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index as whole
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

import entity_env.batching.ragged_numpy_flat as flat
from entity_env.batching.ragged_numpy_flat import ALL_ROWS, Ints, Parts, Store, check_array, is_int

__all__ = ["RaggedBuffer", "RaggedBufferBool", "RaggedBufferF32", "RaggedBufferI64", "cat"]

Scalar = TypeVar("Scalar", bound=np.generic)


class RaggedBuffer(Generic[Scalar]):
    """Frames with any number of rows each, D values in every row; use one of the subclasses."""

    _dtype: ClassVar[Any] = None
    _name: ClassVar[str] = ""
    _scalars: ClassVar[tuple[type, ...]] = ()
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # so that NumPy leaves operators to this class

    def __init__(self, features: int) -> None:
        if self._dtype is None:
            raise ValueError("RaggedBuffer is abstract, use RaggedBufferF32, -I64 or -Bool")
        if whole(features) < 0:
            raise OverflowError("features is negative")
        self._store = Store(np.empty((0, whole(features)), self._dtype), np.zeros(0, np.int64))
        self._view: tuple[Ints, Any, Ints] | None = None

    @classmethod
    def _of(cls, values: npt.NDArray[Any], lengths: Ints) -> Self:
        buffer = cls(0)
        buffer._store = Store(values, lengths.copy())
        return buffer

    @classmethod
    def from_array(cls, array: npt.NDArray[Scalar]) -> Self:
        """Frames of one length. Shape of ``array``: (B, N, D)."""
        check_array("array", array, cls._dtype, 3)
        frames, rows, width = array.shape
        return cls._of(array.reshape(frames * rows, width).copy(), np.full(frames, rows, np.int64))

    @classmethod
    def from_flattened(cls, flattened: npt.NDArray[Scalar], lengths: Ints) -> Self:
        """All rows, shape (N, D), and the number of rows of each frame, shape (B,)."""
        check_array("flattened", flattened, cls._dtype, 2)
        check_array("lengths", lengths, np.int64, 1)
        total = int(lengths.sum())
        if total != len(flattened):
            raise ValueError(
                f"Lengths array specifies {total} items, but data array has {len(flattened)} items"
            )
        if (lengths < 0).any():
            raise ValueError("Lengths array has a negative length")
        return cls._of(flattened.copy(), lengths)

    def push(self, items: npt.NDArray[Scalar]) -> None:
        """Add a frame. Shape of ``items``: (N, D), or (0,) for no rows."""
        check_array("items", items, self._dtype, getattr(items, "ndim", 0))
        if items.ndim == 1 and not len(items):
            self.push_empty()
        elif items.ndim != 2:
            raise ValueError("Expected 2 dimensional array")
        elif items.shape[1] != self.size2():
            raise ValueError(f"Features mismatch: {self.size2()} != {items.shape[1]}")
        else:
            self._owned().push(items.copy(), np.array([len(items)], np.int64))

    def push_empty(self) -> None:
        """Add a frame without rows."""
        empty = np.empty((0, self.size2()), self._dtype)
        self._owned().push(empty, np.zeros(1, np.int64))

    def extend(self, other: RaggedBuffer[Scalar]) -> None:
        """Add the frames of another buffer."""
        self._same_type([other])
        if self.size2() != other.size2():
            raise ValueError(f"Features mismatch: {self.size2()} != {other.size2()}")
        values, lengths = other._read()
        self._owned().push(values.copy(), lengths.copy())

    def clear(self) -> None:
        """Remove all frames."""
        self._owned().clear()

    def clone(self) -> Self:
        """A copy that shares nothing."""
        values, lengths = self._read()
        return self._of(values.copy(), lengths)

    def materialize(self) -> Self:
        """The buffer itself, sharing its rows, or a copy of what a view shows."""
        if self._view is not None:
            return self.clone()
        buffer = type(self)(0)
        buffer._store = self._store
        return buffer

    def as_array(self) -> npt.NDArray[Scalar]:
        """All rows, a copy. Shape: (N, D)."""
        return self._read()[0].copy()

    def size0(self) -> int:
        """The number of frames."""
        return len(self._store.read()[1]) if self._view is None else len(self._view[0])

    @overload
    def size1(self, i: None = None) -> Ints: ...
    @overload
    def size1(self, i: int) -> int: ...
    def size1(self, i: int | None = None) -> Ints | int:
        """The number of rows of each frame, shape (B,), or of frame ``i``."""
        lengths = self._read()[1]
        if i is None:
            return lengths.copy()
        if not 0 <= whole(i) < len(lengths):
            raise ValueError(f"Index {i} out of range")
        return int(lengths[i])

    def size2(self) -> int:
        """The number of values in a row."""
        return self._store.width if self._view is None else len(self._view[2])

    def items(self) -> int:
        """The number of rows of all frames."""
        return len(self._read()[0])

    def __len__(self) -> int:
        """The number of values of all rows."""
        return int(self._read()[0].size)

    def __getitem__(self, i: Any) -> Self:
        """Some frames: ``b[2]``, ``b[[0, 2]]``, ``b[array]``; or a view ``b[0, 1:, [0, 2]]``.

        The view takes frames, rows and columns, each an int, a list, an array or a slice, but not
        three ints: a tuple of ints is a list of frames.
        """
        if isinstance(i, tuple) and len(i) == 3 and not all(is_int(part) for part in i):
            view = type(self)(0)
            base = self if self._view is None else self.clone()
            view._store = base._store
            frames = flat.select(i[0], base.size0(), "frame")
            view._view = (
                frames,
                flat.row_picker(i[1]),
                flat.select(i[2], base.size2(), "column"),
            )
            return view
        if isinstance(i, slice) or (isinstance(i, tuple) and not all(is_int(part) for part in i)):
            raise TypeError(f"write [frames, rows, columns], such as [1:, :, :], not {i!r}")
        frames = flat.select(list(i) if isinstance(i, tuple) else i, self.size0(), "frame")
        values, lengths = self._read()
        rows = flat.rows_of(frames, lengths)
        return self._of(values[rows], lengths[frames])

    def __add__(self, other: Any) -> Self:
        """Sum with a number, or with a buffer of the same lengths or of one row in each frame."""
        return self._binary(other, np.add)

    def __mul__(self, other: Any) -> Self:
        """Product, as for ``+``."""
        return self._binary(other, np.multiply)

    def __isub__(self, other: Any) -> Self:
        """Subtract a view from a view with all rows; changes the buffer that it is a view of."""
        if type(other) is not type(self) or self._dtype is np.bool_:
            return NotImplemented
        if self._view is None or other._view is None:
            raise ValueError("-= needs a view on both sides: v = b[:, :, :]; v -= other[:, :, :]")
        frames, pick, columns = self._view
        if pick is not ALL_ROWS or other._view[1] is not ALL_ROWS:
            raise ValueError("-= needs views of all rows")
        rows = flat.rows_of(frames, self._store.read()[1])
        result = self._binary(other, np.subtract)
        if result.items() != len(rows):
            raise ValueError("-= cannot add rows")
        self._store.read()[0][rows[:, None], columns] = result._store.read()[0]
        return self

    def __eq__(self, other: object) -> bool:
        """Whether type, lengths, width and all values are equal; NaN equals nothing."""
        if not isinstance(other, RaggedBuffer) or type(other) is not type(self):
            return False
        (a, a_lengths), (b, b_lengths) = self._read(), other._read()
        return np.array_equal(a_lengths, b_lengths) and np.array_equal(a, b)

    def indices(self, dim: int) -> RaggedBufferI64:
        """For each row the index of its frame (``dim=0``), or its place in the frame (1)."""
        lengths = self._read()[1]
        if dim not in (0, 1):
            raise ValueError(f"Invalid dimension {dim}")
        return RaggedBufferI64._of(flat.repeated_indices(lengths, dim)[:, None], lengths)

    def flat_indices(self) -> RaggedBufferI64:
        """For each row its index among all rows."""
        lengths = self._read()[1]
        return RaggedBufferI64._of(np.arange(lengths.sum(), dtype=np.int64)[:, None], lengths)

    def padpack(self) -> tuple[Ints, npt.NDArray[np.float32], Ints] | None:
        """Short frames packed side by side into padded sequences; None if all have one length.

        Returns:
            The row at each place (0 at padding) and its frame (NaN at padding), both of shape
            (S, longest); the flat place of each row, shape (N,).
        """
        return flat.pad_and_pack(self._read()[1])

    @classmethod
    def cat(cls, buffers: Sequence[RaggedBuffer[Scalar]], dim: int) -> Self:
        """One buffer: more frames (``dim=0``), more rows in each frame (1), or wider rows (2)."""
        if not buffers:
            raise ValueError("cat requires at least one ragged buffer")
        cls._same_type(buffers)
        parts = [buffer._read() for buffer in buffers]
        joined = (flat.cat_frames, flat.cat_rows, flat.cat_columns)
        if dim not in (0, 1, 2):
            raise ValueError(f"Invalid dimension {dim}, RaggedBuffer only has 3 dimensions")
        return cls._of(*joined[dim](parts))

    def __repr__(self) -> str:
        """All rows as text, in the form of the package."""
        return flat.write(*self._read(), self._name)

    def _read(self) -> Parts:
        """The rows and lengths that this buffer shows, to be copied before they are given away."""
        values, lengths = self._store.read()
        if self._view is None:
            return values, lengths
        frames, pick, columns = self._view
        rows, counts = flat.pick_rows(frames, pick, lengths)
        return values[rows[:, None], columns], counts

    def _owned(self) -> Store:
        """The store to change: a view lets go of the buffer that it shows."""
        if self._view is not None:
            self._store, self._view = self.clone()._store, None
        return self._store

    @classmethod
    def _same_type(cls, buffers: Sequence[object]) -> None:
        for buffer in buffers:
            if type(buffer) is not cls:
                raise TypeError(f"{type(buffer).__name__!r} is not a {cls.__name__!r}")

    def _binary(self, other: Any, op: Callable[..., Any]) -> Self:
        if self._dtype is not np.bool_ and isinstance(other, self._scalars):
            values, lengths = self._read()
            return self._of(op(values, self._dtype(other)), lengths)
        if self._dtype is np.bool_ or type(other) is not type(self):
            return NotImplemented  # type: ignore[no-any-return]
        return self._of(*flat.combine(op, self._read(), other._read()))


class RaggedBufferF32(RaggedBuffer[np.float32]):
    """A ragged buffer of float32."""

    _dtype = np.float32
    _name = "f32"
    _scalars = (int, float, np.number, np.bool_)


class RaggedBufferI64(RaggedBuffer[np.int64]):
    """A ragged buffer of int64."""

    _dtype = np.int64
    _name = "i64"
    _scalars = (int, np.integer)


class RaggedBufferBool(RaggedBuffer[np.bool_]):
    """A ragged buffer of bool, without arithmetic."""

    _dtype = np.bool_
    _name = "bool"


def cat(buffers: Sequence[Any], dim: int = 0) -> Any:
    """One buffer out of several of one type, joined along a dimension; see ``RaggedBuffer.cat``."""
    if not buffers:
        raise ValueError("Can't concatenate an empty list of buffers")
    if not isinstance(buffers[0], RaggedBuffer):
        raise TypeError(f"Type {type(buffers[0])} is not a RaggedBuffer")
    return type(buffers[0]).cat(buffers, dim)
