"""Checks of a batch against the spaces of a network, before anything is computed.

Shapes and names are checked first. Checks of numbers set flags that are read together, because each
read of a number waits for a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env.errors import (
    ActionError,
    BatchError,
    DeviceError,
    EntityEnvError,
    FeatureError,
    MaskError,
)
from entity_env.spaces import ActionSpace, Feature, ObsSpace, feature_name, num_values
from ragged_net import kernels
from ragged_net.actors import Actors, CategoricalActors, ContinuousActors, Pairs, SelectActors
from ragged_net.batch import EntityBatch
from ragged_net.heads import head_kind
from ragged_net.layout import Layout
from ragged_net.ragged import RaggedTensor
from ragged_net.tensor_checks import check_device, check_kind, check_names, check_tensor

__all__ = ["FaultFlags", "check_actions", "check_features", "check_given", "flag_actions"]


class FaultFlags:
    """Tensors that must be all False, each with its error."""

    def __init__(self) -> None:
        self._pending: list[tuple[Tensor, Callable[[], EntityEnvError]]] = []

    def add(self, bad: Tensor, error: Callable[[], EntityEnvError]) -> None:
        """Add ``bad`` (any shape, bool); ``error`` is called only if it has a True."""
        self._pending.append((bad.any(), error))

    def check(self) -> None:
        """Raise the error of the first flag that is set."""
        if not self._pending:
            return
        raised = torch.stack([bad for bad, _ in self._pending]).tolist()
        for up, (_, error) in zip(raised, self._pending, strict=True):
            if up:
                raise error()


def check_features(
    batch: EntityBatch, space: ObsSpace, device: torch.device, flags: FaultFlags | None
) -> None:
    """Check entity types, feature widths and the device; flag features out of range.

    Without ``flags`` no numbers are checked.
    """
    if batch.device != device:
        raise DeviceError(
            "the batch is on another device than the network",
            expected=device,
            received=batch.device,
            hint="batch.to(device) moves it",
        )
    check_names("entity type", "the batch", batch.entities, space.entities)
    fast = flags is not None and device.type == "cpu" and kernels.available()
    look = kernels.load("indices").features_are_sound if fast else None
    for name, entity in space.entities.items():
        rows = batch.entities[name]
        where, declared = f"entity type {name!r}", tuple(entity.features)
        _check_features(where, rows.values, rows, declared, flags, look)
    features = tuple(space.global_features)
    _check_features("the global features", batch.global_features, None, features, flags, look)


def _check_features(
    where: str,
    values: Tensor,
    rows: RaggedTensor | None,
    features: tuple[Feature, ...],
    flags: FaultFlags | None,
    look: Callable[..., bool] | None,
) -> None:
    """Check features, and flag their numbers unless a compiled ``look`` finds no mistake.

    ``rows`` has the frames of the ``values`` (N, F); None stands for one row in each frame.
    """
    if values.shape[1] != len(features):
        raise BatchError(
            f"{where}: wrong number of features",
            expected=f"(N, {len(features)})",
            received=tuple(values.shape),
        )
    if flags is None or not values.numel():
        return
    if look is not None and look(values.numpy(force=True), _sizes(features)):
        return
    if kernels.is_wrapped(values):  # by ``vmap``, within which no number can be read
        return
    for column, feature in enumerate(features):
        picked = values[:, column]
        count = num_values(feature)
        if count is None:
            bad = ~torch.isfinite(picked)
        else:  # in this form NaN is out of range, too
            bad = ~((picked >= 0) & (picked < count) & (picked == picked.floor()))
        flags.add(bad, _feature_error(where, feature, picked, bad, rows))


@functools.lru_cache(maxsize=1024)
def _sizes(features: tuple[Feature, ...]) -> npt.NDArray[np.int64]:
    """Return the number of values of each discrete feature, 0 for any other: (F,)."""
    return np.array([num_values(f) or 0 for f in features], np.int64)


def _feature_error(
    where: str, feature: Feature, picked: Tensor, bad: Tensor, rows: RaggedTensor | None
) -> Callable[[], EntityEnvError]:
    def error() -> EntityEnvError:
        row = int(bad.nonzero()[0])
        place = f"frame {row}" if rows is None else _place(rows, row)
        count = num_values(feature)
        if count is not None:
            return FeatureError(
                f"{where}: discrete feature {feature_name(feature)!r} is out of range",
                expected=f"a whole number, 0 <= value < {count}",
                received=f"{picked[bad][:5].tolist()}, the first of them in {place}",
            )
        return FeatureError(
            f"{where}: feature {feature_name(feature)!r} is not finite",
            expected="a finite number",
            received=f"{float(picked[row])} in {place}",
        )

    return error


def _place(rows: RaggedTensor, row: int) -> str:
    """Return the frame and the row within it of a flat ``row``, for an error."""
    frame = int(rows.frame_ids()[row])
    return f"row {row - int(rows.offsets[frame])} of frame {frame}"


def check_actions(batch: EntityBatch, space: Mapping[str, ActionSpace]) -> None:
    """Check that the batch has every action, with actors of the class and width of its space."""
    check_names("action", "the batch", batch.actions, space)
    for name, action_space in space.items():
        actors = batch.actions[name]
        kind = head_kind(action_space).actors
        if not isinstance(actors, kind):
            raise BatchError(
                f"action {name!r} has actors of the wrong class",
                expected=kind.__name__,
                received=type(actors).__name__,
            )
        if isinstance(actors, CategoricalActors):
            width = len(action_space)  # type: ignore[arg-type]
            if actors.mask.shape[1] != width:
                raise BatchError(
                    f"action {name!r}: the mask has the wrong width",
                    expected=f"(A, {width}), one column for each choice",
                    received=tuple(actors.mask.shape),
                )


def check_given(
    given: Mapping[str, Tensor], batch: EntityBatch, space: Mapping[str, ActionSpace]
) -> None:
    """Check that ``given`` has a choice, of the right type and shape, for each actor."""
    check_kind("given", given, Mapping, hint="a dict from actions to choices (A,) int64")
    check_names("action", "given", given, space)
    for name, choices in given.items():
        action_space, actors = space[name], batch.actions[name].actors
        kind = head_kind(action_space)
        check_tensor(f"given[{name!r}]", choices, kind.dtype)
        shape = (actors.num_rows, *kind.shape(action_space))
        if choices.shape != shape:
            raise BatchError(
                f"given[{name!r}] has the wrong shape",
                expected=f"{shape}, one {'row' if len(shape) > 1 else 'choice'} for each actor",
                received=tuple(choices.shape),
            )
        check_device(f"given[{name!r}]", choices, batch.global_features, "the batch")


def flag_actions(
    batch: EntityBatch,
    layout: Layout,
    hidden: Tensor | None,
    pairs: Mapping[str, Pairs],
    given: Mapping[str, Tensor] | None,
    bounds: Mapping[str, tuple[Tensor, Tensor]],
    flags: FaultFlags,
) -> None:
    """Flag indices outside of their frame, hidden actors, actors without a choice, bad choices."""
    for name, action in batch.actions.items():
        chosen = None if given is None else given[name]
        if not action.actors.num_rows or _are_sound(action, layout, hidden, chosen):
            continue
        _flag_rows(f"the actors of action {name!r}", action.actors, layout, hidden, flags)
        if isinstance(action, ContinuousActors):
            if chosen is not None:
                _flag_numbers(name, chosen, *bounds[name], flags)
            continue
        if isinstance(action, SelectActors):
            _flag_rows(f"the actees of action {name!r}", action.actees, layout, hidden, flags)
            _flag_repeated(f"the actees of action {name!r}", action.actees, layout, flags)
            choices = pairs[name].allowed_counts()
        else:
            choices = action.mask.sum(1)
            if chosen is not None:
                _flag_choices(name, chosen, action.mask, flags)
        flags.add(choices == 0, _mask_error(name, choices))


def _flag_numbers(name: str, numbers: Tensor, low: Tensor, high: Tensor, flags: FaultFlags) -> None:
    bad = ~((numbers >= low) & (numbers <= high) & numbers.isfinite())  # NaN is out of bounds, too

    def error() -> EntityEnvError:
        actor, place = bad.nonzero()[0].tolist()
        return ActionError(
            f"given[{name!r}] has a number that is out of bounds",
            expected=f"a finite number from {float(low[place]):g} to {float(high[place]):g}",
            received=f"{float(numbers[actor, place])} as number {place} of actor {actor} of the "
            "batch",
        )

    flags.add(bad, error)


def _are_sound(
    action: Actors, layout: Layout, hidden: Tensor | None, chosen: Tensor | None
) -> bool:
    """Return True if a compiled check finds no mistake; False also if it cannot run."""
    if not isinstance(action, CategoricalActors) or hidden is not None:
        return False
    values = action.actors.values
    if values.device.type != "cpu" or not kernels.available():
        return False
    choices = values.new_empty(0) if chosen is None else chosen
    tensors = values, layout.offsets, action.mask, choices
    index, *others = [tensor.contiguous().numpy() for tensor in tensors]
    offsets = action.actors.offsets.numpy()
    return bool(kernels.load("indices").are_sound(index, offsets, *others))


def _flag_rows(
    where: str, indices: RaggedTensor, layout: Layout, hidden: Tensor | None, flags: FaultFlags
) -> None:
    frames = indices.frame_ids()
    lengths = layout.offsets[1:] - layout.offsets[:-1]
    bad = (indices.values < 0) | (indices.values >= lengths.index_select(0, frames))
    flags.add(
        bad,
        lambda: BatchError(
            f"{where} are outside of their frames",
            expected="0 <= index < number of entities of the frame, the global entity included",
            received=f"index {int(indices.values[bad][0])} in frame {int(frames[bad][0])}, whose "
            f"number of entities is {int(lengths[frames[bad][0]])}",
        ),
    )
    if hidden is None or hidden.shape[0] == 0:
        return
    # Indices outside are reported above; clamped, they cannot crash the check below.
    rows = layout.flat_rows(indices).clamp(0, hidden.shape[0] - 1)
    seen = hidden.index_select(0, rows)
    flags.add(
        seen,
        lambda: BatchError(
            f"{where} include a hidden entity, which the policy must not see",
            received=f"index {int(indices.values[seen][0])} in frame {int(frames[seen][0])}",
        ),
    )


def _flag_repeated(where: str, indices: RaggedTensor, layout: Layout, flags: FaultFlags) -> None:
    if layout.num_rows == 0:  # then all indices are outside
        return
    rows = layout.flat_rows(indices).clamp(0, layout.num_rows - 1)
    counts = rows.new_zeros(layout.num_rows).index_add(0, rows, torch.ones_like(rows))
    repeated = counts.index_select(0, rows) > 1
    flags.add(
        repeated,
        lambda: BatchError(
            f"{where} name an entity more than once",
            expected="each entity at most once, because its probability would be split",
            received=f"index {int(indices.values[repeated][0])} in frame "
            f"{int(indices.frame_ids()[repeated][0])}",
        ),
    )


def _flag_choices(name: str, choices: Tensor, mask: Tensor, flags: FaultFlags) -> None:
    inside = (choices >= 0) & (choices < mask.shape[1])
    allowed = mask.gather(1, choices.clamp(0, mask.shape[1] - 1)[:, None]).squeeze(1)
    bad = ~(inside & allowed)
    flags.add(
        bad,
        lambda: ActionError(
            f"given[{name!r}] has a choice that does not exist or that the mask forbids",
            expected=f"0 <= choice < {mask.shape[1]}, allowed by the actor's mask",
            received=f"choice {int(choices[bad][0])} for actor {int(bad.nonzero()[0])} of the "
            "batch",
        ),
    )


def _mask_error(name: str, choices: Tensor) -> Callable[[], EntityEnvError]:
    return lambda: MaskError(
        f"action {name!r}: actor {int((choices == 0).nonzero()[0])} of the batch has no choice",
        expected="at least one allowed choice for each actor; leave out an actor without one",
    )
