"""Where ragged buffers become tensors, and choices become ragged buffers again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from entity_env import RaggedBufferI64, VecObs, VecSelectEntityActionMask
from ragged_net import CategoricalActors, EntityBatch, NetOutput, RaggedTensor, SelectActors

__all__ = ["to_actions", "to_batch"]


def to_batch(obs: VecObs, device: torch.device) -> EntityBatch:
    """The network's input: R frames, flat values and offsets."""
    batch = EntityBatch(
        entities={name: _ragged(buffer) for name, buffer in obs.features.items()},
        global_features=torch.from_numpy(obs.global_features),
        visible={
            name: torch.from_numpy(buffer.as_array()[:, 0]) for name, buffer in obs.visible.items()
        },
        actions={name: _actors(mask) for name, mask in obs.action_masks.items()},
    )
    if device.type == "cuda":  # from page-locked memory, copies do not hold up the program
        return batch.pin_memory().to(device, non_blocking=True)
    return batch.to(device)


def to_actions(output: NetOutput) -> dict[str, RaggedBufferI64]:
    """The network's choices as ``VecEnv.act`` takes them."""
    return {
        name: RaggedBufferI64.from_flattened(
            action.chosen.values.cpu().numpy()[:, None], action.chosen.lengths.cpu().numpy()
        )
        for name, action in output.actions.items()
    }


def _actors(mask: Any) -> CategoricalActors | SelectActors:
    actors = _column(mask.actors)
    if isinstance(mask, VecSelectEntityActionMask):
        pairs = None if mask.mask is None else _column(mask.mask)
        return SelectActors(actors, _column(mask.actees), pairs)
    return CategoricalActors(actors, torch.from_numpy(mask.mask.as_array()))


def _ragged(buffer: Any) -> RaggedTensor:
    lengths: Tensor = torch.from_numpy(buffer.size1())
    return RaggedTensor.from_lengths(torch.from_numpy(buffer.as_array()), lengths)


def _column(buffer: Any) -> RaggedTensor:
    """A buffer of width 1 as flat values (N,)."""
    lengths: Tensor = torch.from_numpy(buffer.size1())
    return RaggedTensor.from_lengths(torch.from_numpy(buffer.as_array()[:, 0]), lengths)


def flat(ragged: Mapping[str, RaggedTensor]) -> dict[str, Tensor]:
    """The values of several ragged tensors."""
    return {name: tensor.values for name, tensor in ragged.items()}
