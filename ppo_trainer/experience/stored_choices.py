"""The output of the network for choices that were made earlier."""

from __future__ import annotations

from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.experience.tensors import values_of
from ragged_net import NetOutput, RaggedNet

__all__ = ["evaluated"]


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
