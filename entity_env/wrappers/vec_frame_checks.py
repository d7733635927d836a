"""Checks of the frames of a ``VecObs``: their form here, their values by ``FrameReader``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.ragged import RaggedBufferBool, lengths
from entity_env.batching.unbatch import observations_of
from entity_env.batching.vec_obs import (
    VecContinuousActionMask,
    VecObs,
    VecSelectEntityActionMask,
    batch_frames,
)
from entity_env.errors import (
    ActionMaskError,
    ActorError,
    MaskShapeError,
    ObservationError,
    VisibilityError,
    counted,
    shorten,
)
from entity_env.kinds.table import kind_of
from entity_env.wrappers.entity_order import Ints, rows_of

__all__ = ["check_array", "check_frames"]


def check_frames(obs: VecObs, reader: FrameReader, rows: Ints) -> None:
    """Check features, global features, visibility masks and action masks.

    Args:
        obs: B frames.
        reader: A reader of their spaces.
        rows: The row of each frame, for errors. Shape: (B,).

    Raises:
        EntityEnvError: The first mistake, with its row, as an error of a subclass.
    """
    spaces = reader.obs_space, reader.action_space
    count, empty = len(rows), batch_frames([], *spaces)
    _check_names("features", obs.features, empty.features)
    for name, own in empty.features.items():
        _check_buffer(f"entity type {name!r}", obs.features[name], own, count)
    check_array("global_features", obs.global_features, (count, len(spaces[0].global_features)))
    if not isinstance(obs.visible, Mapping):
        raise VisibilityError("visible is not a mapping", received=shorten(obs.visible))
    for name, shown in obs.visible.items():
        _check_buffer(f"visible[{name!r}]", shown, _FLAGS, count)
        if name in obs.features:
            _check_lengths(f"visible[{name!r}]", shown, lengths(obs.features[name]), rows)
    _check_names("action_masks", obs.action_masks, empty.action_masks)
    sizes = sum((lengths(own) for own in obs.features.values()), np.zeros(count, np.int64))
    for name, wanted in empty.action_masks.items():
        is_global = kind_of(spaces[1][name]).is_global
        _check_form(name, obs.action_masks[name], wanted, None if is_global else sizes, rows)
    for i, observation in enumerate(observations_of(obs, *spaces)):
        frame = reader.read(observation, f"environment {rows[i]}")
        for name, mask in obs.action_masks.items():
            who, given = frame.actions.get(name), mask.actors[i].as_array().ravel().tolist()
            can_act = [] if who is None else who.actors.tolist()
            if given != can_act:
                raise ActorError(
                    f"action {name!r} has actors that do not exist or have nothing to select",
                    expected=can_act,
                    received=given,
                    where=f"environment {rows[i]}",
                )


def check_array(
    what: str, value: Any, shape: tuple[int, ...], dtype: type[np.generic] = np.float32
) -> None:
    """Raise ObservationError unless ``value`` is an array of this shape and dtype."""
    is_array = isinstance(value, np.ndarray)
    if not is_array or value.shape != shape or value.dtype != dtype:
        raise ObservationError(
            f"{what} has the wrong shape or dtype",
            expected=f"shape {shape}, dtype {np.dtype(dtype)}",
            received=f"shape {value.shape}, dtype {value.dtype}" if is_array else shorten(value),
        )


def _check_form(name: str, mask: Any, wanted: Any, sizes: Ints | None, rows: Ints) -> None:
    """Check the class of a mask, and its buffers and their lengths.

    Args:
        name: Name of the action.
        mask: The mask to check.
        wanted: A valid mask without frames.
        sizes: The number of entities of each frame; None for a global action.
        rows: The row of each frame.
    """
    if not isinstance(mask, type(wanted)):
        raise ActionMaskError(
            f"action {name!r} has a mask of the wrong class",
            expected=type(wanted).__name__,
            received=shorten(mask),
        )
    parts = ["actors", "actees"] if isinstance(mask, VecSelectEntityActionMask) else ["actors"]
    for part in parts:
        what, own = f"the {part} of action {name!r}", getattr(mask, part)
        _check_buffer(what, own, wanted.actors, len(rows))
        if sizes is None:
            continue
        frames, entities = rows_of(own), own.as_array()[:, 0]
        outside = (entities < 0) | (entities >= sizes[frames])
        if outside.any():
            first = int(np.argmax(outside))
            raise ActorError(
                f"{what} are not in the frame",
                expected=f"an index from 0 to {sizes[frames[first]] - 1}",
                received=entities[first],
                where=f"environment {rows[frames[first]]}",
            )
    if isinstance(mask, VecContinuousActionMask):
        for bound in ("low", "high"):
            given, own = getattr(mask, bound), getattr(wanted, bound)
            if not np.array_equal(given, own):
                raise ActionMaskError(
                    f"action {name!r} has other bounds than its space",
                    expected=f"{bound} {own}",
                    received=shorten(given),
                )
    elif mask.mask is not None:
        what, flags = f"the mask of action {name!r}", wanted.mask
        _check_buffer(what, mask.mask, _FLAGS if flags is None else flags, len(rows))
        columns = lengths(mask.actees) if len(parts) > 1 else 1
        _check_lengths(what, mask.mask, lengths(mask.actors) * columns, rows)


def _check_names(what: str, value: Any, wanted: Mapping[str, Any]) -> None:
    if not isinstance(value, Mapping) or list(value) != list(wanted):
        raise ObservationError(
            f"{what} has wrong names, or names in the wrong order",
            expected=shorten(list(wanted)),
            received=shorten(list(value) if isinstance(value, Mapping) else value),
        )


def _check_buffer(what: str, buffer: Any, wanted: Any, count: int) -> None:
    """Check that a ragged buffer with ``count`` frames is like ``wanted``, which has no frames."""
    if not isinstance(buffer, type(wanted)):
        kind = type(wanted).__name__
        raise ObservationError(f"{what} is not a {kind}", expected=kind, received=shorten(buffer))
    if buffer.size0() != count or buffer.size2() != wanted.size2():
        raise ObservationError(
            f"{what} has the wrong shape",
            expected=f"({counted(count, 'row')}, any number, {wanted.size2()})",
            received=f"({counted(buffer.size0(), 'row')}, any number, {buffer.size2()})",
        )


def _check_lengths(what: str, buffer: Any, expected: Ints, rows: Ints) -> None:
    wrong = lengths(buffer) != expected
    if wrong.any():
        i = int(np.argmax(wrong))
        raise MaskShapeError(
            f"{what} has the wrong length",
            expected=expected[i],
            received=lengths(buffer)[i],
            where=f"environment {rows[i]}",
        )


_NOTHING: npt.NDArray[np.bool_] = np.zeros((0, 1), np.bool_)
_FLAGS = RaggedBufferBool.from_flattened(_NOTHING, np.zeros(0, np.int64))
