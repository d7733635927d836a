"""Passes of the network over frames of rows, the memory of rows, and answers of several players."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env import VecObs
from entity_env.batching.ragged import ActionBuffer, cat
from entity_env.batching.vec_obs import all_rows
from entity_env.errors import DivergedError
from entity_env.recording.records import select_frames
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.machine.device import explained_memory, has_bfloat16
from ragged_net import EntityBatch, NetOutput, RaggedNet, RaggedTensor
from ragged_net.devices import send

__all__ = [
    "MOST_FRAMES",
    "RowMemory",
    "act",
    "answers_in_order",
    "autocast",
    "check_output",
    "check_sums",
    "evaluated",
    "evaluations",
    "frames_of",
    "take_frames",
    "value",
    "values_of",
]


class RowMemory:
    """The memory state of each row, which is set to 0 where the row's episode ends.

    Tensors that were returned never change: each step makes new ones.

    Args:
        net: The network.
        num_rows: Number of rows R.

    Attributes:
        states: Shape: (R, W), float32, on the network's device; None for a network without memory.
    """

    def __init__(self, net: RaggedNet, num_rows: int) -> None:
        self.states: Tensor | None = None
        if net.memory is not None:
            self.states = net.initial_state(num_rows)

    def with_states(self, states: Tensor) -> RowMemory:
        """Return a memory with other rows, whose states are ``states`` (R, W)."""
        other = copy.copy(self)
        other.states = states
        return other

    def of(self, rows: npt.NDArray[np.int64]) -> Tensor | None:
        """Return the states of ``rows`` (B,), in ascending order. Shape: (B, W)."""
        if self.states is None or len(rows) == len(self.states):
            return self.states
        return self.states.index_select(0, send(torch.from_numpy(rows), self.states.device))

    def keep(self, rows: npt.NDArray[np.int64], states: Tensor | None) -> None:
        """Store the states of these rows, in ascending order, after they have acted."""
        if self.states is None or states is None:
            return
        if len(rows) == len(self.states):
            self.states = states
        else:
            places = send(torch.from_numpy(rows), self.states.device)
            self.states = self.states.index_copy(0, places, states)

    def cut(self, done: npt.NDArray[np.bool_]) -> None:
        """Set the states of the rows that are ``done`` (R,) to 0."""
        if self.states is not None and done.any():
            ended = send(torch.from_numpy(done), self.states.device)
            self.states = self.states.masked_fill(ended[:, None], 0.0)


Ints = npt.NDArray[np.int64]


def frames_of(obs: VecObs, places: Ints) -> VecObs:
    """Return the frames at these places (K,) as an observation of K rows."""
    bare = obs
    if len(obs) != obs.num_frames or obs.rows is not all_rows(len(obs)):
        few = np.zeros(obs.num_frames)
        nothing = few.astype(np.bool_)
        bare = replace(
            obs,
            reward=few.astype(np.float32),
            done=nothing,
            truncated=nothing,
            rows=all_rows(obs.num_frames),
        )
    return select_frames(bare, places)


def take_frames(obs: VecObs, places: Ints) -> VecObs:
    """Return an observation of the same rows that contains only the frames at these places (K,)."""
    shown = frames_of(obs, places)
    return replace(
        obs,
        features=shown.features,
        action_masks=shown.action_masks,
        global_features=shown.global_features,
        visible=shown.visible,
        rows=obs.rows[places],
    )


def answers_in_order(
    answers: Sequence[Mapping[str, ActionBuffer]], places: Sequence[Ints]
) -> Mapping[str, ActionBuffer]:
    """Return the actions of several players, in the order of all frames.

    Args:
        answers: Actions of each player in its own frames.
        places: Places of each player's frames among all frames, ascending.
    """
    filled = [part for part, place in zip(answers, places, strict=True) if len(place)]
    if len(filled) < 2:
        return filled[0] if filled else {}
    order = np.argsort(np.concatenate(places))
    parts: dict[str, list[Any]] = {name: [part[name] for part in filled] for name in filled[0]}
    return {name: cat(buffers)[order].materialize() for name, buffers in parts.items()}


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
