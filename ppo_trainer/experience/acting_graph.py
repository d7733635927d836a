"""Acting as a CUDA graph: one copy to the device, one launch, one copy back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ppo_trainer.experience.acting import autocast, check_sums
from ppo_trainer.experience.padding import (
    BatchPart,
    Key,
    batch_of,
    carve,
    fill,
    padded_offsets,
    parts_of,
    sizes_of,
    slack_frames,
)
from ppo_trainer.machine.graphs import Capture, Graphs, Rooms, capture
from ragged_net import EntityBatch, NetOutput, RaggedNet, RaggedTensor
from ragged_net.devices import send
from ragged_net.heads.kind import ActionOutput

__all__ = ["Acted", "ActingGraphs"]

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Acted:
    """The decisions of a step, in memory that the next step overwrites.

    Args:
        batch: B frames, on the device of the network.
        output: Output of the network for them, without probabilities.
        chosen: Choices of the actors of each action, on the CPU.
    """

    batch: EntityBatch
    output: NetOutput
    chosen: Mapping[str, RaggedTensor]


class ActingGraphs:
    """The CUDA graphs in which a network acts, one for each frequent size of observations.

    Args:
        graphs: Decides if the network may be captured.
        net: The network.
        frames: Maximum number of frames of a step.
        precision: ``TrainConfig.precision``.
        capture: Function that makes a graph of a function.
    """

    def __init__(
        self,
        graphs: Graphs,
        net: RaggedNet,
        frames: int,
        precision: str,
        capture: Capture = capture,
    ) -> None:
        self.graphs = graphs
        self._net, self._frames, self._precision, self._capture = net, frames, precision, capture
        self._rooms = Rooms[_Room]()

    def begin(self, device: torch.device) -> bool:
        """Return True if the next rollout may use graphs; drop graphs of other weights."""
        return self.graphs.begin(device, self._rooms)

    def act(self, batch: EntityBatch, generator: torch.Generator) -> Acted | None:
        """Act on a ``batch`` on the CPU whose numbers have been checked.

        Returns:
            The decisions, or None if the pass cannot be captured; graphs are not used any more
            then.
        """
        parts = parts_of(batch)
        kind = tuple((key, *part.rows) for key, part in parts.items())
        sizes = sizes_of({key: part.count for key, part in parts.items()})

        def make(rooms: tuple[int, ...]) -> _Room:
            room = _Room(
                self._net, parts, dict(zip(parts, rooms, strict=True)), batch, self._frames,
                self._precision, generator,
            )  # fmt: skip
            room.write(batch, parts)
            room.replay = self._capture(room.run, generator.device, generator)
            return room

        room = self.graphs.attempt(self._rooms, kind, sizes, make, "rollout.num_envs")
        if room is None:
            return None
        room.write(batch, parts)
        room.replay()
        return room.read(batch, parts)


class _Room:
    """Buffers on the CPU and on the device, and the pass of the network that works on them."""

    def __init__(
        self,
        net: RaggedNet,
        parts: Mapping[Key, BatchPart],
        rooms: Mapping[Key, int],
        like: EntityBatch,
        frames: int,
        precision: str,
        generator: torch.Generator,
    ) -> None:
        self._net, self._precision, self._generator = net, precision, generator
        self._rooms, self._frames = rooms, frames
        total = frames + slack_frames(frames)
        fields: dict[tuple[str, ...], tuple[tuple[int, ...], torch.dtype]] = {
            ("features",): ((total, like.global_features.shape[1]), torch.float32)
        }
        for key, part in parts.items():
            fields[key] = (total + 1,), torch.int64
            for name, rows in part.rows.items():
                fields[*key, name] = (rooms[key], *rows.shape[1:]), rows.dtype
        self._here, self._ours = carve(fields, CPU)
        self._there, self._theirs = carve(fields, generator.device)
        self._batch = batch_of(
            {key: self._part(key, part) for key, part in parts.items()},
            self._theirs["features",],
            padded=True,
        )
        self._output: NetOutput | None = None
        self._back: Tensor | None = None
        self.replay = self.run

    def _part(self, key: Key, part: BatchPart, known: Tensor | None = None) -> BatchPart:
        """Return a part on the device: all of its rows, or those of the ``known`` offsets."""
        rows = {name: self._theirs[*key, name] for name in part.rows}
        if known is None:
            return BatchPart(self._theirs[key], rows)
        count = int(known[-1])
        rows = {name: tensor[:count] for name, tensor in rows.items()}
        return BatchPart(self._theirs[key][: len(known)], rows, known)

    def write(self, batch: EntityBatch, parts: Mapping[Key, BatchPart]) -> None:
        """Copy a batch to the device, and fill the rest of the buffers with slack."""
        features = self._ours["features",]
        features[: batch.num_frames] = batch.global_features
        features[batch.num_frames :] = 0
        for key, part in parts.items():
            ends = padded_offsets(key[0], part.ends, self._rooms[key], self._frames)
            self._ours[key].copy_(torch.from_numpy(ends))
            for name, rows in part.rows.items():
                ours = self._ours[*key, name]
                ours[: len(rows)] = rows
                ours[len(rows) :] = fill(rows)
        self._there.copy_(send(self._here, self._there.device))

    def run(self) -> None:
        """Run a pass of the network, and pack the results that the CPU needs side by side."""
        device = self._there.device
        with torch.no_grad(), autocast(device, self._precision):
            output = self._net(self._batch, generator=self._generator, trusted=True)
        sums = [output.value.sum(), *(action.log_prob.sum() for action in output.actions.values())]
        chosen = [action.chosen.values for action in output.actions.values()]
        # Numbers of 8 bytes first, so that all are aligned.
        back = [*sorted(chosen, key=lambda values: -values.itemsize), torch.stack(sums).float()]
        self._output = output
        self._back = torch.cat([values.contiguous().view(-1).view(torch.uint8) for values in back])

    def read(self, batch: EntityBatch, parts: Mapping[Key, BatchPart]) -> Acted:
        """Return the results of the frames that are not slack.

        Raises:
            NonFiniteError: The network has diverged.
        """
        output, back = self._output, self._back
        assert output is not None
        assert back is not None
        bytes_, at, here = back.cpu(), 0, dict[str, Tensor]()
        order = sorted(output.actions.items(), key=lambda item: -item[1].chosen.values.itemsize)
        for name, action in order:
            values = action.chosen.values
            end = at + values.nbytes
            here[name] = bytes_[at:end].view(values.dtype).view(values.shape)
            at = end
        check_sums(["value", *output.actions], bytes_[at:].view(torch.float32).tolist())
        there, known = dict[Key, BatchPart](), dict[str, Tensor]()
        for key, part in parts.items():
            there[key] = self._part(key, part, part.known)
            if key[0] == "actors" and part.known is not None:
                known[key[1]] = part.known
            if key[0] == "pairs" and getattr(batch.actions[key[1]], "mask", None) is None:
                there[key].rows.clear()  # all pairs are allowed
        actions, chosen = dict[str, ActionOutput](), dict[str, RaggedTensor]()
        for name, action in output.actions.items():
            count = int(known[name][-1])
            ours = there["actors", name].ragged().with_values(action.chosen.values[:count])
            actions[name] = ActionOutput(
                ours, action.log_prob[:count], action.entropy[:count], None
            )
            chosen[name] = RaggedTensor.unchecked(here[name][:count], known[name])
        frames = self._theirs["features",][: batch.num_frames]
        result = NetOutput(actions, output.value[: batch.num_frames].clone())
        return Acted(batch_of(there, frames, padded=False), result, chosen)
