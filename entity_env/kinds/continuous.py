"""Continuous actions: who sets numbers, read, batched, drawn at random, checked and answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import ContinuousAction, GlobalContinuousAction
from entity_env.batching.ragged import RaggedBufferI64
from entity_env.errors import ActionIndexError, ActionShapeError, shorten
from entity_env.observation import EntityID
from entity_env.spaces import ContinuousActionSpace, GlobalContinuousActionSpace

__all__ = [
    "ContinuousActors",
    "VecContinuousActionMask",
    "answered",
    "as_numbers",
    "bounds_of",
    "check_numbers",
    "numbers_error",
    "pack_actors",
    "random_numbers",
]

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ContinuousActors:
    """Who sets numbers in one frame: ``actors`` (A,) int64 entity indices."""

    actors: npt.NDArray[np.int64]


@dataclass(frozen=True)
class VecContinuousActionMask:
    """The actors of a continuous action in each frame, and between which bounds they set numbers.

    A global action has one actor in each frame where it is available; its index is the number of
    entities of that frame.

    Args:
        actors: Entity indices within the frame. Shape: (B, A, 1).
        low: The least value of each number, -inf where there is none. Shape: (K,), float32.
        high: The greatest value of each number. Shape: (K,), float32.
    """

    actors: RaggedBufferI64
    low: Floats
    high: Floats


@lru_cache(maxsize=256)
def bounds_of(space: ContinuousActionSpace | GlobalContinuousActionSpace) -> tuple[Floats, Floats]:
    """The bounds of a space, low and high, which nobody can write to. Shape: (K,), float32."""
    low, high = (np.array(bounds, np.float32) for bounds in space.inner_bounds)
    low.flags.writeable = high.flags.writeable = False
    return low, high


def pack_actors(
    parts: Iterable[ContinuousActors | None],
    space: ContinuousActionSpace | GlobalContinuousActionSpace,
) -> VecContinuousActionMask:
    """The actors of many frames; None stands for a frame without any."""
    actors = [_NOBODY if part is None else part.actors for part in parts]
    lengths = np.array([len(own) for own in actors], np.int64)
    flat = np.concatenate([_NOBODY, *actors])[:, None]
    return VecContinuousActionMask(RaggedBufferI64.from_flattened(flat, lengths), *bounds_of(space))


def random_numbers(mask: VecContinuousActionMask, rng: np.random.Generator) -> Floats:
    """Numbers for all actors. Shape: (A, K), float32.

    Evenly between two bounds, exponentially beyond one, and normally without any, as ``Box.sample``
    of Gymnasium draws them.
    """
    shape = int(mask.actors.items()), len(mask.low)
    low, high = mask.low.astype(np.float64), mask.high.astype(np.float64)
    has_low, has_high = np.isfinite(low), np.isfinite(high)
    even = np.where(has_low, low, 0), np.where(has_high, high, 0)
    drawn: Any = np.where(
        has_low & has_high,
        even[0] + rng.random(shape) * (even[1] - even[0]),
        np.where(has_low, even[0] + rng.exponential(size=shape), rng.standard_normal(shape)),
    )
    only_high = has_high & ~has_low
    drawn = np.where(only_high, even[1] - rng.exponential(size=shape), drawn)
    numbers: Floats = drawn.clip(mask.low, mask.high).astype(np.float32)
    return numbers


def check_numbers(name: str, values: Floats, mask: VecContinuousActionMask, where: Any) -> None:
    """Check that numbers are within their bounds.

    Args:
        name: The action.
        values: Shape: (A, K).
        mask: What they answer.
        where: Called with the place of an actor among all; says where it is.

    Raises:
        ActionIndexError: One is not, or is NaN.
    """
    inside = (values >= mask.low) & (values <= mask.high) & np.isfinite(values)
    if not inside.all():
        actor = int(np.argmin(inside.all(axis=1)))
        raise numbers_error(name, values[actor], mask.low, mask.high, where(actor))


def numbers_error(
    name: str, values: Floats, low: Floats, high: Floats, where: str | None = None
) -> ActionIndexError:
    """The error for the numbers (K,) of one actor, one of which is out of bounds."""
    inside = (values >= low) & (values <= high) & np.isfinite(values)
    place = int(np.argmin(inside))
    return ActionIndexError(
        f"action {name!r}: number {place} is out of bounds",
        expected=f"a finite number from {low[place]:g} to {high[place]:g}",
        received=float(values[place]),
        where=where,
    )


def as_numbers(name: str, values: Any, count: int, width: int) -> Floats:
    """What somebody gives as the numbers of ``count`` actors, as an array (count, width).

    Raises:
        ActionShapeError: Not as many numbers, or none.
    """
    try:
        array = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        array = np.zeros((), np.float32)
    if array.shape != (count, width) and not (count == 0 and array.size == 0):
        raise ActionShapeError(
            f"action {name!r} has the wrong numbers",
            expected=f"real numbers, shape ({count} actors, {width})",
            received=shorten(values),
        )
    return array.reshape(count, width)


def answered(
    is_global: bool,
    actors: Sequence[EntityID],
    values: Floats,
    lengths: npt.NDArray[np.int64],
) -> Iterator[ContinuousAction | GlobalContinuousAction | None]:
    """The action of each frame as its environment receives it; None where the player has none.

    Args:
        is_global: Whether the player as a whole acts.
        actors: The ids of the actors of all frames; not looked at where the player acts.
        values: What they set. Shape: (A, K).
        lengths: How many actors each frame has. Shape: (B,).
    """
    ends = lengths.cumsum().tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        if not is_global:
            yield ContinuousAction(actors[start:end], values[start:end])
        else:
            yield GlobalContinuousAction(values[start]) if end > start else None


_NOBODY = np.zeros(0, np.int64)
