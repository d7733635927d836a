"""EntityBatch, the input of the network: entities, actors and masks of B frames as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ragged_net.actors import CategoricalActors, SelectActors, check_dtype
from ragged_net.errors import DeviceError, ShapeError, check_names
from ragged_net.ragged import FrameNumbers, RaggedTensor
from ragged_net.transfer import send

__all__ = ["EntityBatch"]


@dataclass(frozen=True, eq=False)
class EntityBatch:
    """B frames: what they show, and who may do what.

    Args:
        entities: For each entity type, in the order of the observation space, its rows
            (N_k, F_k) float32. All types are present; any of them may be empty.
        global_features: (B, G) float32; G is 0 where there are none. Its rows count the frames.
        visible: For an entity type, (N_k,) bool: False hides the entity from the policy, not from
            the value function. A type that is absent is wholly visible.
        actions: The actors of every action of the action space.

    Raises:
        ShapeError, DtypeError, DeviceError, UnknownNameError: Parts that do not fit together.
    """

    entities: Mapping[str, RaggedTensor]
    global_features: Tensor
    visible: Mapping[str, Tensor] = field(default_factory=dict)
    actions: Mapping[str, CategoricalActors | SelectActors] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that all parts speak of the same frames, on one device."""
        check_dtype("the global features", self.global_features, torch.float32)
        if self.global_features.ndim != 2:
            raise ShapeError(
                "the global features have the wrong number of dimensions",
                expected="(B, G), with G = 0 where there are none",
                received=tuple(self.global_features.shape),
            )
        for name, rows in self.entities.items():
            check_dtype(f"entity type {name!r}", rows.values, torch.float32)
            if rows.values.ndim != 2:
                raise ShapeError(
                    f"the features of entity type {name!r} have the wrong number of dimensions",
                    expected="(N, F)",
                    received=tuple(rows.values.shape),
                )
        _check_visible(self.visible, self.entities)
        for where, part in self._ragged_parts():
            if part.num_frames != self.num_frames:
                raise ShapeError(
                    f"{where} has another number of frames than the batch",
                    expected=f"{self.num_frames}, the rows of the global features",
                    received=part.num_frames,
                )
            if part.values.device != self.device:
                raise DeviceError(
                    f"{where} is on another device than the global features",
                    expected=self.device,
                    received=part.values.device,
                )

    def _ragged_parts(self) -> Iterator[tuple[str, RaggedTensor]]:
        for name, rows in self.entities.items():
            yield f"entity type {name!r}", rows
        for name, action in self.actions.items():
            yield f"action {name!r}", action.actors
            if isinstance(action, SelectActors):
                yield f"action {name!r}", action.actees

    @property
    def num_frames(self) -> int:
        """B, the number of frames."""
        return self.global_features.shape[0]

    @property
    def num_entities(self) -> int:
        """N, the number of entities of all types in all frames, global entities not counted."""
        return sum(rows.num_rows for rows in self.entities.values())

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.global_features.device

    def select(self, frames: Tensor | FrameNumbers) -> EntityBatch:
        """The given ``frames`` (K,) int64, in that order; a frame may occur more than once."""
        frames = FrameNumbers.of(frames, self.device)
        entities, visible = {}, {}
        for name, ragged in self.entities.items():
            entities[name], rows = ragged.select_with_rows(frames)
            if name in self.visible:
                visible[name] = self.visible[name].index_select(0, rows)
        actions = {name: action.select(frames) for name, action in self.actions.items()}
        features = self.global_features.index_select(0, frames.there)
        return EntityBatch(entities, features, visible, actions)

    @staticmethod
    def cat(batches: Sequence[EntityBatch]) -> EntityBatch:
        """All frames of ``batches``; what only some of them mask is unmasked in the others."""
        from ragged_net.growing import GrowingBatch  # which is made of batches

        grown = GrowingBatch(len(batches))
        for batch in batches:
            grown.add(batch)
        return grown.all()

    def to(self, device: torch.device | str) -> EntityBatch:
        """The same batch on ``device``; on the way to a GPU the program goes on."""
        if torch.device(device) == self.device:
            return self
        return EntityBatch(
            {name: rows.to(device) for name, rows in self.entities.items()},
            send(self.global_features, device),
            {name: send(mask, device) for name, mask in self.visible.items()},
            {name: action.to(device) for name, action in self.actions.items()},
        )


def _check_visible(visible: Mapping[str, Tensor], entities: Mapping[str, RaggedTensor]) -> None:
    for name, mask in visible.items():
        # Absent types are fine, so only the names that are there can be wrong.
        check_names("entity type", "the visible mask", {**entities, name: None}, entities)
        check_dtype(f"the visible mask of {name!r}", mask, torch.bool)
        if mask.shape != (entities[name].num_rows,):
            raise ShapeError(
                f"the visible mask of entity type {name!r} has the wrong shape",
                expected=(entities[name].num_rows,),
                received=tuple(mask.shape),
            )
