"""Tensors that grow at their end, such as a rollout, without a copy of all parts when it is read.

``GrowingBatch`` in ``batch.py`` consists of them.

``clear`` keeps the memory for new rows, which overwrite the tensor that ``all`` has returned.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from entity_env.errors import BatchError
from ragged_net.actors import Actors, CategoricalActors, SelectActors
from ragged_net.devices import send
from ragged_net.ragged import RaggedTensor

__all__ = ["GrowingActors", "GrowingRagged", "GrowingTensor"]

_MARGIN = 1.25
"""Factor of room for parts that are larger than the first one."""


class GrowingTensor:
    """A tensor to which rows are added.

    Memory is allocated once if later parts are about as large as the first one; pages that are
    never written take no physical memory.

    Args:
        parts: Expected number of parts with about the size of the first one.
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
            raise BatchError(
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
        """Return all rows so far, in the memory to which further parts are added."""
        if self._rows is None or not self._started:
            raise BatchError("nothing to concatenate", expected="at least one part")
        return self._rows[: self._used]

    def clear(self) -> None:
        """Remove all rows."""
        self._used, self._started = 0, False

    @staticmethod
    def _room(part: Tensor, rows: int) -> Tensor:
        with torch.inference_mode(False):  # otherwise it could be written in that mode only
            return part.new_empty(int(rows * _MARGIN), *part.shape[1:])


def _kind(rows: Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return rows.shape[1:], rows.dtype, rows.device


class GrowingRagged:
    """A ragged tensor to which frames are added; see ``GrowingTensor``."""

    def __init__(self, parts: int = 1) -> None:
        self._values, self._known = GrowingTensor(parts), GrowingTensor(parts)
        self._started = False
        self.num_rows = 0

    def add(self, part: RaggedTensor) -> None:
        """Append the frames of ``part``."""
        self._values.add(part.values)  # may raise an error
        offsets = part.host_offsets  # copied to the device together, at the end
        self._known.add(offsets[1:] + self.num_rows if self._started else offsets)
        self._started = True
        self.num_rows += part.num_rows

    def all(self) -> RaggedTensor:
        """Return all frames so far."""
        values, known = self._values.all(), self._known.all()
        if values.device.type == "cpu":
            return RaggedTensor.unchecked(values, known)
        return RaggedTensor.unchecked(values, send(known, values.device), known)

    def clear(self) -> None:
        """Remove all frames."""
        for part in (self._values, self._known):
            part.clear()
        self._started, self.num_rows = False, 0


class GrowingActors:
    """Actors of one action to which those of more frames are added.

    If only some parts of a selection have a mask, the others get one that is all True.

    Args:
        like: Actors of the same class.
        parts: Expected number of parts with about the size of the first one.
    """

    def __init__(self, like: Actors, parts: int) -> None:
        self._kind, self._parts, self._started = type(like), parts, False
        self._names = [field.name for field in dataclasses.fields(like)]
        self._fields: dict[str, GrowingRagged | GrowingTensor] = {}
        self._width: int | None = None

    def add(self, name: str, part: Actors) -> None:
        """Append the actors of action ``name``."""
        if not isinstance(part, self._kind):
            raise BatchError(
                f"action {name!r} cannot be concatenated",
                expected="actors of one class in all batches",
                received=f"{self._kind.__name__} and {type(part).__name__}",
            )
        if isinstance(part, CategoricalActors):
            width = part.mask.shape[1]
            if self._width not in (None, width):
                raise BatchError(
                    f"action {name!r}: masks of different widths cannot be concatenated",
                    received=sorted({self._width or 0, width}),
                )
            self._width = width
        values = {field: getattr(part, field) for field in self._names}
        if isinstance(part, SelectActors):
            if part.mask is not None and self._started and "mask" not in self._fields:
                earlier: Any = self.all()
                self._field("mask", part.mask).add(earlier.full_mask())
            if part.mask is None and "mask" in self._fields:
                values["mask"] = part.full_mask()
        for field, value in values.items():
            if value is not None:
                self._field(field, value).add(value)
        self._started = True

    def all(self) -> Actors:
        """Return all actors so far."""
        values: dict[str, Any] = {name: column.all() for name, column in self._fields.items()}
        return self._kind(**values)

    def clear(self) -> None:
        """Remove all actors."""
        if self._kind is SelectActors:
            self._fields.pop("mask", None)
        for column in self._fields.values():
            column.clear()
        self._started = False

    def _field(self, name: str, like: RaggedTensor | Tensor) -> Any:
        if name not in self._fields:
            kind = GrowingRagged if isinstance(like, RaggedTensor) else GrowingTensor
            self._fields[name] = kind(self._parts)
        return self._fields[name]
