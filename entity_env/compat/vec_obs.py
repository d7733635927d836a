"""Batches of observations in the format of Entity Gym, which can be extended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.batching import vec_obs as batch
from entity_env.batching.frame import RESERVED_METRICS
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64
from entity_env.errors import SpaceError
from entity_env.kinds.select_entities import VecSelectEntitiesActionMask
from entity_env.metrics import complete_columns
from entity_env.observation import Observation
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    EntityName,
    GlobalCategoricalActionSpace,
    ObsSpace,
    SelectEntityActionSpace,
)

__all__ = [
    "GLOBAL",
    "Metric",
    "VecActionMask",
    "VecCategoricalActionMask",
    "VecObs",
    "VecSelectEntityActionMask",
    "batch_obs",
    "empty_ragged_f32",
    "empty_ragged_i64",
    "has_global_entity",
    "translated",
]

GLOBAL = "__global__"
"""The entity type of the global features, with one entity in each frame, after all others."""


@dataclass
class Metric:
    """The count, sum, minimum and maximum of the numbers that were pushed."""

    count: int = 0
    sum: float = 0.0
    min: float = float("inf")
    max: float = float("-inf")

    def push(self, value: float) -> None:
        """Count one more number."""
        self += Metric(1, value, value, value)

    def __iadd__(self, other: Metric) -> Metric:
        """Count the numbers of ``other``, too."""
        both = self + other
        self.count, self.sum, self.min, self.max = both.count, both.sum, both.min, both.max
        return self

    def __add__(self, other: Metric) -> Metric:
        """Return the metric of both sets of numbers."""
        return Metric(
            self.count + other.count,
            self.sum + other.sum,
            min(self.min, other.min),
            max(self.max, other.max),
        )

    @property
    def mean(self) -> float:
        """The mean; 0 without numbers."""
        return self.sum / self.count if self.count else 0.0


class _Actors:
    """Actors in several frames, with a ``mask`` or None, to which other frames can be added."""

    actors: RaggedBufferI64
    mask: RaggedBufferBool | None

    def extend(self, other: Any) -> None:
        """Add the frames of ``other``."""
        if self.mask is not None or other.mask is not None:
            like: Any = other.mask if self.mask is None else self.mask
            self.mask = self._whole_mask(like.size2())
            self.mask.extend(other._whole_mask(like.size2()))
        for name, part in vars(self).items():
            if name != "mask":
                part.extend(getattr(other, name))

    def clear(self) -> None:
        """Remove all frames."""
        for part in vars(self).values():
            if part is not None:
                part.clear()

    def _whole_mask(self, width: int) -> RaggedBufferBool:
        if self.mask is not None:
            return self.mask
        counts = self._mask_lengths()
        return RaggedBufferBool.from_flattened(np.ones((counts.sum(), width), np.bool_), counts)

    def _mask_lengths(self) -> npt.NDArray[np.int64]:
        return self.actors.size1()


@dataclass
class VecCategoricalActionMask(_Actors):
    """The actors (B, A, 1) of choices, and a ``mask`` (B, A, C) or None."""

    actors: RaggedBufferI64
    mask: RaggedBufferBool | None = None

    def __getitem__(self, i: Any) -> VecCategoricalActionMask:
        """Return the actors of frame ``i``, or of several frames."""
        has_mask = self.mask is not None and self.mask.size0() > 0
        return VecCategoricalActionMask(self.actors[i], self.mask[i] if has_mask else None)  # type: ignore[index]


@dataclass
class VecSelectEntityActionMask(_Actors):
    """The ``actors`` (B, A, 1) and ``actees`` (B, E, 1) as entity indices.

    ``mask`` has for each frame its pairs, actor by actor, (B, A * E, 1); None allows all.
    """

    actors: RaggedBufferI64
    actees: RaggedBufferI64
    mask: RaggedBufferBool | None = None

    def __getitem__(self, i: Any) -> Any:
        """Return the actors of frame ``i``, or a mask of several frames."""
        if isinstance(i, int):
            return self.actors[i]
        mask = None if self.mask is None else self.mask[i]
        return VecSelectEntityActionMask(self.actors[i], self.actees[i], mask)

    def _mask_lengths(self) -> npt.NDArray[np.int64]:
        return self.actors.size1() * self.actees.size1()


VecActionMask: TypeAlias = Union[VecCategoricalActionMask, VecSelectEntityActionMask]


@dataclass
class VecObs:
    """A batch of observations.

    Args:
        features: For each entity type. Shape: (B, N, F).
        visible: For types of which some entity is hidden. Shape: (B, N, 1).
        action_masks: For each action.
        reward: Shape: (B,), float32.
        done: Shape: (B,), bool.
        metrics: By name.
    """

    features: dict[EntityName, RaggedBufferF32]
    visible: dict[EntityName, RaggedBufferBool]
    action_masks: dict[ActionName, VecActionMask]
    reward: npt.NDArray[np.float32]
    done: npt.NDArray[np.bool_]
    metrics: dict[str, Metric] = field(default_factory=dict)

    def extend(self, other: VecObs) -> None:
        """Add the frames of ``other``; missing types and actions have no entities or actors."""
        own, new = len(self.reward), len(other.reward)
        for name in {**self.visible, **other.visible}:
            parts = [obs.visible.get(name) or _shown(obs, name) for obs in (self, other)]
            self.visible[name] = parts[0]
            self.visible[name].extend(parts[1])
        for name in {**self.features, **other.features}:
            width = (self.features.get(name) or other.features[name]).size2()
            mine = self.features.setdefault(name, empty_ragged_f32(width, own))
            mine.extend(other.features.get(name) or empty_ragged_f32(width, new))
        for action in {**self.action_masks, **other.action_masks}:
            masks = self.action_masks.get(action), other.action_masks.get(action)
            like: Any = masks[0] or masks[1]
            ours: Any = self.action_masks.setdefault(action, _nobody(like, own))
            ours.extend(masks[1] or _nobody(like, new))
        self.reward = np.concatenate((self.reward, other.reward))
        self.done = np.concatenate((self.done, other.done))
        for name, metric in other.metrics.items():
            self.metrics[name] = self.metrics.get(name, Metric()) + metric


def batch_obs(
    obs: Sequence[Observation], obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]
) -> VecObs:
    """Check observations and pack them.

    Raises:
        EntityEnvError: An observation is not valid.
    """
    # Entity Gym allows a space without actions, but the reader needs at least one.
    reader = FrameReader(obs_space, action_space or {"nothing": SelectEntityActionSpace()})
    frames = [reader.read(observation) for observation in obs]
    batched = translated(
        batch.batch_frames(frames, obs_space, action_space),
        has_global_entity(obs_space, action_space),
    )
    for frame in frames:
        for name, value in frame.metrics.items():
            batched.metrics.setdefault(name, Metric()).push(value)
    return batched


def translated(obs: batch.VecObs, is_global: bool) -> VecObs:
    """Return the observation in the format of Entity Gym, without shared memory.

    Args:
        obs: The observation of the rows.
        is_global: True to add a global entity.
    """
    features = {name: own.clone() for name, own in obs.features.items()}
    if is_global:
        one_each = np.ones(len(obs.global_features), np.int64)
        flat = np.array(obs.global_features, np.float32)
        features[GLOBAL] = RaggedBufferF32.from_flattened(flat, one_each)
    return VecObs(
        features=features,
        visible={name: own.clone() for name, own in obs.visible.items()},
        action_masks={name: _mask(mask) for name, mask in obs.action_masks.items()},
        reward=obs.reward.copy(),
        done=obs.done.copy(),
        metrics=_metrics(obs.metrics),
    )


def has_global_entity(obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> bool:
    """Return True if frames have an entity for the player as a whole."""
    kinds = (isinstance(space, GlobalCategoricalActionSpace) for space in action_space.values())
    return bool(obs_space.global_features) or any(kinds)


def empty_ragged_f32(feats: int, sequences: int) -> RaggedBufferF32:
    """Return ``sequences`` frames without entities of ``feats`` features."""
    nothing = np.zeros((0, feats), np.float32)
    return RaggedBufferF32.from_flattened(nothing, np.zeros(sequences, np.int64))


def empty_ragged_i64(feats: int, sequences: int) -> RaggedBufferI64:
    """Return ``sequences`` frames without integers; see ``empty_ragged_f32``."""
    nothing = np.zeros((0, feats), np.int64)
    return RaggedBufferI64.from_flattened(nothing, np.zeros(sequences, np.int64))


def _all_true(like: RaggedBufferI64 | RaggedBufferF32, width: int) -> RaggedBufferBool:
    """Return True for each item of ``like``. Shape: (B, N, width)."""
    flat = np.ones((like.items(), width), np.bool_)
    return RaggedBufferBool.from_flattened(flat, like.size1())


def _shown(obs: VecObs, name: EntityName) -> RaggedBufferBool:
    """Return a mask in which all entities of a type are visible."""
    features = obs.features.get(name)
    return _all_true(empty_ragged_f32(0, len(obs.reward)) if features is None else features, 1)


def _nobody(like: VecActionMask, frames: int) -> VecActionMask:
    """Return a mask of frames without actors."""
    actors = empty_ragged_i64(1, frames)
    if isinstance(like, VecSelectEntityActionMask):
        return VecSelectEntityActionMask(actors, empty_ragged_i64(1, frames))
    return VecCategoricalActionMask(actors)


def _mask(mask: batch.VecActionMask) -> VecActionMask:
    if isinstance(mask, VecSelectEntitiesActionMask | batch.VecContinuousActionMask):
        sets = isinstance(mask, batch.VecContinuousActionMask)
        what = "a continuous action" if sets else "an action that selects several entities"
        raise SpaceError(
            f"{what} has no equivalent in Entity Gym",
            expected="categorical or select-entity actions",
        )
    allowed = None if mask.mask is None else mask.mask.clone()
    if isinstance(mask, batch.VecSelectEntityActionMask):
        return VecSelectEntityActionMask(mask.actors.clone(), mask.actees.clone(), allowed)
    return VecCategoricalActionMask(mask.actors.clone(), allowed)


def _metrics(columns: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, Metric]:
    """Return the metrics of all ended episodes, by name."""
    whole = complete_columns(columns)
    derived = {
        f"{name}.{part}" for name in whole for part in ("mean", "min", "max", "sum", "count")
    }
    metrics = {}
    for name in whole:
        if name not in RESERVED_METRICS and name not in derived:
            once = whole[name], np.where(np.isnan(whole[name]), np.nan, 1.0)
            total, low, high = (whole.get(f"{name}.{p}", once[0]) for p in ("sum", "min", "max"))
            count = whole.get(f"{name}.count", once[1])
            metrics[name] = Metric(
                int(np.nansum(count)),
                float(np.nansum(total)),
                float(np.nanmin(low)),
                float(np.nanmax(high)),
            )
    return metrics
