"""The parts of a Gymnasium space: their names, such as ``arm/speed[0]``, and numbers of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

__all__ = ["counts_of", "named_parts", "names_of"]


def names_of(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return a name for each number of an array: ``name``, ``name[2]``, ``name[0,2]``."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, place))}]" for place in np.ndindex(*shape)]


def named_parts(
    space: spaces.Dict | spaces.Tuple[Any], name: str, root: str
) -> Iterator[tuple[Any, spaces.Space[Any], str]]:
    """Yield the parts of a ``Dict`` or ``Tuple`` with their names.

    Args:
        space: The space.
        name: Its name, or "" for the complete observation or action.
        root: The name used for "" before the places of a ``Tuple``.

    Yields:
        The key or place, the space and the name of each part.
    """
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield key, inner, f"{name}/{key}" if name else str(key)
    else:
        for place, inner in enumerate(space.spaces):
            yield place, inner, f"{name or root}/{place}"


def counts_of(
    space: spaces.Space[Any],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return the number of values of each number of a discrete space, and the first value.

    Returns:
        Two arrays of the shape of the space; None for a space that is not discrete.
    """
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.n), np.asarray(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec, space.start
    if isinstance(space, spaces.MultiBinary):
        return np.full(space.shape, 2), np.zeros(space.shape, np.int64)
    return None
