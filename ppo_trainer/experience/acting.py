"""Passes of the network over the rows of a rollout, many rows in several parts."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ragged_net import EntityBatch, NetOutput, RaggedNet

__all__ = ["MOST_FRAMES", "act", "value"]

MOST_FRAMES = 512
"""On the CPU more frames at once are no faster, and their activations would fill the memory."""


def act(
    net: RaggedNet, batch: EntityBatch, generator: torch.Generator, memory: Tensor | None = None
) -> NetOutput:
    """Return ``net(batch, generator=generator, memory=memory)``, computed in parts."""
    parts = _parts(batch, _at_once(batch.device, batch.num_frames), memory)
    outputs = [net(part, generator=generator, memory=state) for part, state in parts]
    return NetOutput.cat(outputs) if len(outputs) > 1 else outputs[0]


def value(net: RaggedNet, batch: EntityBatch, rows: int, memory: Tensor | None = None) -> Tensor:
    """Return ``net.value`` of several steps of ``rows`` rows, in parts. Shape: (B,), float32."""
    parts = _parts(batch, _at_once(batch.device, rows), memory)
    return torch.cat([net.value(part, memory=state) for part, state in parts])


def _at_once(device: torch.device, rows: int) -> int:
    """Return the most frames of one part; on a GPU at least those of a step."""
    return MOST_FRAMES if device.type == "cpu" else max(rows, MOST_FRAMES)


def _parts(
    batch: EntityBatch, most: int, memory: Tensor | None
) -> Iterator[tuple[EntityBatch, Tensor | None]]:
    count = batch.num_frames
    if count <= most:
        yield batch, memory
        return
    for start in range(0, count, most):
        state = None if memory is None else memory[start : start + most]
        yield batch.select(torch.arange(start, min(start + most, count))), state
