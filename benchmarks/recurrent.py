"""The cost of a memory beside the plain network, and of ragged sequences beside padded ones.

python -m benchmarks.recurrent
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from benchmarks.measure import Row, alternate, print_rows, speed_row
from entity_env import CategoricalActionSpace, Entity, ObsSpace
from ragged_net import CategoricalActors, EntityBatch, NetConfig, RaggedNet, RaggedTensor
from ragged_net.model.memory import Memory

SPACE = ObsSpace(entities={"Mine": Entity(["x", "y"]), "Robot": Entity(["x", "y"])})
ACTIONS = {"Move": CategoricalActionSpace(["left", "right", "up", "down", "stay"])}
PLAIN = NetConfig(dim=64, layers=2)
MEMORIES = (("lstm", 128), ("gru", 128), ("lstm", 1024))


def rows() -> list[Row]:
    """Acting at 128 frames, training on 32 sequences of 16, and very uneven sequences."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return [*_beside_plain(training=False), *_beside_plain(training=True), _beside_padded()]


def _frames(count: int) -> EntityBatch:
    """Return frames like those of MineSweeper: up to 5 mines, and 2 robots that act."""
    mines = torch.randint(1, 6, (count,))
    actors = torch.stack([mines, mines + 1], dim=1).flatten()
    return EntityBatch(
        {
            "Mine": RaggedTensor.from_lengths(torch.randn(int(mines.sum()), 2), mines),
            "Robot": RaggedTensor.from_lengths(torch.randn(2 * count, 2), [2] * count),
        },
        torch.zeros(count, 0),
        actions={
            "Move": CategoricalActors(
                RaggedTensor.from_lengths(actors, [2] * count),
                torch.ones(2 * count, 5, dtype=torch.bool),
            )
        },
    )


def _beside_plain(training: bool) -> list[Row]:
    batch = _frames(512 if training else 128)
    sequences = [16] * 32 if training else [1] * 128
    chosen = torch.zeros(2 * batch.num_frames, dtype=torch.int64)

    def run(config: NetConfig) -> Callable[[], object]:
        net = RaggedNet(SPACE, ACTIONS, config)
        given = {}
        if net.memory is not None:
            given["memory"] = net.initial_state(len(sequences))
            if training:
                given["sequences"] = torch.tensor(sequences)

        def step() -> None:
            output = net(batch, given={"Move": chosen}, **given)
            if training:
                net.zero_grad(set_to_none=True)
                (output.actions["Move"].log_prob.mean() + output.value.mean()).backward()

        return step

    cases = {(kind, n): run(replace(PLAIN, memory=kind, memory_size=n)) for kind, n in MEMORIES}
    with torch.set_grad_enabled(training):
        times = alternate({"plain": run(PLAIN), **cases}, seconds=0.1, budget=30.0)
    what = "training, 32 sequences of 16" if training else "acting, B=128"
    return [
        speed_row(f"{kind} of {n}, {what}", times[kind, n], times["plain"], "the plain network")
        for kind, n in MEMORIES
    ]


def _beside_padded() -> Row:
    """Compare with padding: 95% of the sequences have 2 frames, the others 100."""
    lengths = np.where(np.arange(200) % 20 == 0, 100, 2)
    memory = Memory(replace(PLAIN, memory="lstm"))
    frames = torch.randn(int(lengths.sum()), PLAIN.dim)
    state = memory.initial_state(len(lengths))
    padded = torch.zeros(int(lengths.max()), len(lengths), PLAIN.dim)
    begun = tuple(part[None].contiguous() for part in state.split(memory.size, dim=1))

    def ragged() -> None:
        memory.zero_grad(set_to_none=True)
        memory(frames, state, torch.from_numpy(lengths)).entities.sum().backward()

    def dense() -> None:
        memory.zero_grad(set_to_none=True)
        hidden, _ = memory.cell(memory.norm(padded), begun)
        memory.to_entity(hidden).sum().backward()

    times = alternate({"ours": ragged, "padded": dense}, seconds=0.1)
    label = "lstm of 128, training, 95% of 2 frames, 5% of 100"
    return speed_row(label, times["ours"], times["padded"], "nn.LSTM, padded", target=3.0)


if __name__ == "__main__":
    print_rows(rows())
