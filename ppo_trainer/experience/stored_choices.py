"""The output of the network for choices that were made earlier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from ppo_trainer.experience.acting import MOST_FRAMES
from ppo_trainer.experience.rollout import Rollout
from ragged_net import NetOutput, RaggedNet, RaggedTensor

__all__ = ["evaluated", "evaluations", "values_of"]


def values_of(ragged: Mapping[str, RaggedTensor]) -> dict[str, Tensor]:
    """Return the values of several ragged tensors."""
    return {name: tensor.values for name, tensor in ragged.items()}


def evaluated(
    net: RaggedNet, part: Rollout, *, greedy: bool = False, trusted: bool = True
) -> NetOutput:
    """Return the network's output for the stored choices, or for its own most likely ones."""
    given, sequences = None if greedy else values_of(part.chosen), part.sequences
    if sequences is None:
        output: NetOutput = net(part.batch, given=given, greedy=greedy, trusted=trusted)
    else:
        output = net(
            part.batch,
            memory=sequences.states,
            sequences=sequences.lengths,
            given=given,
            greedy=greedy,
            trusted=trusted,
        )
    return output


def evaluations(
    net: RaggedNet, rollout: Rollout, frames: Tensor
) -> Iterator[tuple[Tensor, NetOutput]]:
    """Yield frame numbers, and the network's output for the choices stored there, in parts.

    Args:
        net: The network.
        rollout: The frames and choices.
        frames: Numbers of the frames to evaluate, on the CPU. All frames are evaluated, in the
            order of their sequences, if there are any: a memory depends on the frames before.
    """
    if rollout.sequences is None:
        for numbers in torch.split(frames, MOST_FRAMES):
            yield numbers, evaluated(net, rollout.select(numbers))
        return
    order, first = rollout.sequences.frames.values, 0
    whole = rollout.part(torch.arange(len(rollout.sequences)))
    for part in whole.parts(MOST_FRAMES):
        yield order[first : first + len(part)], evaluated(net, part)
        first += len(part)
