"""Continuous actions, in which actors or the player set numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import ContinuousAction, GlobalContinuousAction
from entity_env.arguments import quick_arguments
from entity_env.batching.actor_columns import Given, RowLayout
from entity_env.batching.frame import Frame, FrameActors
from entity_env.batching.kinds.answers import AnswerForm
from entity_env.batching.kinds.kind import Asked, Bools, Kind, Renumbering, VecMask, joined
from entity_env.batching.masks import MaskReader
from entity_env.batching.ragged import RaggedBufferF32, RaggedBufferI64
from entity_env.errors import ActionError, ObservationError
from entity_env.observation import (
    ActionMask,
    ContinuousActionMask,
    EntityID,
    GlobalContinuousActionMask,
)
from entity_env.spaces import ContinuousActionSpace, GlobalContinuousActionSpace

__all__ = [
    "ContinuousKind",
    "GlobalContinuousKind",
    "VecContinuousActionMask",
    "bounds_of",
    "numbers_error",
    "numbers_text",
    "random_numbers",
    "range_text",
]

Floats = npt.NDArray[np.float32]


@quick_arguments(ObservationError)
@dataclass(frozen=True)
class VecContinuousActionMask(VecMask):
    """The actors of a continuous action in each frame, and the bounds of their numbers.

    A global action has one actor in each frame where it is available; its index is the number of
    entities of that frame.

    Args:
        actors: Entity indices within the frame. Shape: (B, A, 1).
        low: Lower bound of each number, -inf for no bound. Shape: (K,), float32.
        high: Upper bound of each number, inf for no bound. Shape: (K,), float32.
    """

    low: Floats
    high: Floats

    def part(self, order: Renumbering) -> tuple[VecContinuousActionMask, Bools, Floats]:
        """Return the actors that stay; the others set the numbers closest to 0 in their bounds."""
        stays, actors = self._staying(order)
        closest = np.clip(np.zeros((len(stays), len(self.low)), np.float32), self.low, self.high)
        return replace(self, actors=actors), stays, closest

    def draw(self, rng: np.random.Generator) -> RaggedBufferF32:
        """Return random numbers for each actor, (B, A, K); see ``random_numbers``."""
        lengths = self.actors.size1()
        numbers = random_numbers(int(lengths.sum()), self.low, self.high, rng)
        return RaggedBufferF32.from_flattened(numbers, lengths)

    def check(self, name: str, space: Any, values: Floats, where: Callable[[int], str]) -> None:
        """Check that the numbers are within their bounds, and not NaN."""
        inside = (values >= self.low) & (values <= self.high) & np.isfinite(values)
        if not inside.all():
            actor = int(np.argmin(inside.all(axis=1)))
            raise numbers_error(name, values[actor], self.low, self.high, where(actor))

    @property
    def logits_shape(self) -> tuple[int, ...]:
        """The shape (A, 2 * K) of means and standard deviations."""
        return int(self.actors.items()), 2 * len(self.low)


@lru_cache(maxsize=256)
def bounds_of(space: ContinuousActionSpace | GlobalContinuousActionSpace) -> tuple[Floats, Floats]:
    """Return the low and high bounds of a space, read-only. Shape: (K,), float32."""
    low, high = (np.array(bounds, np.float32) for bounds in space.inner_bounds)
    low.flags.writeable = high.flags.writeable = False
    return low, high


def random_numbers(count: int, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """Return random numbers for ``count`` actors between bounds (K,). Shape: (A, K), float32.

    The distribution is uniform between two bounds, exponential beyond one bound, and normal without
    bounds, as in ``Box.sample`` of Gymnasium.
    """
    shape = count, len(low)
    has_low, has_high = np.isfinite(low), np.isfinite(high)
    wide = low.astype(np.float64), high.astype(np.float64)
    even = np.where(has_low, wide[0], 0), np.where(has_high, wide[1], 0)
    drawn: Any = np.where(
        has_low & has_high,
        even[0] + rng.random(shape) * (even[1] - even[0]),
        np.where(has_low, even[0] + rng.exponential(size=shape), rng.standard_normal(shape)),
    )
    only_high = has_high & ~has_low
    drawn = np.where(only_high, even[1] - rng.exponential(size=shape), drawn)
    numbers: Floats = drawn.clip(low, high).astype(np.float32)
    return numbers


def numbers_error(
    name: str, values: Floats, low: Floats, high: Floats, where: str | None = None
) -> ActionError:
    """Return the error for the numbers (K,) of one actor, one of which is out of bounds."""
    inside = (values >= low) & (values <= high) & np.isfinite(values)
    place = int(np.argmin(inside))
    return ActionError(
        f"action {name!r}: number {place} is out of bounds",
        expected=f"a finite number from {low[place]:g} to {high[place]:g}",
        received=float(values[place]),
        where=where,
    )


class ContinuousKind(Kind):
    """The kind of actions in which each of several actors sets numbers."""

    name = "continuous"
    space: type[Any] = ContinuousActionSpace
    mask: type[Any] = ContinuousActionMask
    action: type[Any] = ContinuousAction
    answer = "values"
    vec_mask = VecContinuousActionMask
    nobody: Any = ContinuousActionMask(actor_types=())
    keys = ("low", "high")

    def form(self, space: Any) -> AnswerForm:
        """Return a form of K real numbers."""
        return AnswerForm(True, len(space))

    def read(self, reader: MaskReader, name: str, mask: Any, space: Any) -> FrameActors | None:
        """Return the actors."""
        actors = self.actors(reader, name, mask)
        return FrameActors(np.array(actors, np.int64)) if actors else None

    def read_rows(self, given: Given, name: str, space: Any, layout: RowLayout) -> Any:
        """Return the masks of all rows."""
        _, actors, lengths = self.actors_of_rows(given, name, layout)
        return self.build(space, RaggedBufferI64.from_flattened(actors[:, None], lengths))

    def pack(self, parts: Sequence[FrameActors | None], space: Any) -> Any:
        """Return the actors of many frames as one batch."""
        return self.build(space, joined(_NOBODY if own is None else own.actors for own in parts))

    def observed(
        self, ids: list[EntityID], allowed: Any | None, actees: list[EntityID]
    ) -> ActionMask:
        """Return the actors."""
        mask: ActionMask = self.mask() if self.is_global else self.mask(actor_ids=ids)
        return mask

    def build(
        self,
        space: Any,
        actors: RaggedBufferI64,
        mask: Any | None = None,
        actees: RaggedBufferI64 | None = None,
    ) -> Any:
        """Return a batch of masks from actors; the bounds are those of the space."""
        return VecContinuousActionMask(actors, *bounds_of(space))

    def answers(self, space: Any, values: npt.NDArray[Any], asked: Asked) -> Sequence[Any]:
        """Return the numbers."""
        return (values.astype(np.float32, copy=False),)

    def allows(self, given: Any, who: Any, frame: Frame) -> bool:
        """Return True, because numbers can always be set again."""
        return True

    def task(self, space: Any) -> str:
        """Return the bounds of the numbers to set."""
        return f"set {range_text(space)}"

    def describe(
        self, space: Any, answer: Any, name_of: Callable[[int], str]
    ) -> tuple[str, int | None]:
        """Return the numbers."""
        return numbers_text(answer), None

    def to_json(self, space: Any) -> dict[str, Any]:
        """Return the bounds; None for infinite ones, which JSON does not have."""
        return {
            key: [bound if math.isfinite(bound) else None for bound in bounds]
            for key, bounds in (("low", space.low), ("high", space.high))
        }


class GlobalContinuousKind(ContinuousKind):
    """The kind of actions in which the player as a whole sets numbers."""

    name = "global_continuous"
    space = GlobalContinuousActionSpace
    mask = GlobalContinuousActionMask
    action = GlobalContinuousAction
    nobody = GlobalContinuousActionMask()

    def answers(self, space: Any, values: npt.NDArray[Any], asked: Asked) -> Sequence[Any]:
        """Return the numbers of each player."""
        return ([(own,) for own in values.astype(np.float32, copy=False)],)


def range_text(space: ContinuousActionSpace | GlobalContinuousActionSpace) -> str:
    """Return the bounds of a continuous action as text: ``a number from -2 to 2``."""
    ends = [
        "of any size" if -low == high == math.inf else f"from {low:g} to {high:g}"
        for low, high in zip(space.low, space.high, strict=True)
    ]
    if len(set(ends)) == 1:
        return f"a number {ends[0]}" if len(ends) == 1 else f"{len(ends)} numbers {ends[0]}"
    return f"{len(ends)} numbers: {', '.join(ends)}"


def numbers_text(numbers: Sequence[float]) -> str:
    """Return the numbers of a continuous action: ``0.5``, or ``(0.5, -1)``."""
    shown = [f"{number:.3g}" for number in numbers]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


_NOBODY = np.zeros(0, np.int64)
