"""The gradients of a minibatch as a CUDA graph: gather, forward, losses and backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from ppo_trainer.algorithms.algorithm import Objective, Scale
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.algorithms.vtrace import VTrace
from ppo_trainer.experience.acting import autocast
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
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.learner.minibatches import Minibatch, facts_of
from ppo_trainer.machine.graphs import Capture, Graphs, Rooms, capture, room_for
from ragged_net import NetOutput, RaggedNet, RaggedTensor
from ragged_net.devices import send

__all__ = ["StepGraphs"]

CPU = torch.device("cpu")


class StepGraphs:
    """The CUDA graphs in which a network is trained, one for each size of minibatches.

    The rollout is copied to memory that all graphs read.

    Args:
        graphs: Decides if the network may be captured.
        net: The network.
        precision: ``TrainConfig.precision``.
        capture: Function that makes a graph of a function.
    """

    def __init__(
        self, graphs: Graphs, net: RaggedNet, precision: str, capture: Capture = capture
    ) -> None:
        self.graphs = graphs
        self._net, self._precision, self._capture = net, precision, capture
        self._store: _Store | None = None
        self._rooms = Rooms[_Step]()

    def begin(self, algorithm: Objective, rollout: Rollout) -> bool:
        """Return True if the gradients of this rollout may be computed in graphs."""
        size = algorithm.config.microbatch_size
        if type(algorithm) not in (PPO, VTrace) or 0 < size < algorithm.config.minibatch_size:
            return False
        if rollout.clone_log_probs is not None:
            return False
        if not self.graphs.begin(rollout.values.device, self._rooms):
            return False
        parts = parts_of(rollout.batch, rollout.chosen, rollout.log_probs)
        if self._store is None or not self._store.fits(parts, len(rollout)):
            self._rooms.keep_for(None)
            self._store = None  # free the memory before the next one is allocated
            self._store = _Store(parts, rollout)
        self._store.write(parts, rollout)
        return True

    def add_gradients(
        self,
        algorithm: Objective,
        rollout: Rollout,
        minibatch: Minibatch,
        coefficients: Mapping[str, float],
    ) -> dict[str, Tensor] | None:
        """Set the gradients of the network to those of some frames of the rollout.

        Args:
            algorithm: Objective to minimise.
            rollout: Rollout that ``begin`` got.
            minibatch: The frames.
            coefficients: Coefficients of the losses.

        Returns:
            The numbers that ``algorithm.losses`` measures, or None if they cannot be captured.
        """
        store, numbers = self._store, minibatch.numbers
        assert store is not None
        picked = {key: index.select(numbers) for key, index in store.index.items()}
        sizes = sizes_of({key: rows.num_rows for key, rows in picked.items()})
        scale, mine = minibatch.prepared(algorithm, facts_of(rollout, numbers))

        def make(rooms: tuple[int, ...]) -> _Step:
            room = dict(zip(picked, rooms, strict=True))
            frames = len(numbers), scale.frames
            step = _Step(self._net, store, room, frames, self._precision, algorithm, counted)
            step.write(picked, numbers, scale, coefficients, mine.advantages)
            step.replay = self._capture(step.run, rollout.values.device, None)
            return step

        counted = tuple(name for name, coef in coefficients.items() if coef)
        kind = len(numbers), scale.frames, counted, algorithm.config
        step = self.graphs.attempt(self._rooms, kind, sizes, make, "ppo.minibatch_size")
        if step is None:
            return None
        step.write(picked, numbers, scale, coefficients, mine.advantages)
        step.replay()
        return step.read()


class _Store:
    """A rollout in memory that stays, with one row and one frame of slack at the end."""

    def __init__(self, parts: Mapping[Key, BatchPart], rollout: Rollout) -> None:
        self.kinds = {key: tuple(part.rows) for key, part in parts.items()}
        self.rooms = {key: room_for(part.count) for key, part in parts.items()}
        self.frames = room_for(len(rollout))
        self.index: dict[Key, RaggedTensor] = {}
        self.rows = {
            key: {name: _stored(rows, self.rooms[key]) for name, rows in part.rows.items()}
            for key, part in parts.items()
        }
        self.features = _stored(rollout.batch.global_features, self.frames)
        self.values = _stored(rollout.values, self.frames)
        self.returns = _stored(rollout.returns, self.frames)

    def fits(self, parts: Mapping[Key, BatchPart], frames: int) -> bool:
        """Return True if a rollout fits into the memory."""
        kinds = {key: tuple(part.rows) for key, part in parts.items()}
        return (
            kinds == self.kinds
            and frames <= self.frames
            and all(part.count <= self.rooms[key] for key, part in parts.items())
        )

    def write(self, parts: Mapping[Key, BatchPart], rollout: Rollout) -> None:
        """Copy a rollout into the memory."""
        for key, part in parts.items():
            known = part.known
            assert known is not None
            self.index[key] = RaggedTensor.unchecked(torch.arange(part.count), known)
            for name, rows in part.rows.items():
                self.rows[key][name][: part.count] = rows
        self.features[: len(rollout)] = rollout.batch.global_features
        self.values[: len(rollout)] = rollout.values
        self.returns[: len(rollout)] = rollout.returns


def _stored(like: Tensor, room: int) -> Tensor:
    """Return memory for ``room`` rows and one row of slack."""
    return like.new_full((room + 1, *like.shape[1:]), fill(like))


class _Step:
    """The gradients of minibatches of K frames."""

    def __init__(
        self,
        net: RaggedNet,
        store: _Store,
        rooms: Mapping[Key, int],
        sizes: tuple[int, float],
        precision: str,
        algorithm: Objective,
        counted: tuple[str, ...],
    ) -> None:
        self._net, self._store, self._rooms = net, store, rooms
        self._frames, self._all_frames = sizes
        frames = self._frames
        self._precision, self._algorithm, self._counted = precision, algorithm, counted
        self._parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
        self._gradients: list[Tensor | None] = []
        self._names: list[str] = []
        self._numbers: Tensor | None = None
        total = frames + slack_frames(frames)
        fields: dict[tuple[str, ...], tuple[tuple[int, ...], torch.dtype]] = {
            ("frames",): ((total,), torch.int64),
            ("scales",): ((1 + len(counted),), torch.float32),  # of actors, of each loss
        }
        for key, room in rooms.items():
            fields[key] = (total + 1,), torch.int64
            fields[*key, "rows"] = (room,), torch.int64
        device = store.values.device
        self._here, self._ours = carve(fields, CPU)
        self._there, self._theirs = carve(fields, device)
        self._advantages = torch.zeros(total, device=device)
        self.replay = self.run

    def write(
        self,
        picked: Mapping[Key, RaggedTensor],
        numbers: Tensor,
        scale: Scale,
        coefficients: Mapping[str, float],
        advantages: Tensor,
    ) -> None:
        """Copy the row numbers of a minibatch to the device, and values of the whole minibatch."""
        frames = self._ours["frames",]
        frames[: self._frames] = numbers
        frames[self._frames :] = self._store.frames
        scales = [float(scale.policy), *(coefficients[name] for name in self._counted)]
        self._ours["scales",].copy_(torch.tensor(scales))
        for key, named_rows in picked.items():
            ends = padded_offsets(
                key[0], named_rows.offsets.numpy(), self._rooms[key], self._frames
            )
            self._ours[key].copy_(torch.from_numpy(ends))
            rows = self._ours[*key, "rows"]
            rows[: named_rows.num_rows] = named_rows.values
            rows[named_rows.num_rows :] = self._store.rooms[key]
        self._there.copy_(send(self._here, self._there.device))
        self._advantages[: self._frames] = advantages

    def run(self) -> None:
        """Compute the gradients and the numbers."""
        store, frames = self._store, self._theirs["frames",]
        parts = {
            key: BatchPart(
                self._theirs[key],
                {
                    name: rows.index_select(0, self._theirs[*key, "rows"])
                    for name, rows in store.rows[key].items()
                },
            )
            for key in self._rooms
        }
        acting = {name: part for (kind, name), part in parts.items() if kind == "actors"}
        minibatch = Rollout(
            batch_of(parts, store.features.index_select(0, frames), padded=True),
            {name: part.ragged("chosen") for name, part in acting.items()},
            {name: part.ragged("log_probs") for name, part in acting.items()},
            store.values.index_select(0, frames),
            self._advantages,
            store.returns.index_select(0, frames),
        )
        for parameter in self._parameters:
            parameter.grad = None
        given = {name: part.rows["chosen"] for name, part in acting.items()}
        with autocast(self._there.device, self._precision):
            output = self._net(minibatch.batch, given=given, trusted=True)
        policy, *coefficients = self._theirs["scales",].unbind()
        scale = Scale(frames=self._all_frames, policy=policy)
        losses = self._algorithm.losses(
            _neutral(output, minibatch, self._frames), minibatch, scale, self._net.value_std
        )
        terms = [
            losses[name] * coef for name, coef in zip(self._counted, coefficients, strict=True)
        ]
        torch.stack(terms).sum().backward()  # type: ignore[no-untyped-call]
        self._gradients = [parameter.grad for parameter in self._parameters]
        self._names = list(losses)
        self._numbers = torch.stack([number.detach() for number in losses.values()])

    def read(self) -> dict[str, Tensor]:
        """Return the measured numbers, and set the gradients of the network."""
        assert self._numbers is not None
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return dict(zip(self._names, self._numbers.clone().unbind(), strict=True))


def _neutral(output: NetOutput, minibatch: Rollout, frames: int) -> NetOutput:
    """Return an output in which the frames of slack add 0 to every loss."""
    actions = {}
    for name, action in output.actions.items():
        old = minibatch.log_probs[name]
        counts = torch.arange(old.num_rows, device=old.values.device) < old.offsets[frames]
        log_prob = torch.where(counts, action.log_prob, old.values)
        entropy = torch.where(counts, action.entropy, 0.0)
        actions[name] = replace(action, log_prob=log_prob, entropy=entropy)
    value = torch.cat([output.value[:frames], torch.zeros_like(output.value[frames:])])
    return replace(output, actions=actions, value=value)
