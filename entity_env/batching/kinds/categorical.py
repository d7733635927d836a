"""Categorical actions, in which actors or the player pick one of a list of choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import CategoricalAction, GlobalCategoricalAction
from entity_env.arguments import quick_arguments
from entity_env.batching.actor_columns import Given, RowLayout
from entity_env.batching.feature_tables import ARRAYS, Bools, UnusualError, boolean_table
from entity_env.batching.features import every
from entity_env.batching.frame import Frame, FrameActors
from entity_env.batching.kinds.kind import (
    Asked,
    Ints,
    Kind,
    Renumbering,
    VecMask,
    frame_lengths,
    joined,
)
from entity_env.batching.masks import MaskReader, bool_array
from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferI64
from entity_env.errors import ActionError, MaskError, ObservationError, counted
from entity_env.observation import (
    ActionMask,
    CategoricalActionMask,
    EntityID,
    GlobalCategoricalActionMask,
)
from entity_env.spaces import CategoricalActionSpace, GlobalCategoricalActionSpace

__all__ = [
    "CategoricalKind",
    "FrameCategoricalActors",
    "GlobalCategoricalKind",
    "VecCategoricalActionMask",
]


@dataclass(frozen=True, slots=True)
class FrameCategoricalActors(FrameActors):
    """The ``actors`` (A,) int64 that pick a choice, and their ``mask`` (A, C)."""

    mask: Bools


@quick_arguments(ObservationError)
@dataclass(frozen=True)
class VecCategoricalActionMask(VecMask):
    """The actors of a categorical action in each frame, and their choices.

    A global action has one actor in each frame where it is available; its index is the number of
    entities of that frame.

    Args:
        actors: Entity indices within the frame. Shape: (B, A, 1).
        mask: Shape: (B, A, C), True = allowed.
    """

    mask: RaggedBufferBool

    def select(self, frames: Ints) -> VecCategoricalActionMask:
        """Return the mask of some frames, in the order given. Shape of ``frames``: (K,)."""
        return replace(self, actors=self.actors[frames], mask=self.mask[frames])

    def _of_frame(self, actors: Ints) -> FrameActors:
        return FrameCategoricalActors(actors, self.mask.as_array())

    def part(self, order: Renumbering) -> tuple[VecCategoricalActionMask, Bools, Ints]:
        """Return the actors that stay; the others take the first choice that is allowed."""
        stays, actors = self._staying(order)
        allowed = self.mask.as_array()
        mask = RaggedBufferBool.from_flattened(allowed[stays], actors.size1())
        return VecCategoricalActionMask(actors, mask), stays, allowed.argmax(axis=1)[:, None]

    def draw(self, rng: np.random.Generator) -> RaggedBufferI64:
        """Return a choice of each actor, evenly among those that are allowed."""
        allowed = self.mask.as_array()
        chosen = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)
        return RaggedBufferI64.from_flattened(chosen[:, None], self.actors.size1())

    def check(
        self, name: str, space: Any, values: npt.NDArray[Any], where: Callable[[int], str]
    ) -> None:
        """Check that each choice exists and is allowed."""
        flat, allowed, choices = values[:, 0], self.mask.as_array(), self.mask.size2()
        inside = flat.view(np.uint64) < choices  # negative numbers become large
        if not every(inside):
            first = int(np.argmin(inside))
            raise ActionError(
                f"action {name!r} has no choice {flat[first]}",
                expected=f"a whole number from 0 to {choices - 1}",
                received=flat[first],
                where=where(first),
            )
        legal = allowed.take(np.arange(0, len(flat) * choices, choices) + flat)
        if not every(legal):
            first = int(np.argmin(legal))
            what = f"action {name!r}: choice {flat[first]}"
            raise masked(what, space, flat[first], allowed[first], where(first))

    @property
    def logits_shape(self) -> tuple[int, ...]:
        """(A, C)."""
        return int(self.actors.items()), self.mask.size2()


def masked(
    what: str, space: Any, choice: int, allowed: Bools, where: str | None = None
) -> ActionError:
    """Return the error for a choice that is masked, with the labels of choices.

    Args:
        what: The action and its choice.
        space: The space of the action.
        choice: The index of the choice.
        allowed: The mask of the actor. Shape: (C,).
        where: The place, if it is known.
    """
    names = [f"{i} ({label})" for i, label in enumerate(space.index_to_label)]
    valid = [names[i] for i in np.flatnonzero(allowed)]
    more = ["..."] * (len(valid) > _MOST_LISTED)
    return ActionError(
        f"{what} is masked",
        expected="one of " + ", ".join([*valid[:_MOST_LISTED], *more]),
        received=names[choice],
        where=where,
    )


_MOST_LISTED = 50


class CategoricalKind(Kind):
    """The kind of actions in which each of several actors picks a choice."""

    name = "categorical"
    space: type[Any] = CategoricalActionSpace
    mask: type[Any] = CategoricalActionMask
    action: type[Any] = CategoricalAction
    answer = "indices"
    vec_mask = VecCategoricalActionMask
    nobody: Any = CategoricalActionMask(actor_types=())
    keys = ("labels",)

    def read(self, reader: MaskReader, name: str, mask: Any, space: Any) -> FrameActors | None:
        """Return the actors and their choices, (A, C)."""
        actors, choices = self.actors(reader, name, mask), len(space)
        given = self._mask_of_frame(name, mask.mask, choices)
        allowed = reader.allowed(name, given, actors, choices, "choices")
        if not actors:
            return None
        if allowed is None:
            allowed = np.ones((len(actors), choices), dtype=np.bool_)
        return FrameCategoricalActors(np.array(actors, dtype=np.int64), allowed)

    def read_rows(self, given: Given, name: str, space: Any, layout: RowLayout) -> Any:
        """Return the masks of all rows."""
        masks, actors, lengths = self.actors_of_rows(given, name, layout)
        allowed = _choices(self._masks_of_rows(masks), len(actors), lengths, len(space))
        return VecCategoricalActionMask(
            actors=RaggedBufferI64.from_flattened(actors[:, None], lengths),
            mask=RaggedBufferBool.from_flattened(allowed, lengths),
        )

    def _mask_of_frame(self, name: str, mask: Any, choices: int) -> Any:
        return mask

    def _masks_of_rows(self, masks: list[Any]) -> list[Any]:
        return [mask.mask for mask in masks]

    def pack(self, parts: Sequence[FrameCategoricalActors | None], space: Any) -> Any:
        """Return the actors of many frames as one batch."""
        own = [part for part in parts if part is not None]
        masks = [np.zeros((0, len(space)), np.bool_), *(part.mask for part in own)]
        actors = joined(_NOBODY if part is None else part.actors for part in parts)
        lengths = actors.size1() if parts else frame_lengths([])
        mask = RaggedBufferBool.from_flattened(np.concatenate(masks), lengths)
        return VecCategoricalActionMask(actors, mask)

    def observed(
        self, ids: list[EntityID], allowed: Any | None, actees: list[EntityID]
    ) -> ActionMask:
        """Return the actors and their choices."""
        actors: dict[str, Any] = {} if self.is_global else {"actor_ids": ids}
        mask: ActionMask = self.mask(**actors, mask=allowed)
        return mask

    def build(
        self,
        space: Any,
        actors: RaggedBufferI64,
        mask: Any | None = None,
        actees: RaggedBufferI64 | None = None,
    ) -> Any:
        """Return a batch of masks from actors and choices."""
        assert mask is not None
        return VecCategoricalActionMask(actors, mask)

    def answers(self, space: Any, values: npt.NDArray[Any], asked: Asked) -> Sequence[Any]:
        """Return the choices, and the labels."""
        return values[:, 0], space.index_to_label

    def allows(self, given: Any, who: Any, frame: Frame) -> bool:
        """Return True if they have these choices."""
        return bool(who.mask[np.arange(len(who.actors)), given].all())

    def task(self, space: Any) -> str:
        """Return the labels."""
        return ", ".join(space.index_to_label)

    def describe(
        self, space: Any, answer: Any, name_of: Callable[[int], str]
    ) -> tuple[str, int | None]:
        """Return the label of a choice."""
        return space.index_to_label[answer], None

    def to_json(self, space: Any) -> dict[str, Any]:
        """Return the labels."""
        return {"labels": list(space.index_to_label)}


class GlobalCategoricalKind(CategoricalKind):
    """The kind of actions in which the player picks a choice, as an actor after all entities."""

    name = "global_categorical"
    space = GlobalCategoricalActionSpace
    mask = GlobalCategoricalActionMask
    action = GlobalCategoricalAction
    answer = "index"
    nobody = GlobalCategoricalActionMask()

    def _mask_of_frame(self, name: str, mask: Any, choices: int) -> Any:
        """Return the mask (C,) or (1, C) of the player as (1, C)."""
        if mask is None:
            return None
        values = bool_array(f"the mask of action {name!r}", mask, MaskError)
        if values.shape not in ((choices,), (1, choices)):
            raise MaskError(
                f"the mask of action {name!r} has the wrong shape",
                expected=f"({counted(choices, 'choice')},) or (1, {counted(choices, 'choice')})",
                received=f"shape {values.shape}",
            )
        return values.reshape(1, choices)

    def _masks_of_rows(self, masks: list[Any]) -> list[Any]:
        return [
            () if mask is self.nobody else None if mask.mask is None else (mask.mask,)
            for mask in masks
        ]

    def answers(self, space: Any, values: npt.NDArray[Any], asked: Asked) -> Sequence[Any]:
        """Return each choice with its label."""
        labels = space.index_to_label
        return ([(index, labels[index]) for index in values[:, 0].tolist()],)


def _choices(masks: Sequence[Any], actors: int, lengths: Ints, choices: int) -> Bools:
    """Return the masks of all actors, (A, C); each leaves a choice."""
    kinds = set(map(type, masks))
    if kinds == {NoneType}:
        return np.ones((actors, choices), np.bool_)
    counts = lengths.tolist()
    if not kinds <= ARRAYS | {NoneType}:
        raise UnusualError
    if NoneType in kinds:
        everything = [True] * choices
        masks = [
            [everything] * count if mask is None else mask
            for mask, count in zip(masks, counts, strict=True)
        ]
        kinds = kinds - {NoneType} | {list}
    if list(map(len, masks)) != counts:
        raise UnusualError
    if not actors:
        return np.zeros((0, choices), np.bool_)
    if 0 in counts:
        masks = [mask for mask in masks if len(mask)]
    allowed = boolean_table(masks, kinds, choices)
    # NumPy searches across the rows twice as fast as along each of them.
    if not every(np.logical_or.reduce(np.ascontiguousarray(allowed.T))):
        raise UnusualError
    return allowed


_NOBODY = np.zeros(0, np.int64)
