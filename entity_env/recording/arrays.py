"""Arrays as bytes: a JSON index, then the values of each array in the narrowest possible type.

The index has the type of each array, the type in which it is stored, and its number of values. The
arrays follow one after the other, little-endian: the first bytes of all values, then their second
bytes and so on, which compresses better than value by value.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.storage.bounded_json import parse_json

__all__ = ["MOST_INDEX", "Array", "check_index", "pack_arrays", "unpack_arrays"]

Array: TypeAlias = npt.NDArray[Any]

MOST_INDEX = 1 << 20
"""Bytes of an index; tens of thousands of arrays."""
_MOST_VALUES = 400_000

_BITS = "bits"
# Types in which an array may be stored if that preserves all bits, the narrowest first.
_NARROWER: dict[str, tuple[str, ...]] = {
    "<i8": ("|i1", "<i2", "<i4"),
    "<f8": ("|i1", "<i2", "<f2", "<f4"),
    "<f4": ("|i1", "<i2", "<f2"),
    "|b1": (_BITS,),
    "|u1": (),
}
_LENGTH = struct.Struct("<I")
_PROBE = 64
"""Number of values that are checked first; they usually show if a type is too narrow."""


def pack_arrays(arrays: Sequence[Array]) -> bytes:
    """Return the bytes of flat arrays of int64, float64, float32, bool or uint8."""
    stored = [_narrowed(array) for array in arrays]
    index = [
        [array.dtype.str, kind, array.size] for array, (kind, _) in zip(arrays, stored, strict=True)
    ]
    text = json.dumps(index, separators=(",", ":")).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *(values.tobytes() for _, values in stored)])


def unpack_arrays(packed: bytes, most_bytes: int) -> list[Array]:
    """Return the arrays in bytes written by ``pack_arrays``.

    Raises:
        ValueError: The bytes are damaged, or the arrays need more than ``most_bytes``.
    """
    if len(packed) < _LENGTH.size:
        raise ValueError("no index")
    start = _LENGTH.size + _LENGTH.unpack_from(packed)[0]
    arrays = []
    for dtype, kind, count in check_index(
        packed[_LENGTH.size : start], len(packed) - start, most_bytes
    ):
        if kind == _BITS:
            bits = np.frombuffer(packed, np.uint8, -(-count // 8), start)
            arrays.append(np.unpackbits(bits, count=count).view(np.bool_))
            start += bits.nbytes
        else:
            size = np.dtype(kind).itemsize
            planes = np.frombuffer(packed, np.uint8, count * size, start).reshape(size, count)
            arrays.append(planes.T.ravel().view(kind).astype(dtype))
            start += planes.size
    return arrays


def check_index(text: bytes, stored_bytes: int, most_bytes: int) -> list[tuple[str, str, int]]:
    """Return the type, the stored type and the number of values of each array.

    Args:
        text: The index.
        stored_bytes: Number of bytes after the index.
        most_bytes: Largest allowed number of bytes of the arrays.

    Raises:
        ValueError: The index is damaged, does not match the bytes, or the arrays are too large.
    """
    entries: list[tuple[str, str, int]] = []
    for dtype, kind, count in parse_json(text, _MOST_VALUES):
        if kind != dtype and kind not in _NARROWER[dtype]:
            raise ValueError(f"{dtype} is not stored as {kind}")
        if type(count) is not int or count < 0:
            raise ValueError(f"an array of {count} values")
        most_bytes -= count * np.dtype(dtype).itemsize
        stored_bytes -= -(-count // 8) if kind == _BITS else count * np.dtype(kind).itemsize
        entries.append((dtype, kind, count))
    if most_bytes < 0:
        raise ValueError("larger than it says")
    if stored_bytes:
        raise ValueError("it has other bytes than those of its arrays")
    return entries


def _narrowed(values: Array) -> tuple[str, Array]:
    """Return the name of the narrowest type that holds ``values``, and their bytes in it."""
    kind = values.dtype.str
    for narrower in _NARROWER[kind]:
        if narrower == _BITS:
            return narrower, np.packbits(values)
        with np.errstate(all="ignore"):  # the comparison finds values that do not fit
            if _survives(values[:_PROBE], narrower) and _survives(values, narrower):
                kind = narrower
                break
    narrow = values.astype(kind, copy=False)
    return kind, narrow.view(np.uint8).reshape(-1, narrow.itemsize).T


def _survives(values: Array, kind: str) -> bool:
    """Return True if a type preserves all bits, including those of NaN and -0.0."""
    back = values.astype(kind).astype(values.dtype)
    whole = f"u{values.itemsize}"
    return np.array_equal(back.view(whole), values.view(whole))
