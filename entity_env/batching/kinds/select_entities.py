"""Select-entities actions, in which each actor selects a set of entities, one after the other.

A choice is a row of ``at_most`` entity indices in the order of their selection, padded with -1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import SelectEntitiesAction, has_id
from entity_env.arguments import quick_arguments
from entity_env.batching.features import every
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.answers import AnswerForm
from entity_env.batching.kinds.kind import Asked, Ints
from entity_env.batching.kinds.select_entity import SelectEntityKind, VecSelectEntityActionMask
from entity_env.batching.ragged import RaggedBufferI64
from entity_env.errors import ActionError, ObservationError, counted, shorten
from entity_env.spaces import SelectEntitiesActionSpace

__all__ = ["SelectEntitiesKind", "VecSelectEntitiesActionMask"]


@quick_arguments(ObservationError)
@dataclass(frozen=True)
class VecSelectEntitiesActionMask(VecSelectEntityActionMask):
    """The actors of a select-entities action in each frame, and their actees.

    Args:
        actors: See ``VecSelectEntityActionMask``.
        actees: See there.
        mask: See there.
        at_most: Largest number of entities that an actor can select.
    """

    at_most: int = 1

    def draw(self, rng: np.random.Generator) -> RaggedBufferI64:
        """Draw a set for each actor: uniformly a size, then uniformly a set of this size."""
        chosen = np.full((int(self.actors.items()), self.at_most), -1)
        for row, options in zip(chosen, self.options(), strict=True):
            size = int(rng.integers(min(self.at_most, len(options)) + 1))
            row[:size] = rng.choice(options, size, replace=False)
        return RaggedBufferI64.from_flattened(chosen, self.actors.size1())

    def _default(self, actor: Ints, actee: Ints) -> Ints:
        return np.full((int(self.actors.items()), self.at_most), -1)

    def check(
        self, name: str, space: Any, values: npt.NDArray[Any], where: Callable[[int], str]
    ) -> None:
        """Check that each selected entity is an allowed actee and is selected once."""
        stopped = values == -1
        late = (stopped[:, :-1] & ~stopped[:, 1:]).any(axis=1)
        if late.any():
            first = int(np.argmax(late))
            raise ActionError(
                f"action {name!r} selects an entity after it has stopped",
                expected="entity indices, and then only -1",
                received=values[first].tolist(),
                where=where(first),
            )
        for actor, (row, options) in enumerate(zip(values, self.options(), strict=True)):
            own = row[row != -1]
            inside = np.isin(own, options)
            if not every(inside):
                raise ActionError(
                    f"action {name!r}: entity {own[np.argmin(inside)]} cannot be selected",
                    expected="indices of actees that are allowed: among "
                    f"{shorten(options.tolist())}",
                    received=row.tolist(),
                    where=where(actor),
                )
            if len(set(own.tolist())) < len(own):
                raise ActionError(
                    f"action {name!r} selects an entity twice",
                    expected="each entity at most once",
                    received=row.tolist(),
                    where=where(actor),
                )


class SelectEntitiesKind(SelectEntityKind):
    """The kind of actions in which each actor selects a set of entities."""

    name = "select_entities"
    space = SelectEntitiesActionSpace
    action = SelectEntitiesAction
    vec_mask = VecSelectEntitiesActionMask
    keys = ("at_most",)

    def form(self, space: Any) -> AnswerForm:
        """Return a form of ``at_most`` indices."""
        return AnswerForm(width=space.at_most)

    def answers(self, space: Any, values: npt.NDArray[Any], asked: Asked) -> Sequence[Any]:
        """Return the sets."""
        flat = (values + asked.first[:, None]).tolist()
        sets = [
            [asked.ids[one] for one, index in zip(own, row, strict=True) if index != -1]
            for own, row in zip(flat, values.tolist(), strict=True)
        ]
        return (sets,)

    def selected(self, space: Any, given: Any, index_of: Callable[[Any], int]) -> list[Any]:
        """Return the indices of each set, padded with -1.

        Raises:
            ActionError: A set has too many entities.
        """
        if any(len(own) > space.at_most for own in given):
            raise ActionError(
                "an actor selects too many entities",
                expected=f"at most {space.at_most} ids for each actor",
                received=shorten(given),
            )
        rows = [[index_of(actee) for actee in own] for own in given]
        return [row + [-1] * (space.at_most - len(row)) for row in rows]

    def allows(self, given: Any, who: Any, frame: Frame) -> bool:
        """Return True if they can select these sets."""
        return all(
            actee is not None and has_id(who.options(frame, actor)[1], actee)
            for actor, own in enumerate(given)
            for actee in own
        )

    def task(self, space: Any) -> str:
        """Return the task: to select entities."""
        return f"select at most {counted(space.at_most, 'entity')}"

    def describe(
        self, space: Any, answer: Any, name_of: Callable[[int], str]
    ) -> tuple[str, int | None]:
        """Return the names of the entities."""
        own = answer if isinstance(answer, list) else [answer]
        return " + ".join(name_of(index) for index in own if index != -1) or "nothing", None
