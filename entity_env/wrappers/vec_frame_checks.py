"""Checks the frames of a ``VecObs``: features, what is hidden, and who can do what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from entity_env.batching.features import check_values
from entity_env.batching.grids import check_sizes
from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64, lengths
from entity_env.batching.vec_obs import (
    VecCategoricalActionMask,
    VecContinuousActionMask,
    VecObs,
    VecSelectEntityActionMask,
)
from entity_env.errors import (
    ActionMaskError,
    ActorError,
    EmptyMaskError,
    EntityEnvError,
    MaskShapeError,
    ObservationError,
    VisibilityError,
    shorten,
)
from entity_env.kinds.continuous import bounds_of
from entity_env.kinds.table import kind_of
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Feature,
    Grid,
    ObsSpace,
)
from entity_env.wrappers.entity_order import ActorActeePairs, Bools, Ints, rows_of

__all__ = ["check_array", "check_frames"]


def check_frames(
    obs: VecObs, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace], rows: int
) -> None:
    """Check features, global features, visible and action masks of ``rows`` frames.

    Raises:
        EntityEnvError: The class of it that names the first mistake; it says in which row.
    """
    _check_names("features", obs.features, list(obs_space.entities))
    counts = np.zeros((rows, len(obs_space.entities)), np.int64)
    for i, (name, entity) in enumerate(obs_space.entities.items()):
        what, buffer = f"entity type {name!r}", obs.features[name]
        _check_buffer(what, buffer, RaggedBufferF32, rows, len(entity.names))
        counts[:, i] = lengths(buffer)
        if isinstance(entity, Grid):
            check_sizes(what, counts[:, i], entity)
        _check_rows(what, buffer.as_array(), counts[:, i], entity.features)
    width = len(obs_space.global_names)
    check_array("global_features", obs.global_features, (rows, width), np.float32)
    once = np.ones(rows, np.int64)
    _check_rows("global_features", obs.global_features, once, obs_space.global_features)
    shown = _shown(obs, obs_space, counts)
    _check_names("action_masks", obs.action_masks, list(action_space))
    for action, space in action_space.items():
        _check_mask(action, space, obs.action_masks[action], counts.sum(axis=1), shown)


def check_array(what: str, value: Any, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    """Raise ObservationError unless ``value`` is an array of this shape and dtype."""
    is_array = isinstance(value, np.ndarray)
    if not is_array or value.shape != shape or value.dtype != dtype:
        raise ObservationError(
            f"{what} is not the array that it should be",
            expected=f"shape {shape}, dtype {np.dtype(dtype)}",
            received=f"shape {value.shape}, dtype {value.dtype}" if is_array else shorten(value),
        )


def _check_names(what: str, value: Any, names: list[str]) -> None:
    if not isinstance(value, Mapping) or list(value) != names:
        raise ObservationError(
            f"{what} has the wrong names, or another order",
            expected=shorten(names),
            received=shorten(list(value) if isinstance(value, Mapping) else value),
        )


def _check_buffer(what: str, buffer: Any, kind: Any, rows: int, width: int) -> None:
    if not isinstance(buffer, kind):
        raise ObservationError(
            f"{what} is no {kind.__name__}", expected=kind.__name__, received=shorten(buffer)
        )
    if buffer.size0() != rows or buffer.size2() != width:
        raise ObservationError(
            f"{what} has the wrong shape",
            expected=f"({rows} rows, any number, {width})",
            received=f"({buffer.size0()} rows, any number, {buffer.size2()})",
        )


def _check_lengths(what: str, buffer: Any, expected: Ints) -> None:
    wrong = lengths(buffer) != expected
    if wrong.any():
        row = int(np.argmax(wrong))
        raise MaskShapeError(
            f"{what} has the wrong length",
            expected=expected[row],
            received=lengths(buffer)[row],
            where=f"environment {row}",
        )


def _check_rows(
    what: str, values: npt.NDArray[np.float32], counts: Ints, features: Sequence[Feature]
) -> None:
    try:
        check_values(what, values, features)
    except EntityEnvError as error:
        # It is known that something is wrong: now find out in which row.
        for row, own in enumerate(np.split(values, np.cumsum(counts)[:-1])):
            try:
                check_values(what, own, features)
            except EntityEnvError as located:
                raise located.located(f"environment {row}") from error


def _shown(obs: VecObs, obs_space: ObsSpace, counts: Ints) -> Bools:
    """Return True if each entity is visible, row by row, the player of each row last.

    Shape: (N + R,).
    """
    if not isinstance(obs.visible, Mapping):
        raise VisibilityError("visible is not a mapping", received=shorten(obs.visible))
    for name in obs.visible:
        if name not in obs_space.entities:
            raise VisibilityError(
                f"visible names an unknown entity type {shorten(name)}", options=obs_space.entities
            )
    sizes = np.concatenate([counts, np.ones((len(counts), 1), np.int64)], axis=1)
    starts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    shown = np.ones(int(sizes.sum()), np.bool_)
    for i, name in enumerate(obs_space.entities):
        if name in obs.visible:
            what, buffer = f"visible[{name!r}]", obs.visible[name]
            _check_buffer(what, buffer, RaggedBufferBool, len(counts), 1)
            _check_lengths(what, buffer, counts[:, i])
            within = np.arange(int(counts[:, i].sum())) - np.repeat(
                np.cumsum(counts[:, i]) - counts[:, i], counts[:, i]
            )
            shown[np.repeat(starts[:, i], counts[:, i]) + within] = buffer.as_array()[:, 0]
    return shown


def _check_mask(name: str, space: ActionSpace, mask: Any, totals: Ints, shown: Bools) -> None:
    kind = kind_of(space)
    if not isinstance(mask, kind.vec_mask):
        raise ActionMaskError(
            f"action {name!r} has a mask of the wrong class",
            expected=kind.vec_mask.__name__,
            received=shorten(mask),
        )
    is_global = kind.is_global
    _check_entities(f"the actors of action {name!r}", mask.actors, totals, shown, is_global)
    if isinstance(mask, VecSelectEntityActionMask):
        _check_entities(f"the actees of action {name!r}", mask.actees, totals, shown, False)
        _check_pairs(name, mask)
        return
    if isinstance(mask, VecContinuousActionMask):
        bounds = zip((mask.low, mask.high), bounds_of(space), strict=True)
        for what, (given, bound) in zip(("low", "high"), bounds, strict=True):
            if not np.array_equal(given, bound):
                raise ActionMaskError(
                    f"action {name!r} has other bounds than its space",
                    expected=f"{what} {bound}",
                    received=shorten(given),
                )
        return
    what, allowed = f"the mask of action {name!r}", cast(VecCategoricalActionMask, mask).mask
    _check_buffer(what, allowed, RaggedBufferBool, len(totals), len(space))  # type: ignore[arg-type]
    _check_lengths(what, allowed, lengths(mask.actors))
    _check_choices(name, mask.actors, allowed.as_array().any(axis=1), is_global)


def _check_entities(what: str, buffer: Any, totals: Ints, shown: Bools, is_player: bool) -> None:
    """Check entity indices: in range, visible, and each once in its row."""
    _check_buffer(what, buffer, RaggedBufferI64, len(totals), 1)
    rows, entities = rows_of(buffer), buffer.as_array()[:, 0]
    last = totals[rows] - (not is_player)
    wrong = (entities < (totals[rows] if is_player else 0)) | (entities > last)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ActorError(
            f"{what} are not in the frame",
            expected=f"the index of the player, {last[first]}"
            if is_player
            else f"an index from 0 to {last[first]}",
            received=entities[first],
            where=f"environment {rows[first]}",
        )
    flat = (np.cumsum(totals + 1) - totals - 1)[rows] + entities
    hidden = ~shown[flat]
    if hidden.any():
        raise VisibilityError(
            f"{what} are hidden",
            expected="entities that the policy can see",
            received=entities[np.argmax(hidden)],
            where=f"environment {rows[np.argmax(hidden)]}",
        )
    kinds, counts = np.unique(flat, return_counts=True)
    if len(kinds) < len(flat):
        first = int(np.argmax(flat == kinds[np.argmax(counts > 1)]))
        raise ActorError(
            f"{what} name an entity twice",
            received=entities[first],
            where=f"environment {rows[first]}",
        )


def _check_pairs(name: str, mask: VecSelectEntityActionMask) -> None:
    actors, actees = lengths(mask.actors), lengths(mask.actees)
    nothing = (actors > 0) & (actees == 0)
    if nothing.any():
        raise ActorError(
            f"action {name!r} has actors but nothing to select",
            expected="no actors where there are no actees",
            where=f"environment {np.argmax(nothing)}",
        )
    if mask.mask is None:
        return
    what = f"the mask of action {name!r}"
    _check_buffer(what, mask.mask, RaggedBufferBool, len(actors), 1)
    _check_lengths(what, mask.mask, actors * actees)
    pairs = ActorActeePairs.of(mask)
    usable = np.bincount(pairs.actor[pairs.allowed], minlength=int(actors.sum())) > 0
    _check_choices(name, mask.actors, usable, False)


def _check_choices(name: str, actors: Any, has_choice: Bools, is_player: bool) -> None:
    if not has_choice.all():
        first = int(np.argmin(has_choice))
        raise EmptyMaskError(
            f"action {name!r}: the mask leaves {'the player' if is_player else 'an actor'} "
            "without a choice",
            expected=f"at least one True, or leave the {'action' if is_player else 'actor'} out",
            received=None if is_player else f"entity {actors.as_array()[first, 0]}",
            where=f"environment {rows_of(actors)[first]}",
        )
