"""Interface of a kind of action; ``table.py`` lists the kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from entity_env.batching.actor_columns import Given, RowLayout, picked
from entity_env.batching.frame import Frame, FrameActors
from entity_env.batching.kinds.answers import INDEX, AnswerForm
from entity_env.batching.masks import MaskReader
from entity_env.batching.ragged import ActionBuffer, RaggedBufferI64
from entity_env.errors import ActionError, shorten
from entity_env.observation import ActionMask, EntityID

__all__ = [
    "Asked",
    "Ints",
    "Kind",
    "Renumbering",
    "VecMask",
    "frame_lengths",
    "joined",
    "kept",
    "rows_of",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
V = TypeVar("V", bound="VecMask")


@dataclass(frozen=True)
class VecMask(ABC):
    """The actors of one action in each of B frames.

    Args:
        actors: Entity indices within the frame. Shape: (B, A, 1).
    """

    actors: RaggedBufferI64

    def select(self: V, frames: Ints) -> V:
        """Return the mask of some frames, in the order given. Shape of ``frames``: (K,)."""
        return replace(self, actors=self.actors[frames])

    def of_frame(self) -> FrameActors | None:
        """Return the actors of the only frame of a batch, or None without actors."""
        return self._of_frame(self.actors.as_array()[:, 0]) if self.actors.items() else None

    def _of_frame(self, actors: Ints) -> FrameActors:
        return FrameActors(actors)

    @abstractmethod
    def part(self: V, order: Renumbering) -> tuple[V, Bools, npt.NDArray[Any]]:
        """Return the actors that stay if entities are left out.

        Returns:
            Their mask, with new entity indices; a mask of them among all actors (A,); and a choice
            of each actor for those that are left out. Shape: (A, width).
        """

    def _staying(self, order: Renumbering) -> tuple[Bools, RaggedBufferI64]:
        """Return a mask of the actors that stay (A,), and their new indices."""
        stays, actors = order.renumbered(self.actors.as_array()[:, 0], rows_of(self.actors))
        return stays, kept(actors, stays, self.actors)

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> ActionBuffer:
        """Return a choice of each actor, drawn uniformly among those that are allowed."""

    @abstractmethod
    def check(
        self, name: str, space: Any, values: npt.NDArray[Any], where: Callable[[int], str]
    ) -> None:
        """Check the choices of all actors, of which there is at least one.

        Args:
            name: The action.
            space: Its space.
            values: Choices of the right type and width. Shape: (A, width).
            where: Function that returns the place of an actor, given its number among all.

        Raises:
            ActionError: A choice does not exist, or is not allowed.
        """

    @property
    @abstractmethod
    def logits_shape(self) -> tuple[int, ...]:
        """The shape of recorded logits of all choices."""


class Renumbering(Protocol):
    """New indices of entities in a part of a space."""

    def renumbered(self, entities: Ints, rows: Ints) -> tuple[Bools, Ints]:
        """Return a mask of the entities that stay, and their new indices."""


@dataclass(slots=True)
class Asked:
    """The actors of an action in each of B frames.

    Args:
        actors: The ids of the actors of all frames; empty for a global action. Shape: (A,).
        lengths: The number of actors of each frame. Shape: (B,).
        ids: The ids of the entities of all frames.
        first: Index in ``ids`` of the first entity of each actor's frame. Shape: (A,).
    """

    actors: Sequence[EntityID]
    lengths: Ints
    ids: Sequence[EntityID]
    first: Ints

    @classmethod
    def of(
        cls, actors: Ints, lengths: Ints, ids: Sequence[EntityID], first: Ints, is_global: bool
    ) -> Asked:
        """Return the actors, given by their indices (A,) within their frames.

        Args:
            actors: These indices.
            lengths: The number of actors of each frame. Shape: (B,).
            ids: The ids of the entities of all frames.
            first: Index in ``ids`` of the first entity of each frame. Shape: (B,).
            is_global: True for a global action, whose actor has no id.
        """
        asked = cls([], lengths, ids, first.repeat(lengths))
        if not is_global:
            asked.actors = asked.ids_of(actors)
        return asked

    def ids_of(self, entities: Ints) -> list[EntityID]:
        """Return the ids of entities, one for each actor, given by indices (A,)."""
        return list(map(self.ids.__getitem__, (entities + self.first).tolist()))

    def parts(self, frames: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int, int]]:
        """Yield for each frame its part of ``frames``, and the range of its actors."""
        ends = self.lengths.cumsum().tolist()
        return zip(frames, [0, *ends], ends, strict=False)


class Kind(ABC):
    """One kind of action.

    Attributes:
        name: The name of the kind in files.
        space: The class of its spaces.
        mask: The class of its masks in an observation.
        action: The class of the actions that an environment receives.
        answer: The field of ``action`` that holds the choices, or that of the player.
        vec_mask: The class of its masks in a batch.
        nobody: The mask used for a frame without one.
        is_global: True if the player as a whole acts, as ``space`` says.
        selects: True if entities are selected, as ``space`` says.
        keys: The keys of ``to_json``, in the order of the arguments of a space.
    """

    name: str
    space: type[Any]
    mask: type[Any]
    action: type[Any]
    answer: str
    vec_mask: type[VecMask]
    nobody: Any
    keys: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.is_global: bool = self.space.is_global
        self.selects: bool = self.space.selects

    def form(self, space: Any) -> AnswerForm:
        """Return the form of a choice: by default the index of a label or of an entity."""
        return INDEX

    @abstractmethod
    def read(self, reader: MaskReader, name: str, mask: Any, space: Any) -> FrameActors | None:
        """Return the actors that a mask of one frame names, or None without actors."""

    @abstractmethod
    def read_rows(self, given: Given, name: str, space: Any, layout: RowLayout) -> Any:
        """Return the actors in many frames at once.

        Raises:
            UnusualError: A mask needs ``read``, or is not valid.
        """

    @abstractmethod
    def pack(self, parts: Sequence[Any], space: Any) -> Any:
        """Return the actors of many frames as one batch; parts are None without actors."""

    @abstractmethod
    def observed(
        self, ids: list[EntityID], allowed: Any | None, actees: list[EntityID]
    ) -> ActionMask:
        """Return the mask of one frame in the format of an observation.

        Args:
            ids: The ids of the actors.
            allowed: The mask of the batch for the actors of this frame, or None.
            actees: The ids of the actees of a selection.
        """

    @abstractmethod
    def build(
        self,
        space: Any,
        actors: RaggedBufferI64,
        mask: Any | None = None,
        actees: RaggedBufferI64 | None = None,
    ) -> Any:
        """Return a batch of masks from its parts."""

    def act(
        self,
        frames: Sequence[dict[str, Any]],
        name: str,
        space: Any,
        values: npt.NDArray[Any],
        asked: Asked,
    ) -> None:
        """Add an action to those of each frame, in the format of ``Environment.act``.

        Args:
            frames: The actions of B frames so far.
            name: The action.
            space: Its space.
            values: The checked choices of the actors of all frames. Shape: (A, width).
            asked: The actors.
        """
        answers, *rest = self.answers(space, values, asked)
        actors, action, is_global = asked.actors, self.action, self.is_global
        for own, i, k in asked.parts(frames):
            if not is_global:
                own[name] = action(actors[i:k], answers[i:k], *rest)
            elif k > i:
                own[name] = action(*answers[i])

    @abstractmethod
    def answers(self, space: Any, values: npt.NDArray[Any], asked: Asked) -> Sequence[Any]:
        """Return the arguments of the class ``action`` for ``values`` (A, width).

        Returns:
            The choices of all actors, and the further arguments of each frame. For a global action,
            the choices are tuples of all arguments.
        """

    def check_class(self, name: str, action: Any) -> None:
        """Raise ActionError unless ``action`` is of the class of this kind."""
        if not isinstance(action, self.action):
            raise ActionError(
                f"action {name!r} has the wrong type",
                expected=self.action.__name__,
                received=shorten(action),
            )

    def repeatable(self, action: Any, who: Any, frame: Frame) -> bool:
        """Return True if the same actors may repeat the action in ``frame``."""
        if who is None:
            return not self.is_global
        return self.allows(self.given(action), who, frame)

    @abstractmethod
    def allows(self, given: Any, who: Any, frame: Frame) -> bool:
        """Return True if the actors, at least one, may choose ``given`` in ``frame``."""

    @abstractmethod
    def task(self, space: Any) -> str:
        """Return the task of an actor as text."""

    @abstractmethod
    def describe(
        self, space: Any, answer: Any, name_of: Callable[[int], str]
    ) -> tuple[str, int | None]:
        """Return an actor's choice as text, and the selected entity, if any.

        Args:
            space: Its space.
            answer: A number, or a list of numbers if the width is not 1.
            name_of: Function that returns the name of an entity, given by its index.
        """

    def selected(self, space: Any, given: Any, index_of: Callable[[Any], int]) -> list[Any]:
        """Return the indices of the selected entities, in the form of a choice for each actor.

        Args:
            space: Its space.
            given: The selected entities of each actor, by id.
            index_of: Returns the index of an entity, given by its id.
        """
        return [index_of(actee) for actee in given]

    def to_json(self, space: Any) -> dict[str, Any]:
        """Return the parts of a space to save, by ``keys``, as JSON values."""
        return {key: getattr(space, key) for key in self.keys}

    def actors(self, reader: MaskReader, name: str, mask: Any) -> list[int]:
        """Return the actors that a mask of one frame names; the player comes after all entities."""
        if self.is_global:
            return [len(reader.ids)]
        return reader.entities(name, "actor", mask.actor_ids, mask.actor_types)

    def actors_of_rows(
        self, given: Given, name: str, layout: RowLayout
    ) -> tuple[list[Any], Ints, Ints]:
        """Return the masks of many frames, their actors (A,), and the number in each frame (B,)."""
        masks = picked(given, name, self.nobody, self.mask)
        if self.is_global:
            return masks, *layout.players(masks, self.nobody)
        ids, types = [mask.actor_ids for mask in masks], [mask.actor_types for mask in masks]
        return masks, *layout.entities(ids, types)

    def given(self, action: Any) -> Any:
        """Return the choices of all actors in an action."""
        given = getattr(action, self.answer)
        return [given] if self.is_global else given


def rows_of(buffer: Any) -> Ints:
    """Return the row of each item of a ragged buffer. Shape: (N,), int64."""
    return np.repeat(np.arange(buffer.size0()), buffer.size1())


def kept(values: Ints, stays: Bools, before: Any) -> RaggedBufferI64:
    """Return the values (N,) of the items of a buffer that stay."""
    lengths = np.bincount(rows_of(before)[stays], minlength=before.size0())
    return RaggedBufferI64.from_flattened(values[stays][:, None], lengths.astype(np.int64))


def joined(parts: Iterable[Ints]) -> RaggedBufferI64:
    """Return the indices of several frames as one buffer."""
    own = list(parts)
    flat = np.concatenate([np.zeros(0, np.int64), *own])[:, None]
    return RaggedBufferI64.from_flattened(flat, frame_lengths(own))


def frame_lengths(parts: Sequence[npt.NDArray[Any]]) -> Ints:
    """Return the number of rows of each part. Shape: (B,)."""
    return np.array([len(part) for part in parts], np.int64)
