"""Ragged buffers: lists of frames, each with any number of rows.

They are those of the package ``ragged_buffer`` if it is installed, else those of the replacement
``ragged_numpy``. Import them from this module only. The package raises a ``BaseException`` for an
index that does not exist; use ``frame`` and ``lengths``, which check first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.errors import counted

if TYPE_CHECKING:
    from entity_env.batching.ragged_numpy import (
        RaggedBuffer,
        RaggedBufferBool,
        RaggedBufferF32,
        RaggedBufferI64,
        cat,
    )
else:
    try:
        from ragged_buffer import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64, cat
    except ImportError:
        from entity_env.batching.ragged_numpy import (
            RaggedBufferBool,
            RaggedBufferF32,
            RaggedBufferI64,
            cat,
        )

__all__ = [
    "ActionBuffer",
    "RaggedBufferBool",
    "RaggedBufferF32",
    "RaggedBufferI64",
    "cat",
    "frame",
    "lengths",
    "offsets",
]


ActionBuffer: TypeAlias = Union[RaggedBufferI64, RaggedBufferF32]
"""The choices of actors: indices (B, A, 1), or for a continuous action its numbers (B, A, K)."""


def lengths(buffer: RaggedBuffer[Any]) -> npt.NDArray[np.int64]:
    """Return the number of rows of each frame. Shape: (B,)."""
    # Check size0 first, because size1 of the package fails for some views.
    rows = buffer.materialize().size1() if buffer.size0() else np.zeros(0, np.int64)
    return np.asarray(rows, np.int64)


def offsets(buffer: RaggedBuffer[Any]) -> npt.NDArray[np.int64]:
    """Return the first row of each frame, and the end of the last one. Shape: (B + 1,)."""
    starts = np.zeros(buffer.size0() + 1, np.int64)
    np.cumsum(lengths(buffer), out=starts[1:])
    return starts


def frame(buffer: RaggedBuffer[Any], i: int) -> npt.NDArray[Any]:
    """Return the rows of frame ``i``, a copy. Shape: (N, D).

    Raises:
        IndexError: ``i`` is not one of ``0 .. B - 1``.
    """
    if not 0 <= i < buffer.size0():
        raise IndexError(f"frame {i} of a ragged buffer of {counted(buffer.size0(), 'frame')}")
    return buffer.materialize()[int(i)].as_array()
