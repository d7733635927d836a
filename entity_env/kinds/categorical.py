"""Categorical actions: actors, or the player as a whole, pick one of a list of choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import CategoricalAction, GlobalCategoricalAction
from entity_env.arguments import fill
from entity_env.batching.actor_columns import Given, RowLayout
from entity_env.batching.feature_tables import ARRAYS, Bools, UnusualError, boolean_table
from entity_env.batching.features import every
from entity_env.batching.frame import Frame, FrameActors
from entity_env.batching.masks import MaskReader, bool_array
from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferI64
from entity_env.errors import (
    ActionIndexError,
    ActionShapeError,
    MaskedActionError,
    MaskShapeError,
    MaskTypeError,
    ObservationError,
    shorten,
)
from entity_env.kinds.kind import Asked, Ints, Kind, VecMask, actor_name, frame_lengths, joined
from entity_env.observation import CategoricalActionMask, GlobalCategoricalActionMask
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

    def __init__(self, actors: RaggedBufferI64, mask: RaggedBufferBool, **unknown: Any) -> None:
        fill(ObservationError, self, {"actors": actors, "mask": mask}, unknown)

    def select(self, frames: Ints) -> VecCategoricalActionMask:
        """Return the mask of some frames, in the order given. Shape of ``frames``: (K,)."""
        return replace(self, actors=self.actors[frames], mask=self.mask[frames])

    def draw(self, rng: np.random.Generator) -> RaggedBufferI64:
        """Return a choice of each actor, evenly among those that are allowed."""
        allowed = self.mask.as_array()
        chosen = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)
        return RaggedBufferI64.from_flattened(chosen[:, None], self.actors.size1())

    def check(self, name: str, values: npt.NDArray[Any], where: Callable[[int], str]) -> None:
        """Check that each choice exists and is allowed."""
        flat, allowed, choices = values[:, 0], self.mask.as_array(), self.mask.size2()
        inside = flat.view(np.uint64) < choices  # what is negative is huge there
        if not every(inside):
            first = int(np.argmin(inside))
            raise ActionIndexError(
                f"action {name!r} has no choice {flat[first]}",
                expected=f"a whole number from 0 to {choices - 1}",
                received=flat[first],
                where=where(first),
            )
        legal = allowed.take(np.arange(0, len(flat) * choices, choices) + flat)
        if not every(legal):
            first = int(np.argmin(legal))
            raise MaskedActionError(
                f"action {name!r}: choice {flat[first]} is masked",
                expected=f"one of {np.flatnonzero(allowed[first]).tolist()}",
                received=flat[first],
                where=where(first),
            )

    @property
    def logits_shape(self) -> tuple[int, ...]:
        """(A, C)."""
        return int(self.actors.items()), self.mask.size2()


class CategoricalKind(Kind):
    """Each of several actors picks a choice."""

    name = "categorical"
    space: type[Any] = CategoricalActionSpace
    mask: type[Any] = CategoricalActionMask
    action: type[Any] = CategoricalAction
    vec_mask = VecCategoricalActionMask
    nobody: Any = CategoricalActionMask(actor_types=())
    keys = ("labels",)

    def read(self, reader: MaskReader, name: str, mask: Any, space: Any) -> FrameActors | None:
        """Return the actors and their choices, (A, C)."""
        actors = reader.entities(name, "actor", mask.actor_ids, mask.actor_types)
        return self._read(reader, name, mask.mask, actors, len(space))

    @staticmethod
    def _read(
        reader: MaskReader, name: str, mask: Any, actors: list[int], choices: int
    ) -> FrameCategoricalActors | None:
        allowed = reader.allowed(name, mask, actors, choices, "choices")
        if not actors:
            return None
        if allowed is None:
            allowed = np.ones((len(actors), choices), dtype=np.bool_)
        return FrameCategoricalActors(np.array(actors, dtype=np.int64), allowed)

    def read_rows(self, given: Given, name: str, space: Any, layout: RowLayout) -> Any:
        """Return the masks of all rows."""
        masks = self.given_masks(given, name)
        actors, lengths = layout.entities(
            [mask.actor_ids for mask in masks], [mask.actor_types for mask in masks]
        )
        return _vec(actors, lengths, [mask.mask for mask in masks], len(space))

    def pack(self, parts: Sequence[FrameCategoricalActors | None], space: Any) -> Any:
        """Return the actors of many frames as one batch."""
        own = [part for part in parts if part is not None]
        masks = [np.zeros((0, len(space)), np.bool_), *(part.mask for part in own)]
        actors = joined(_NOBODY if part is None else part.actors for part in parts)
        lengths = actors.size1() if parts else frame_lengths([])
        mask = RaggedBufferBool.from_flattened(np.concatenate(masks), lengths)
        return VecCategoricalActionMask(actors, mask)

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

    def act(
        self,
        frames: Sequence[dict[str, Any]],
        name: str,
        space: Any,
        values: npt.NDArray[Any],
        asked: Asked,
    ) -> None:
        """Add the choices."""
        names, indices, labels = asked.actors, values[:, 0], space.index_to_label
        for own, i, k in asked.parts(frames):
            own[name] = CategoricalAction(names[i:k], indices[i:k], labels)

    def check_action(self, name: str, space: Any, action: Any, who: Any, frame: Frame) -> None:
        """Check the choices of the actors."""
        _check_choices(name, space, action.indices, who, frame)

    def repeatable(self, action: Any, who: Any, frame: Frame) -> bool:
        """Return True if they have these choices again."""
        return who is None or bool(who.mask[np.arange(len(who.actors)), action.indices].all())

    def task(self, space: Any) -> str:
        """Return the labels."""
        return ", ".join(space.index_to_label)

    def told(
        self, space: Any, answer: Any, name_of: Callable[[int], str]
    ) -> tuple[str, int | None]:
        """Return the label of a choice."""
        return space.index_to_label[answer], None

    def to_json(self, space: Any) -> dict[str, Any]:
        """Return the labels."""
        return {"labels": list(space.index_to_label)}


class GlobalCategoricalKind(CategoricalKind):
    """The player as a whole picks a choice: its actor stands after the entities of the frame."""

    name = "global_categorical"
    space = GlobalCategoricalActionSpace
    mask = GlobalCategoricalActionMask
    action = GlobalCategoricalAction
    nobody = GlobalCategoricalActionMask()
    is_global = True

    def read(self, reader: MaskReader, name: str, mask: Any, space: Any) -> FrameActors | None:
        """Return the player and its choices, (1, C)."""
        given = None if mask.mask is None else _of_one(name, mask.mask, len(space))
        return self._read(reader, name, given, [len(reader.ids)], len(space))

    def read_rows(self, given: Given, name: str, space: Any, layout: RowLayout) -> Any:
        """Return the masks of all rows."""
        masks = self.given_masks(given, name)
        actors, lengths = layout.players(masks, self.nobody)
        rows = [
            () if mask is self.nobody else None if mask.mask is None else (mask.mask,)
            for mask in masks
        ]
        return _vec(actors, lengths, rows, len(space))

    def act(
        self,
        frames: Sequence[dict[str, Any]],
        name: str,
        space: Any,
        values: npt.NDArray[Any],
        asked: Asked,
    ) -> None:
        """Add the choice where there is a player."""
        indices, labels = values[:, 0].tolist(), space.index_to_label
        for own, i, k in asked.parts(frames):
            if k > i:
                own[name] = GlobalCategoricalAction(indices[i], labels[indices[i]])

    def check_action(self, name: str, space: Any, action: Any, who: Any, frame: Frame) -> None:
        """Check the choice of the player."""
        _check_choices(name, space, [action.index], who, frame)

    def repeatable(self, action: Any, who: Any, frame: Frame) -> bool:
        """Return True if it has this choice again."""
        return who is not None and bool(who.mask[0, action.index])


def _of_one(action: str, mask: object, width: int) -> Bools:
    """Return the mask (width,) or (1, width) of an action that has a single actor as (1, width)."""
    values = bool_array(f"the mask of action {action!r}", mask, MaskTypeError)
    if values.shape not in ((width,), (1, width)):
        raise MaskShapeError(
            f"the mask of action {action!r} has the wrong shape",
            expected=f"({width} choices,) or (1, {width} choices)",
            received=f"shape {values.shape}",
        )
    return values.reshape(1, width)


def _vec(
    actors: Ints, lengths: Ints, masks: Sequence[Any], choices: int
) -> VecCategoricalActionMask:
    return VecCategoricalActionMask(
        actors=RaggedBufferI64.from_flattened(actors[:, None], lengths),
        mask=RaggedBufferBool.from_flattened(
            _choices(masks, len(actors), lengths, choices), lengths
        ),
    )


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
    # Across the rows NumPy looks for a choice twice as fast as along each of them.
    if not every(np.logical_or.reduce(np.ascontiguousarray(allowed.T))):
        raise UnusualError
    return allowed


def _check_choices(name: str, space: Any, indices: Any, who: Any, frame: Frame) -> None:
    """Check the indices that the actors chose, or the player."""
    count = 0 if who is None else len(who.actors)
    try:
        chosen = np.asarray(indices)
    except ValueError:  # lists of different lengths
        chosen = np.array(None)
    if chosen.shape != (count,) or (count and chosen.dtype.kind not in "iu"):
        raise ActionShapeError(
            f"action {name!r} has no choice for each actor",
            expected=f"whole numbers, shape ({count},)",
            received=shorten(indices),
        )
    for i, index in enumerate(chosen.tolist()):
        exists = 0 <= index < len(space)
        if exists and who.mask[i, index]:
            continue
        what = f"action {name!r}: choice {index} of {actor_name(frame, who.actors[i])}"
        if not exists:
            raise ActionIndexError(
                f"{what} does not exist",
                expected=f"a whole number from 0 to {len(space) - 1}",
                received=index,
            )
        allowed = [f"{j} ({space.index_to_label[j]})" for j in np.flatnonzero(who.mask[i])]
        raise MaskedActionError(
            f"{what} is masked",
            expected="one of " + ", ".join(allowed),
            received=f"{index} ({space.index_to_label[index]})",
        )


_NOBODY = np.zeros(0, np.int64)
