"""Ragged tensors from other formats: lists, padded tensors with lengths, nested tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from entity_env.errors import BatchError, DtypeError, nearest, shorten
from entity_env.spaces import ObsSpace
from ragged_net.ragged import RaggedTensor, check_known, whole_numbers
from ragged_net.tensor_checks import check_kind, check_tensor

__all__ = ["by_type", "from_lists", "from_nested", "from_padded"]

_FRAMES = "a list with the rows of each frame"


def from_lists(where: str, frames: Any, width: int | None = None) -> RaggedTensor:
    """Return the frames of one entity type, given as lists of rows or arrays (n, F).

    Args:
        where: Name of the entity type in errors.
        frames: Rows of B frames.
        width: Width F; None takes it from the rows, or from the shape of a tensor.

    Raises:
        BatchError: Rows have different widths, or there is none to determine the width.
        DtypeError: A row contains other values than numbers.
    """
    check_kind(where, frames, Sequence, hint=_FRAMES)
    parts = [_rows(where, frame) for frame in frames]
    # An empty list has no width; an empty tensor (0, F) has.
    widths = {part.shape[1] for part in parts if part.ndim == 2}
    widths |= set() if width is None else {width}
    if len(widths) != 1:
        raise BatchError(
            f"{where}: rows of {'different widths' if widths else 'unknown width'}",
            expected=f"(n, {'F' if width is None else width}) in each frame",
            received=f"widths {sorted(widths)}" if widths else "no row in any frame",
            hint=None if widths else "obs_space=, or torch.zeros(0, F) for an empty frame",
        )
    (found,) = widths
    parts = [part if part.ndim == 2 else part.new_zeros(0, found) for part in parts]
    values = torch.cat(parts) if parts else torch.zeros(0, found)
    return RaggedTensor.from_lengths(values, [len(part) for part in parts])


def _rows(where: str, frame: Any) -> Tensor:
    """Return the rows (n, F) float32 of one frame; (0,) of an empty list."""
    try:
        rows = torch.as_tensor(frame, dtype=torch.float32)
    except Exception as error:  # any error of an object that is not a list or array
        is_list = isinstance(frame, list | tuple)
        lengths = {len(row) for row in frame if isinstance(row, list | tuple)} if is_list else ()
        if len(lengths) > 1:
            raise BatchError(
                f"{where}: a frame has rows of different widths",
                expected="one width",
                received=sorted(lengths),
            ) from error
        raise DtypeError(
            f"{where}: a frame is not a list of rows of numbers", received=shorten(frame)
        ) from error
    check_tensor(f"{where}: a frame", rows)
    if rows.ndim != 2 and tuple(rows.shape) != (0,):
        raise BatchError(
            f"{where}: a frame has the wrong number of dimensions",
            expected="(n, F), a list of rows",
            received=tuple(rows.shape),
        )
    return rows


def from_padded(where: str, values: Tensor, lengths: Any) -> RaggedTensor:
    """Return the frames of a padded tensor.

    Args:
        where: Name of the entity type in errors.
        values: Padded rows. Shape: (B, L, ...).
        lengths: Number of rows of each frame, which are its first ones, (B,), or mask of the
            existing rows, (B, L) bool.

    Raises:
        BatchError, DtypeError: The lengths have another number of frames, or exceed the padding.
    """
    check_tensor(where, values)
    check_known(where, values)
    if values.ndim < 2:
        raise BatchError(
            f"{where}: not a padded tensor", expected="(B, L, ...)", received=tuple(values.shape)
        )
    lengths = whole_numbers(f"{where}: the lengths", lengths).to(values.device)
    if lengths.dtype == torch.bool:
        present = lengths
        if present.shape != values.shape[:2]:
            raise BatchError(
                f"{where}: the mask does not have one value for each row",
                expected=tuple(values.shape[:2]),
                received=tuple(present.shape),
            )
    else:
        frames, room = values.shape[:2]
        if lengths.shape != (frames,) or (
            frames and not 0 <= int(lengths.min()) <= int(lengths.max()) <= room
        ):
            raise BatchError(
                f"{where}: the lengths do not fit the padded frames",
                expected=f"({frames},) whole numbers from 0 to {room}",
                received=f"{tuple(lengths.shape)} {lengths.dtype}: {lengths.tolist()}"[:100],
            )
        present = torch.arange(room, device=values.device) < lengths[:, None]
    return RaggedTensor.from_lengths(values[present], present.sum(1))


def from_nested(where: str, nested: Tensor) -> RaggedTensor:
    """Return the frames of a nested tensor of torch, jagged or strided.

    Raises:
        DtypeError: ``nested`` is not a nested tensor.
    """
    check_tensor(where, nested, nested=True)
    if not nested.is_nested:
        raise DtypeError(
            f"{where}: not a nested tensor",
            expected="torch.nested.nested_tensor(list, layout=torch.jagged)",
            received=f"a tensor of shape {tuple(nested.shape)}",
            hint="from_padded takes padded ones",
        )
    parts = list(nested.unbind())
    widths = {tuple(part.shape[1:]) for part in parts if part.ndim}
    if len(widths) != 1 or not all(part.ndim for part in parts):
        raise BatchError(
            f"{where}: the parts of a nested tensor are not rows of one width",
            expected="(n, F) each, at least one",
            received=", ".join(str(tuple(part.shape)) for part in parts[:10]) or "no parts",
        )
    lengths = [len(part) for part in parts]
    if nested.layout == torch.jagged and sum(lengths) == len(nested.values()):
        return RaggedTensor.from_lengths(nested.values(), lengths)  # without a copy
    return RaggedTensor.from_lengths(torch.cat(parts), lengths)


def by_type(
    entities: Mapping[str, Any], obs_space: ObsSpace | None
) -> list[tuple[str, Any, int | None]]:
    """Return the frames of each entity type, and its width if a space determines it.

    Raises:
        BatchError: The space lacks a type. A type that ``entities`` lacks is empty.
    """
    check_kind("the entities of a batch", entities, Mapping, hint="a dict from names to frames")
    if obs_space is None:
        return [(name, frames, None) for name, frames in entities.items()]
    check_kind("the observation space", obs_space, ObsSpace)
    for name in entities:
        if name not in obs_space.entities:
            raise BatchError(
                f"the batch has an unknown entity type {name!r}",
                options=obs_space.entities,
                hint=nearest(name, obs_space.entities),
            )
    for name, frames in entities.items():
        check_kind(f"entity type {name!r}", frames, Sequence, hint=_FRAMES)
    count = max((len(frames) for frames in entities.values()), default=0)
    return [
        (name, entities.get(name, [[]] * count), len(entity.features))
        for name, entity in obs_space.entities.items()
    ]
