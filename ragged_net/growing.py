"""Tensors that grow at their end: a rollout, step by step, without ever being held twice.

``GrowingBatch`` in ``batch.py`` is made of them.

``clear`` keeps the memory for the next one, which then overwrites what ``all`` has returned.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor

from ragged_net.actors import Actors, CategoricalActors, ContinuousActors, SelectActors
from ragged_net.errors import EmptyBatchError, ShapeError
from ragged_net.ragged import RaggedTensor

__all__ = ["GrowingActors", "GrowingRagged", "GrowingTensor", "growing_actors"]

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


GrowingActors: TypeAlias = _GrowingCategorical | _GrowingSelect | _GrowingContinuous

_GROWING: dict[type[Actors], Any] = {
    CategoricalActors: _GrowingCategorical,
    SelectActors: _GrowingSelect,
    ContinuousActors: _GrowingContinuous,
}


def growing_actors(like: Actors, parts: int) -> GrowingActors:
    """Return what actors of one action are added to, empty.

    Args:
        like: Actors of the class of those to come.
        parts: How many parts of about the size of the first one are to come.
    """
    grows: GrowingActors = next(own for kind, own in _GROWING.items() if isinstance(like, kind))(
        parts
    )
    return grows


def _of_two_classes(name: str, first: type, part: Actors) -> ShapeError:
    return ShapeError(
        f"action {name!r} cannot be concatenated",
        expected="actors of one class in all batches",
        received=f"{first.__name__} and {type(part).__name__}",
    )
