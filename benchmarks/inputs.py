"""The cost of kinds of inputs beside the plain network, and of grids beside attention over cells.

The step is one of PPO's, forward and backward, width 64 with two layers. Memory is what a step
keeps for its backward pass.

python -m benchmarks.inputs
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.measure import Row, alternate, print_rows, speed_row
from entity_env import CategoricalActionSpace, Discrete, Entity, Flags, Grid, ObsSpace
from ragged_net import CategoricalActors, EntityBatch, NetConfig, RaggedNet, RaggedTensor

ACTIONS = {"Move": CategoricalActionSpace(["left", "right", "up", "down", "stay"])}
FRAMES, SIDE, UNITS = 128, 15, 4
TERRAIN = Discrete("terrain", 6)
ROBOT = Entity(["x", "y", TERRAIN, Discrete("status", 16), Discrete("team", 4)])


def rows() -> list[Row]:
    """Return the rows of grids, then those of embeddings."""
    torch.set_num_threads(1)
    return [*_tiles(training=True), *_tiles(training=False), *_embeddings()]


def _tiles(training: bool) -> list[Row]:
    """Measure 128 agents that see 15 x 15 cells each, as a grid and as entities."""
    units = Entity(["health", TERRAIN])
    spaces = {
        "grid": Grid((SIDE, SIDE), [TERRAIN, "food"]),
        "entities": Entity([TERRAIN, "food", "row", "column"]),
    }
    steps, kept = {}, {}
    for name, tile in spaces.items():
        torch.manual_seed(0)
        cells = torch.rand(FRAMES, SIDE, SIDE, len(tile.features))
        cells[..., 0] = torch.randint(6, cells.shape[:3]).float()
        if name == "entities":
            cells[..., 2] = torch.arange(SIDE)[:, None]
            cells[..., 3] = torch.arange(SIDE)
        values = cells.flatten(0, 2)
        batch = _batch({"Unit": _units(units), "Tile": (values, SIDE * SIDE)})
        space = ObsSpace(entities={"Unit": units, "Tile": tile})
        steps[name], kept[name] = _step(space, NetConfig(dim=64, layers=2), batch, training)
    times = alternate(steps, seconds=0.1, budget=30)
    what = "training step" if training else "acting"
    label = f"{what}, {FRAMES} agents x {SIDE} x {SIDE} tiles"
    found = [speed_row(label, times["grid"], times["entities"], "attention", target=10.0)]
    if training:
        found.append(_memory_row(f"{label}, memory", kept["grid"], kept["entities"], "attention"))
    return found


def _embeddings() -> list[Row]:
    """Robots with five features: each option against the plain network."""
    shared = Discrete("terrain", 6, vocabulary="terrain")
    flags, team = Flags("status", 4), ROBOT.features[4]
    cases = {
        "plain": (ROBOT, NetConfig(dim=64, layers=2)),
        "embedding=attributes": (ROBOT, NetConfig(dim=64, layers=2, embedding="attributes")),
        "flags": (Entity(["x", "y", TERRAIN, flags, team]), NetConfig(dim=64, layers=2)),
        "a vocabulary": (
            Entity(["x", "y", shared, *ROBOT.features[3:]]),
            NetConfig(dim=64, layers=2),
        ),
    }
    steps, kept = {}, {}
    for name, (robot, config) in cases.items():
        space = ObsSpace(entities={"Unit": robot, "Other": robot})
        batch = _batch({"Unit": _units(robot), "Other": _units(robot)}, frames=4 * FRAMES)
        steps[name], kept[name] = _step(space, config, batch, training=True)
    times = alternate(steps, seconds=0.1, budget=40)
    found = []
    for name in cases:
        if name != "plain":
            label = f"training step with {name}, B={4 * FRAMES}"
            found.append(speed_row(label, times[name], times["plain"], "the plain network"))
            found.append(
                _memory_row(f"{label}, memory", kept[name], kept["plain"], "the plain network")
            )
    return found


def _units(entity: Entity) -> tuple[Tensor, int]:
    """Rows of units for 4 * FRAMES frames, and how many there are in each."""
    torch.manual_seed(0)
    values = torch.randn(4 * FRAMES * UNITS, len(entity.features))
    for column, feature in enumerate(entity.features):
        if isinstance(feature, Discrete):
            values[:, column] = torch.randint(feature.n, (len(values),)).float()
    return values, UNITS


def _batch(types: dict[str, tuple[Tensor, int]], frames: int = FRAMES) -> EntityBatch:
    """Return a batch in which the units act."""
    entities = {
        name: RaggedTensor.from_lengths(values[: frames * count], [count] * frames)
        for name, (values, count) in types.items()
    }
    index = torch.arange(UNITS).repeat(frames)
    mask = torch.ones(len(index), 5, dtype=torch.bool)
    moves = CategoricalActors(RaggedTensor.from_lengths(index, [UNITS] * frames), mask)
    return EntityBatch(entities, torch.zeros(frames, 0), {}, {"Move": moves})


def _step(
    space: ObsSpace, config: NetConfig, batch: EntityBatch, training: bool
) -> tuple[Callable[[], None], int]:
    """Return a step, and the bytes that it keeps for the backward pass."""
    torch.manual_seed(0)
    net = RaggedNet(space, ACTIONS, config)
    net.update_statistics(batch)
    chosen = torch.zeros(batch.actions["Move"].actors.num_rows, dtype=torch.int64)

    def loss() -> Tensor:
        output = net(batch, given={"Move": chosen}, trusted=True)
        total: Tensor = output.actions["Move"].log_prob.mean() + output.value.mean()
        return total

    def train() -> None:
        net.zero_grad(set_to_none=True)
        loss().backward()  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def act() -> None:
        net(batch)

    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        kept = loss()
    total = sum(sizes.values())
    del kept
    return (train if training else act), total


def _memory_row(case: str, ours: int, baseline: int, name: str) -> Row:
    figures = [f"{size / 1e6:.1f} MB" for size in (ours, baseline)]
    return Row(case, figures[0], f"{name}: {figures[1]}", ratio=baseline / ours)


if __name__ == "__main__":
    print_rows(rows())
