"""The network over the rows of a rollout: many of them a part at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ragged_net import EntityBatch, NetOutput, RaggedNet

__all__ = ["MOST_FRAMES", "act", "value"]

MOST_FRAMES = 512
"""On the CPU more frames at once are no faster, and their activations would fill the memory."""


def act(net: RaggedNet, batch: EntityBatch, generator: torch.Generator) -> NetOutput:
    """``net(batch, generator=generator)``."""
    outputs = [net(part, generator=generator) for part in _parts(batch, generator.device)]
    return NetOutput.cat(outputs) if len(outputs) > 1 else outputs[0]


def value(net: RaggedNet, batch: EntityBatch, device: torch.device) -> Tensor:
    """``net.value(batch)``. Shape: (B,), float32."""
    return torch.cat([net.value(part) for part in _parts(batch, device)])


def _parts(batch: EntityBatch, device: torch.device) -> Iterator[EntityBatch]:
    count = batch.num_frames
    if device.type != "cpu" or count <= MOST_FRAMES:
        yield batch
        return
    for start in range(0, count, MOST_FRAMES):
        yield batch.select(torch.arange(start, min(start + MOST_FRAMES, count)))
