"""Batches of observations, and choices as the observations' rows take them.

This package imports no environments: any object with the attributes of ``Observed`` can be read,
such as a ``VecObs`` of ``entity_env``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ragged_net.actors import Actors, CategoricalActors, ContinuousActors, SelectActors
from ragged_net.ragged import RaggedTensor

__all__ = ["Observed", "actors_of", "choices_for", "column_of", "rows_of"]


class Observed(Protocol):
    """An observation of B frames in ragged buffers.

    A buffer has ``as_array()``, the values (N, F) of all frames, and ``size1()``, the number of
    rows of each frame (B,). ``ragged_actions`` makes such buffers of flat choices.
    """

    @property
    def features(self) -> Mapping[str, Any]:
        """Buffer of the features of each entity type."""

    @property
    def visible(self) -> Mapping[str, Any]:
        """Buffer (N, 1) of bool of each entity type with hidden entities."""

    @property
    def global_features(self) -> Any:
        """Array (B, G) float32."""

    @property
    def action_masks(self) -> Mapping[str, Any]:
        """Actors of each action, and their ``mask`` or ``actees``, as buffers."""

    def ragged_actions(self, choices: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the choices of the actors of each action, (A,) or (A, K), as buffers."""


def rows_of(buffer: Any) -> RaggedTensor:
    """Return a buffer as flat values (N, F)."""
    return _framed(torch.from_numpy(buffer.as_array()), buffer)


def column_of(buffer: Any) -> RaggedTensor:
    """Return a buffer of width 1 as flat values (N,)."""
    return _framed(torch.from_numpy(buffer.as_array()[:, 0]), buffer)


def _framed(values: Tensor, buffer: Any) -> RaggedTensor:
    """Return values in the frames of a buffer, whose lengths must add up to their number."""
    lengths = buffer.size1()
    if lengths.min(initial=0) < 0:  # the only mistake that a buffer does not check
        return RaggedTensor.from_lengths(values, torch.from_numpy(lengths))  # raises the error
    offsets = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return RaggedTensor.unchecked(values, torch.from_numpy(offsets))


def actors_of(mask: Any) -> Actors:
    """Return the actors of one action of an observation."""
    actors = column_of(mask.actors)
    if hasattr(mask, "actees"):
        allowed = None if mask.mask is None else column_of(mask.mask)
        return SelectActors(actors, column_of(mask.actees), allowed)
    if hasattr(mask, "mask"):
        return CategoricalActors(actors, torch.from_numpy(mask.mask.as_array()))
    return ContinuousActors(actors)


def choices_for(obs: Observed, chosen: Mapping[str, RaggedTensor]) -> Mapping[str, Any]:
    """Return the choices of the actors of ``obs`` as its rows take them."""
    flat = {name: choices.values.numpy(force=True) for name, choices in chosen.items()}
    return obs.ragged_actions(flat)
