"""Conversion of answers to the page to bytes: JSON, followed by its arrays."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["to_message"]

_KINDS = {"f": np.float32, "b": np.uint8, "u": np.uint8}
"""The types for sending real numbers, booleans and pictures; others are sent as int32."""
_ALIGNED = 4
"""Arrays begin at multiples of this number of bytes, so that the page need not copy them."""


def to_message(answer: Any) -> bytes:
    """Return an answer as bytes.

    They are the length of the JSON, in four bytes, the JSON and the arrays. In the JSON, the type,
    the shape and the first byte (counted from the end of the JSON) replace an array. All numbers
    are little-endian.

    Args:
        answer: A JSON value that may contain arrays.

    Raises:
        ValueError: A number outside of arrays is not finite.
    """
    parts: list[bytes] = []
    end = 0

    def place(values: npt.NDArray[Any]) -> dict[str, Any]:
        nonlocal end
        kind = np.dtype(_KINDS.get(values.dtype.kind, np.int32)).newbyteorder("<")
        data = values.astype(kind).tobytes()
        parts.append(data + bytes(-len(data) % _ALIGNED))
        entry = {"$array": f"{kind.kind}{kind.itemsize}", "shape": values.shape, "at": end}
        end += len(parts[-1])
        return entry

    text = json.dumps(answer, default=place, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return b"".join([len(text).to_bytes(_ALIGNED, "little"), text, *parts])
