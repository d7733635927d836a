"""The parts of a Gymnasium space: their names, such as ``arm/speed[0]``, and numbers of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

__all__ = ["Path", "counts_of", "named_parts", "names_of", "value_at"]

Path = tuple[Any, ...]
"""The keys and places that lead to a part."""


def named_parts(
    space: spaces.Space[Any], root: str, name: str = "", path: Path = ()
) -> Iterator[tuple[str, Path, spaces.Space[Any]]]:
    """Yield the name, the path and the space of each part, through all ``Dict``s and ``Tuple``s.

    Args:
        space: The space.
        root: The name of a space without parts, and of a ``Tuple`` before the places of its parts.
        name: The name of ``space`` within a larger one.
        path: The path to ``space`` within a larger one.
    """
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from named_parts(inner, root, f"{name}/{key}" if name else str(key), (*path, key))
    elif isinstance(space, spaces.Tuple):
        for place, inner in enumerate(space.spaces):
            yield from named_parts(inner, root, f"{name or root}/{place}", (*path, place))
    else:
        yield name or root, path, space


def names_of(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return a name for each number of an array: ``name``, ``name[2]``, ``name[0,2]``."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, place))}]" for place in np.ndindex(*shape)]


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


def value_at(value: Any, path: Path) -> Any:
    """Return the part of an observation or action at ``path``."""
    for key in path:
        if isinstance(value, Mapping) and key not in value:
            raise KeyError(f"the part {key!r} is missing")
        value = value[key]
    return value
