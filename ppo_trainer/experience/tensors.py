"""Conversion of ragged buffers to tensors, and of choices to ragged buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env import (
    RaggedBufferF32,
    RaggedBufferI64,
    VecContinuousActionMask,
    VecObs,
    VecSelectEntityActionMask,
)
from entity_env.batching.ragged import ActionBuffer
from ragged_net import (
    CategoricalActors,
    ContinuousActors,
    EntityBatch,
    NetOutput,
    RaggedTensor,
    SelectActors,
)
from ragged_net.actors import Actors
from ragged_net.ragged import offsets_of

__all__ = ["answers_of", "to_actions", "to_batch", "to_value_batch", "values_of"]


def to_batch(obs: VecObs, device: torch.device) -> EntityBatch:
    """Return an observation as input of the network: B frames as flat values and offsets."""
    return EntityBatch(
        entities={name: _ragged(buffer) for name, buffer in obs.features.items()},
        global_features=torch.from_numpy(obs.global_features),
        visible={
            name: torch.from_numpy(buffer.as_array()[:, 0]) for name, buffer in obs.visible.items()
        },
        actions={name: _actors(mask) for name, mask in obs.action_masks.items()},
    ).to(device)


def to_value_batch(observations: Sequence[VecObs], device: torch.device) -> EntityBatch:
    """Return the frames of all ``observations`` without actions, to compute their values."""
    first = observations[0]
    entities, visible = {}, {}
    for name in first.features:
        buffers = [obs.features[name] for obs in observations]
        lengths = torch.from_numpy(np.concatenate([buffer.size1() for buffer in buffers]))
        rows = torch.from_numpy(np.concatenate([buffer.as_array() for buffer in buffers]))
        entities[name] = RaggedTensor.from_lengths(rows, lengths)
        if any(name in obs.visible for obs in observations):
            shown = [_shown(obs, name) for obs in observations]
            visible[name] = torch.from_numpy(np.concatenate(shown))
    global_features = np.concatenate([obs.global_features for obs in observations])
    return EntityBatch(entities, torch.from_numpy(global_features), visible).to(device)


def to_actions(output: NetOutput) -> dict[str, ActionBuffer]:
    """Return the network's choices as input of ``VecEnv.act``."""
    return answers_of({name: action.chosen for name, action in output.actions.items()})


def answers_of(chosen: Mapping[str, RaggedTensor]) -> dict[str, ActionBuffer]:
    """Return the choices of the actors of each action as input of ``VecEnv.act``."""
    return {name: _answers(own) for name, own in chosen.items()}


def _answers(chosen: RaggedTensor) -> ActionBuffer:
    values, lengths = chosen.values.cpu().numpy(), chosen.host_offsets.diff().numpy()
    kind = RaggedBufferI64 if values.dtype == np.int64 else RaggedBufferF32
    return kind.from_flattened(values if values.ndim == 2 else values[:, None], lengths)


def _shown(obs: VecObs, name: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the visible entities of a type. Shape: (N,)."""
    if name not in obs.visible:
        return np.ones(len(obs.features[name].as_array()), np.bool_)
    shown: npt.NDArray[np.bool_] = obs.visible[name].as_array()[:, 0]
    return shown


def _actors(mask: Any) -> Actors:
    actors = _column(mask.actors)
    if isinstance(mask, VecContinuousActionMask):
        return ContinuousActors(actors)
    if isinstance(mask, VecSelectEntityActionMask):
        pairs = None if mask.mask is None else _column(mask.mask)
        return SelectActors(actors, _column(mask.actees), pairs)
    return CategoricalActors(actors, torch.from_numpy(mask.mask.as_array()))


def _ragged(buffer: Any) -> RaggedTensor:
    return _framed(torch.from_numpy(buffer.as_array()), buffer)


def _column(buffer: Any) -> RaggedTensor:
    """Return a buffer of width 1 as flat values (N,)."""
    return _framed(torch.from_numpy(buffer.as_array()[:, 0]), buffer)


def _framed(values: Tensor, buffer: Any) -> RaggedTensor:
    """Return values in the frames of a buffer, whose lengths must add up to their number."""
    lengths = buffer.size1()
    if lengths.min(initial=0) < 0:  # the only mistake that a buffer does not check
        return RaggedTensor.from_lengths(values, torch.from_numpy(lengths))  # raises the error
    return RaggedTensor.unchecked(values, offsets_of(torch.from_numpy(lengths)))


def values_of(ragged: Mapping[str, RaggedTensor]) -> dict[str, Tensor]:
    """Return the values of several ragged tensors."""
    return {name: tensor.values for name, tensor in ragged.items()}
