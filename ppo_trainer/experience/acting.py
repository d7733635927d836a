"""Passes of the network over frames, to choose or for choices made earlier, in parts if many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from entity_env.errors import DivergedError
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.machine.device import explained_memory, has_bfloat16
from ragged_net import EntityBatch, NetOutput, RaggedNet, RaggedTensor

__all__ = [
    "MOST_FRAMES",
    "act",
    "autocast",
    "check_output",
    "check_sums",
    "evaluated",
    "evaluations",
    "value",
    "values_of",
]

MOST_FRAMES = 512
"""Maximum number of frames of a pass on the CPU. More are no faster and take more memory."""


def act(
    net: RaggedNet,
    batch: EntityBatch,
    generator: torch.Generator | None,
    memory: Tensor | None = None,
    trusted: bool = False,
    greedy: bool = False,
) -> NetOutput:
    """Return ``net(batch, generator=generator, memory=memory, ...)``, computed in parts."""
    parts = _parts(batch, _at_once(batch.device, batch.num_frames), memory)
    what = f"a pass of {batch.num_frames:,} frames with {batch.num_entities:,} entities"
    with explained_memory(what, "rollout.num_envs"):
        outputs = [
            net(part, generator=generator, memory=state, trusted=trusted, greedy=greedy)
            for part, state in parts
        ]
    return NetOutput.cat(outputs) if len(outputs) > 1 else outputs[0]


def value(net: RaggedNet, batch: EntityBatch, rows: int, memory: Tensor | None = None) -> Tensor:
    """Return ``net.value`` of several steps of ``rows`` rows. Shape: (B,), float32."""
    parts = _parts(batch, _at_once(batch.device, rows), memory)
    return torch.cat([net.value(part, memory=state) for part, state in parts])


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


def _at_once(device: torch.device, rows: int) -> int:
    """Return the maximum number of frames of one part; on a GPU at least those of a step."""
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


def autocast(device: torch.device, precision: TrainConfig | str) -> AbstractContextManager[object]:
    """Return the context for passes of the network, for settings or their ``precision``."""
    name = precision if isinstance(precision, str) else precision.precision
    if name != "bfloat16" or not has_bfloat16(device):
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def check_output(output: NetOutput) -> NetOutput:
    """Return the output; raise DivergedError if it is not finite, which makes draws invalid."""
    parts = {"value": output.value}
    parts |= {name: action.log_prob for name, action in output.actions.items()}
    # One read for all, because each makes the CPU wait for the GPU.
    check_sums(list(parts), torch.stack([tensor.sum() for tensor in parts.values()]).tolist())
    return output


def check_sums(names: Sequence[str], sums: Sequence[float]) -> None:
    """Raise DivergedError if a sum is not finite, which means that one of its terms is not."""
    wrong = [name for name, total in zip(names, sums, strict=True) if not math.isfinite(total)]
    if wrong:
        raise DivergedError(
            "the network's output is not finite",
            expected="finite values and log-probabilities",
            received=", ".join(wrong),
        )
