"""Select-entity actions, in which each actor selects one of the entities in its frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import SelectEntityAction, has_id
from entity_env.arguments import quick_arguments
from entity_env.batching.actor_columns import Given, RowLayout
from entity_env.batching.feature_tables import Bools, UnusualError, are_given, booleans
from entity_env.batching.features import every, is_masked
from entity_env.batching.frame import Frame, FrameActors
from entity_env.batching.kinds.kind import (
    Asked,
    Ints,
    Kind,
    Renumbering,
    VecMask,
    frame_lengths,
    joined,
    kept,
    rows_of,
)
from entity_env.batching.masks import MaskReader
from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferI64
from entity_env.errors import ActionError, ObservationError, counted, shorten
from entity_env.observation import ActionMask, EntityID, SelectEntityActionMask
from entity_env.spaces import SelectEntityActionSpace

__all__ = ["FrameSelectActors", "SelectEntityKind", "VecSelectEntityActionMask"]


@dataclass(frozen=True, slots=True)
class FrameSelectActors(FrameActors):
    """The ``actors`` (A,) and ``actees`` (E,), int64 entity indices.

    ``mask`` is (A, E) bool, or None if every actor can select every actee.
    """

    actees: Ints
    mask: Bools | None

    def options(self, frame: Frame, actor: int) -> tuple[list[EntityID], list[EntityID]]:
        """Return the ids of all actees, and of those that an actor can select."""
        ids = [frame.ids[entity] for entity in self.actees.tolist()]
        mask = self.mask
        return ids, [one for j, one in enumerate(ids) if mask is None or mask[actor, j]]


@quick_arguments(ObservationError)
@dataclass(frozen=True)
class VecSelectEntityActionMask(VecMask):
    """The actors of a select-entity action in each frame, and their actees.

    Args:
        actors: Entity indices within the frame. Shape: (B, A, 1).
        actees: Entity indices within the frame. Shape: (B, E, 1).
        mask: For each frame its A * E pairs, actor by actor. Shape: (B, A * E, 1). None if every
            actor can select every actee.
    """

    actees: RaggedBufferI64
    mask: RaggedBufferBool | None = None

    def select(self, frames: Ints) -> VecSelectEntityActionMask:
        """Return the mask of some frames, in the order given. Shape of ``frames``: (K,)."""
        pairs = None if self.mask is None else self.mask[frames]
        if pairs is not None and every(pairs.as_array()):
            pairs = None
        given: dict[str, Any] = {"actees": self.actees[frames], "mask": pairs}
        return replace(self, actors=self.actors[frames], **given)

    def _of_frame(self, actors: Ints) -> FrameActors:
        actees = self.actees.as_array()[:, 0]
        pairs = None if self.mask is None else self.mask.as_array()
        mask = None if pairs is None else pairs.reshape(len(actors), len(actees))
        return FrameSelectActors(actors, actees, mask)

    def part(self, order: Renumbering) -> tuple[Any, Bools, Ints]:
        """Return the actors that stay and can select an entity that stays.

        The others select the first entity that is allowed.
        """
        actor, actee, pairs = self.pairs()
        allowed = np.ones(len(actor), np.bool_) if pairs is None else pairs
        stays, actors = order.renumbered(self.actors.as_array()[:, 0], rows_of(self.actors))
        rows = rows_of(self.actees)
        selectable, actees = order.renumbered(self.actees.as_array()[:, 0], rows)
        usable = allowed & selectable[actee]
        stays &= np.bincount(actor[usable], minlength=len(stays)) > 0
        shown_actors = kept(actors, stays, self.actors)
        selectable &= shown_actors.size1()[rows] > 0
        shown_actees = kept(actees, selectable, self.actees)
        left = allowed[stays[actor] & selectable[actee]]
        mask = None
        if not left.all():
            sizes = shown_actors.size1() * shown_actees.size1()
            mask = RaggedBufferBool.from_flattened(left[:, None], sizes)
        shown: dict[str, Any] = {"actors": shown_actors, "actees": shown_actees, "mask": mask}
        return replace(self, **shown), stays, self._default(actor[allowed], actee[allowed])

    def _default(self, actor: Ints, actee: Ints) -> Ints:
        """Return a choice of each actor (A, width), given the places of all pairs allowed."""
        _, first = np.unique(actor, return_index=True)
        chosen: Ints = self.actees.as_array()[actee[first]]
        return chosen

    def draw(self, rng: np.random.Generator) -> RaggedBufferI64:
        """Return an actee of each actor, drawn uniformly among those that it can select."""
        options = list(self.options())
        if empty := [actor for actor, own in enumerate(options) if not len(own)]:
            raise ObservationError(
                f"actor {empty[0]} of a batch has nothing to select",
                expected="only actors that can select an entity",
                received=f"{counted(len(options), 'actor')}, {len(empty)} of them without a choice",
            )
        chosen = np.array([int(rng.choice(own)) for own in options], np.int64)
        return RaggedBufferI64.from_flattened(chosen[:, None], self.actors.size1())

    def options(self) -> Iterable[Ints]:
        """Yield the entities that each actor of all frames can select."""
        actees = self.actees.as_array()[:, 0]
        pairs = None if self.mask is None else self.mask.as_array()[:, 0]
        first_actee = first_pair = 0
        for actors, count in zip(self.actors.size1(), self.actees.size1(), strict=True):
            own = actees[first_actee : first_actee + count]
            for _ in range(actors):
                yield own if pairs is None else own[pairs[first_pair : first_pair + count]]
                first_pair += count
            first_actee += count

    def check(
        self, name: str, space: Any, values: npt.NDArray[Any], where: Callable[[int], str]
    ) -> None:
        """Check that each selected entity is an actee of its frame, and allowed for its actor."""
        flat, actees = values[:, 0], self.actees.as_array()[:, 0]
        actor, actee, allowed = self.pairs()
        hit = actees[actee] == flat[actor]
        if allowed is not None:
            hit &= allowed
        found = np.zeros(len(flat), dtype=np.bool_)
        found[actor[hit]] = True
        if not every(found):
            first = int(np.argmin(found))
            own = actor == first
            options = actees[actee[own if allowed is None else own & allowed]].tolist()
            raise ActionError(
                f"action {name!r}: entity {flat[first]} cannot be selected",
                expected=f"the index of an actee that is allowed: among {shorten(options)}",
                received=flat[first],
                where=where(first),
            )

    def pairs(self) -> tuple[Ints, Ints, Bools | None]:
        """Return the places of actor and actee of all pairs, frame by frame, and their mask."""
        rows = np.repeat(np.arange(self.actors.size0()), self.actors.size1())
        actees = self.actees.size1()
        counts = actees[rows]
        actor = np.repeat(np.arange(len(rows)), counts)
        first_pair = np.cumsum(counts) - counts
        first_actee = (np.cumsum(actees) - actees)[rows]
        actee = np.arange(len(actor)) - first_pair[actor] + first_actee[actor]
        return actor, actee, None if self.mask is None else self.mask.as_array()[:, 0]

    @property
    def logits_shape(self) -> tuple[int, ...]:
        """The shape (P,) of the pairs of actors and actees."""
        return (int((self.actors.size1() * self.actees.size1()).sum()),)


class SelectEntityKind(Kind):
    """The kind of actions in which each actor selects an entity."""

    name = "select_entity"
    space: type[Any] = SelectEntityActionSpace
    mask = SelectEntityActionMask
    action: type[Any] = SelectEntityAction
    answer = "actees"
    vec_mask: type[VecSelectEntityActionMask] = VecSelectEntityActionMask
    nobody = SelectEntityActionMask(actor_types=(), actee_types=())

    def read(self, reader: MaskReader, name: str, mask: Any, space: Any) -> FrameActors | None:
        """Return the actors, the actees and the pairs of them that are allowed."""
        actors = self.actors(reader, name, mask)
        actees = reader.entities(name, "actee", mask.actee_ids, mask.actee_types)
        if not actors or not actees:
            return None
        allowed = reader.allowed(name, mask.mask, actors, len(actees), "actees")
        return FrameSelectActors(
            np.array(actors, dtype=np.int64), np.array(actees, dtype=np.int64), allowed
        )

    def read_rows(self, given: Given, name: str, space: Any, layout: RowLayout) -> Any:
        """Return the masks of all rows."""
        masks, actors, lengths = self.actors_of_rows(given, name, layout)
        actees, actee_lengths = layout.entities(
            [mask.actee_ids for mask in masks], [mask.actee_types for mask in masks]
        )
        # Frames without actees have no actors, and frames without actors have no actees.
        both = (lengths > 0) & (actee_lengths > 0)
        if not every(both):
            actors = actors[both.repeat(lengths)]
            actees = actees[both.repeat(actee_lengths)]
            lengths, actee_lengths = lengths * both, actee_lengths * both
        given_pairs = [
            mask.mask if there else None for mask, there in zip(masks, both.tolist(), strict=True)
        ]
        pairs = _pairs(given_pairs, lengths, actee_lengths)
        return self.build(
            space,
            RaggedBufferI64.from_flattened(actors[:, None], lengths),
            None
            if pairs is None
            else RaggedBufferBool.from_flattened(pairs[:, None], lengths * actee_lengths),
            RaggedBufferI64.from_flattened(actees[:, None], actee_lengths),
        )

    def pack(self, parts: Sequence[FrameSelectActors | None], space: Any) -> Any:
        """Return the actors and actees of many frames as one batch."""
        own = [_NONE if part is None else part for part in parts]
        mask = None
        if any(part.mask is not None for part in own):
            pairs = [
                np.ones(len(part.actors) * len(part.actees), np.bool_)
                if part.mask is None
                else part.mask.ravel()
                for part in own
            ]
            flat = np.concatenate(pairs)[:, None]
            mask = RaggedBufferBool.from_flattened(flat, frame_lengths(pairs))
        actors = joined(part.actors for part in own)
        return self.build(space, actors, mask, joined(part.actees for part in own))

    def observed(
        self, ids: list[EntityID], allowed: Any | None, actees: list[EntityID]
    ) -> ActionMask:
        """Return the actors and the actees, without actees that no actor can select."""
        if allowed is not None:
            allowed = allowed.reshape(len(ids), len(actees))
            wanted = allowed.any(0)
            actees, allowed = list(compress(actees, wanted)), allowed[:, wanted]
        mask: ActionMask = self.mask(actor_ids=ids, actee_ids=actees, mask=allowed)
        return mask

    def build(
        self,
        space: Any,
        actors: RaggedBufferI64,
        mask: Any | None = None,
        actees: RaggedBufferI64 | None = None,
    ) -> Any:
        """Return a batch of masks from actors, actees and pairs."""
        assert actees is not None
        return self.vec_mask(actors, actees, mask, **self.to_json(space))

    def answers(self, space: Any, values: npt.NDArray[Any], asked: Asked) -> Sequence[Any]:
        """Return the selected entities."""
        return (asked.ids_of(values[:, 0]),)

    def allows(self, given: Any, who: Any, frame: Frame) -> bool:
        """Return True if the actors can select these entities."""
        return all(
            actee is not None and has_id(who.options(frame, actor)[1], actee)
            for actor, actee in enumerate(given)
        )

    def task(self, space: Any) -> str:
        """Return the task: to select an entity."""
        return "select an entity"

    def describe(
        self, space: Any, answer: Any, name_of: Callable[[int], str]
    ) -> tuple[str, int | None]:
        """Return the name of the entity, and its index."""
        return name_of(answer), answer


def _pairs(masks: Sequence[Any], actors: Ints, actees: Ints) -> Bools | None:
    """Return the masks of all pairs, (P,); check that each actor has an actee."""
    if not are_given(masks):
        return None
    if any(map(is_masked, masks)):
        raise UnusualError
    shapes = list(zip(actors.tolist(), actees.tolist(), strict=True))
    parts = [
        np.ones(shape, np.bool_) if mask is None else np.array(mask)
        for mask, shape in zip(masks, shapes, strict=True)
    ]
    if [part.shape for part in parts] != shapes:
        raise UnusualError
    allowed = booleans(np.concatenate([part.ravel() for part in parts if part.size]))
    options = actees.repeat(actors)  # of each actor; at least one
    if not every(np.logical_or.reduceat(allowed, options.cumsum() - options)):
        raise UnusualError
    return allowed


_NONE = FrameSelectActors(np.zeros(0, np.int64), np.zeros(0, np.int64), None)
