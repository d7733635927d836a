"""Safe reading of JSON from other people, with limits of size and depth; arrays as its strings."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["count_values", "pack_array", "parse_json", "unpack_array"]


def parse_json(text: bytes, most_values: int) -> Any:
    """Return the value of a JSON text in UTF-8.

    Args:
        text: The text.
        most_values: Largest number of numbers, strings, lists and dicts in it, because each needs
            some 60 bytes of memory.

    Raises:
        ValueError: The text is not JSON, has more values, or is nested too deeply.
    """
    values = count_values(text)
    if values > most_values:
        raise ValueError(f"it has up to {values:,} values, but at most {most_values:,} are allowed")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def count_values(text: bytes) -> int:
    """Return an upper bound of the number of values in a JSON text, by counting separators."""
    return 1 + sum(map(text.count, (b",", b"[", b"{", b":")))


def pack_array(array: npt.NDArray[Any]) -> str:
    """Return the numbers of an array as compressed bytes in base64, for ``unpack_array``."""
    numbers = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return base64.b64encode(zlib.compress(numbers.tobytes(), level=1)).decode()


def unpack_array(text: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the array of a text of ``pack_array``, of which at most its size is decompressed.

    Raises:
        ValueError: The text is damaged, or contains another number of bytes.
    """
    form = np.dtype(dtype).newbyteorder("<")
    size = form.itemsize * int(np.prod(shape, dtype=np.int64))
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(base64.b64decode(text, validate=True), size + 1)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"a packed array is damaged: {error}") from error
    if len(data) != size or not reader.eof or reader.unused_data:
        raise ValueError(f"a packed array does not contain {size:,} bytes")
    if form.kind == "b" and not set(data) <= {0, 1}:
        raise ValueError("a packed array of booleans contains other numbers than 0 and 1")
    return np.frombuffer(data, form).reshape(shape).astype(dtype)
