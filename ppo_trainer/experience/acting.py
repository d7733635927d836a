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
    parts = _parts(batch, _at_once(batch.device, batch.num_frames))
    outputs = [net(part, generator=generator) for part in parts]
    return NetOutput.cat(outputs) if len(outputs) > 1 else outputs[0]


def value(net: RaggedNet, batch: EntityBatch, rows: int) -> Tensor:
    """``net.value(batch)`` of several steps of ``rows`` rows. Shape: (B,), float32."""
    parts = _parts(batch, _at_once(batch.device, rows))
    return torch.cat([net.value(part) for part in parts])


def _at_once(device: torch.device, rows: int) -> int:
    """How many frames go through the network together: on a GPU at least a step's."""
    return MOST_FRAMES if device.type == "cpu" else max(rows, MOST_FRAMES)


def _parts(batch: EntityBatch, most: int) -> Iterator[EntityBatch]:
    count = batch.num_frames
    if count <= most:
        yield batch
        return
    for start in range(0, count, most):
        yield batch.select(torch.arange(start, min(start + most, count)))
