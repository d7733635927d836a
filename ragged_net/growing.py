"""Batches that grow at their end: a rollout, step by step, without ever being held twice.

``clear`` keeps the memory for the next one, which then overwrites what ``all`` has returned.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ragged_net.actors import Actors, CategoricalActors, ContinuousActors, SelectActors
from ragged_net.batch import BatchReading, EntityBatch
from ragged_net.config import whole
from ragged_net.errors import EmptyBatchError, ShapeError, check_names
from ragged_net.ragged import RaggedTensor

__all__ = ["GrowingBatch", "GrowingRagged", "GrowingTensor"]

_MARGIN = 1.25
"""Room for parts that are larger than the first one."""


class GrowingTensor:
    """A tensor to which rows are added.

    Room is made once, if later parts are like the first one; pages of it that are never written
    take no memory.

    Args:
        parts: How many parts of about the size of the first one are to come.
    """

    def __init__(self, parts: int = 1) -> None:
        self._parts = parts
        self._rows: Tensor | None = None
        self._used = 0
        self._started = False

    def add(self, part: Tensor) -> None:
        """Append the rows of ``part`` (N, ...)."""
        self._started = True
        if self._rows is None:
            self._rows = self._room(part, part.shape[0] * self._parts)
        elif _kind(part) != _kind(self._rows):
            expected, received = (
                f"rows of shape {tuple(shape)}, {dtype} on {device}"
                for shape, dtype, device in map(_kind, (self._rows, part))
            )
            raise ShapeError(
                "rows of different kinds cannot be concatenated",
                expected=expected,
                received=received,
            )
        end = self._used + part.shape[0]
        if end > self._rows.shape[0]:
            larger = self._room(part, max(end, 2 * self._used))
            larger[: self._used] = self._rows[: self._used]
            self._rows = larger
        self._rows[self._used : end] = part
        self._used = end

    def all(self) -> Tensor:
        """All rows so far, in the memory that further parts would be added to."""
        if self._rows is None or not self._started:
            raise EmptyBatchError("nothing to concatenate", expected="at least one part")
        return self._rows[: self._used]

    def clear(self) -> None:
        """Forget all rows."""
        self._used, self._started = 0, False

    @staticmethod
    def _room(part: Tensor, rows: int) -> Tensor:
        with torch.inference_mode(False):  # else nobody could write to it outside that mode
            return part.new_empty(int(rows * _MARGIN), *part.shape[1:])


def _kind(rows: Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return rows.shape[1:], rows.dtype, rows.device


class GrowingRagged:
    """A ragged tensor to which frames are added; see ``GrowingTensor``."""

    def __init__(self, parts: int = 1) -> None:
        self._values, self._offsets = GrowingTensor(parts), GrowingTensor(parts)
        self._known = GrowingTensor(parts)
        self._started = False
        self.num_rows = 0

    def add(self, part: RaggedTensor) -> None:
        """Append the frames of ``part``."""
        self._values.add(part.values)  # which may refuse them
        self._offsets.add(self._shifted(part.offsets))
        if part.offsets.device.type != "cpu":
            self._known.add(self._shifted(part.host_offsets))
        self._started = True
        self.num_rows += part.num_rows

    def all(self) -> RaggedTensor:
        """All frames so far."""
        offsets = self._offsets.all()
        known = None if offsets.device.type == "cpu" else self._known.all()
        return RaggedTensor.unchecked(self._values.all(), offsets, known)

    def clear(self) -> None:
        """Forget all frames."""
        for part in (self._values, self._offsets, self._known):
            part.clear()
        self._started, self.num_rows = False, 0

    def _shifted(self, offsets: Tensor) -> Tensor:
        return offsets[1:] + self.num_rows if self._started else offsets


class GrowingBatch:
    """A batch to which frames are added; see ``GrowingTensor``.

    What only some of the parts mask is unmasked in the others.
    """

    def __init__(self, parts: int = 1) -> None:
        self._parts = whole("the parts of a GrowingBatch", parts)
        self._started = False
        self._features = GrowingTensor(parts)
        self._entities: dict[str, GrowingRagged] = {}
        self._visible: dict[str, GrowingTensor] = {}
        self._actions: dict[str, _GrowingCategorical | _GrowingSelect | _GrowingContinuous] = {}

    def add(self, batch: EntityBatch) -> None:
        """Append the frames of ``batch``, which has the entity types and actions of the others.

        Raises:
            RaggedNetError: A batch that does not fit the others, or no longer fits together.
        """
        with BatchReading(batch):
            self._add(batch)

    def _add(self, batch: EntityBatch) -> None:
        if not self._started:
            self._begin(batch)
        check_names("entity type", "a batch to concatenate", batch.entities, self._entities)
        check_names("action", "a batch to concatenate", batch.actions, self._actions)
        for name, rows in batch.entities.items():
            if name in batch.visible and name not in self._visible:
                self._visible[name] = _all_true(self._entities[name].num_rows, rows, self._parts)
            if name in self._visible:
                shown = batch.visible.get(name)
                self._visible[name].add(_true(rows.num_rows, rows) if shown is None else shown)
            self._entities[name].add(rows)
        for name, actors in batch.actions.items():
            self._actions[name].add(name, actors)
        self._features.add(batch.global_features)

    def all(self) -> EntityBatch:
        """All frames so far."""
        if not self._started:
            raise EmptyBatchError("no EntityBatch to concatenate", expected="at least one")
        return EntityBatch(
            {name: rows.all() for name, rows in self._entities.items()},
            self._features.all(),
            {name: self._visible[name].all() for name in self._entities if name in self._visible},
            {name: actors.all() for name, actors in self._actions.items()},
        )

    def clear(self) -> None:
        """Forget all frames; those to come have the same entity types and actions."""
        for part in (self._features, *self._entities.values(), *self._actions.values()):
            part.clear()
        self._visible = {}

    def _begin(self, batch: EntityBatch) -> None:
        self._started = True
        self._entities = {name: GrowingRagged(self._parts) for name in batch.entities}
        self._actions = {
            name: next(grows for kind, grows in _GROWING.items() if isinstance(actors, kind))(
                self._parts
            )
            for name, actors in batch.actions.items()
        }


class _GrowingCategorical:
    def __init__(self, parts: int) -> None:
        self._actors, self._mask = GrowingRagged(parts), GrowingTensor(parts)
        self._width: int | None = None

    def add(self, name: str, part: Actors) -> None:
        if not isinstance(part, CategoricalActors):
            raise _of_two_classes(name, CategoricalActors, part)
        width = part.mask.shape[1]
        if self._width not in (None, width):
            raise ShapeError(
                f"action {name!r}: masks of different widths cannot be concatenated",
                received=sorted({self._width or 0, width}),
            )
        self._width = width
        self._actors.add(part.actors)
        self._mask.add(part.mask)

    def all(self) -> CategoricalActors:
        return CategoricalActors(self._actors.all(), self._mask.all())

    def clear(self) -> None:
        self._actors.clear()
        self._mask.clear()


class _GrowingSelect:
    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._actors, self._actees = GrowingRagged(parts), GrowingRagged(parts)
        self._mask: GrowingRagged | None = None
        self._started = False

    def add(self, name: str, part: Actors) -> None:
        if not isinstance(part, SelectActors):
            raise _of_two_classes(name, SelectActors, part)
        if part.mask is not None and self._mask is None:
            self._mask = GrowingRagged(self._parts)
            if self._started:
                self._mask.add(SelectActors(self._actors.all(), self._actees.all()).full_mask())
        if self._mask is not None:
            self._mask.add(part.full_mask())
        self._actors.add(part.actors)
        self._actees.add(part.actees)
        self._started = True

    def all(self) -> SelectActors:
        mask = None if self._mask is None else self._mask.all()
        return SelectActors(self._actors.all(), self._actees.all(), mask)

    def clear(self) -> None:
        self._actors.clear()
        self._actees.clear()
        self._mask, self._started = None, False


class _GrowingContinuous:
    def __init__(self, parts: int) -> None:
        self._actors = GrowingRagged(parts)

    def add(self, name: str, part: Actors) -> None:
        if not isinstance(part, ContinuousActors):
            raise _of_two_classes(name, ContinuousActors, part)
        self._actors.add(part.actors)

    def all(self) -> ContinuousActors:
        return ContinuousActors(self._actors.all())

    def clear(self) -> None:
        self._actors.clear()


_GROWING: dict[type[Actors], Any] = {
    CategoricalActors: _GrowingCategorical,
    SelectActors: _GrowingSelect,
    ContinuousActors: _GrowingContinuous,
}


def _of_two_classes(name: str, first: type, part: Actors) -> ShapeError:
    return ShapeError(
        f"action {name!r} cannot be concatenated",
        expected="actors of one class in all batches",
        received=f"{first.__name__} and {type(part).__name__}",
    )


def _true(count: int, like: RaggedTensor) -> Tensor:
    return torch.ones(count, dtype=torch.bool, device=like.values.device)


def _all_true(count: int, like: RaggedTensor, parts: int) -> GrowingTensor:
    """What earlier parts showed: everything."""
    shown = GrowingTensor(parts)
    shown.add(_true(count, like))
    return shown
