"""The cost of relative positions: a training step with and without, and attention against padding.

The step is one of PPO's on MineSweeper boards of every size, forward and backward, width 32. The
padded attention computes the same waves, and for the bias the same small network of the offset, in
plain torch on frames padded to the longest.

python -m benchmarks.positions
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.measure import Row, alternate, print_rows, speed_row
from benchmarks.ragged import Batch, lengths
from entity_env.spaces import CategoricalActionSpace, Entity, ObsSpace
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    Frames,
    NetConfig,
    RaggedNet,
    RaggedTensor,
    RelativePosition,
    ragged_attention,
)
from ragged_net.frames import Places
from ragged_net.model.attention import PositionBias
from ragged_net.model.geometry import turn, turn_back, wave_vectors

FEATURES = {"Mine": ["x", "y"], "Robot": ["x", "y"]}
SPACE = ObsSpace(entities={name: Entity(own) for name, own in FEATURES.items()})
ACTIONS = {"Move": CategoricalActionSpace(["right", "left", "up", "down", "stay"])}
FRAMES, HEADS, DIM = 1024, 4, 32
CASES = {"uniform 1..20": 512, "95% of 5, 5% of 200": 80, "uniform 1..200": 32}


def rows() -> list[Row]:
    """Return the rows of training steps, then those of attention."""
    torch.set_num_threads(1)
    return [*_steps(), *(row for case in CASES for row in _attention(case))]


def _steps() -> list[Row]:
    """Ratios over 1 would be gains: the target of 1.5x as long is 0.67."""
    settings = {
        "plain": None,
        "waves": RelativePosition(FEATURES),
        "mlp": RelativePosition(FEATURES, kind="mlp"),
    }
    batch = _boards()
    chosen = torch.zeros(batch.actions["Move"].actors.num_rows, dtype=torch.int64)
    found = []
    for layers in (1, 2):
        steps = {}
        for name, setting in settings.items():
            torch.manual_seed(0)
            config = NetConfig(dim=DIM, layers=layers, heads=HEADS, relative_position=setting)
            net = RaggedNet(SPACE, ACTIONS, config)
            net.update_statistics(batch)
            steps[name] = _step(net, batch, chosen)
        times = alternate(steps, repeats=15, seconds=0.1, budget=20)
        for name, target in (("waves", 1 / 1.5), ("mlp", None)):
            label = f"training step with {name}, B={FRAMES}, D={DIM}, {layers} layers"
            plain = times["plain"]
            found.append(speed_row(label, times[name], plain, "without", target=target))
    return found


def _step(net: RaggedNet, batch: EntityBatch, chosen: Tensor) -> Callable[[], None]:
    def step() -> None:
        output = net(batch, given={"Move": chosen}, trusted=True)
        net.zero_grad(set_to_none=True)
        (output.actions["Move"].log_prob.mean() + output.value.mean()).backward()  # type: ignore[no-untyped-call]

    return step


def _boards() -> EntityBatch:
    """Mines and robots anywhere on boards of 10 x 10; every robot moves."""
    torch.manual_seed(0)
    mines, robots = torch.randint(1, 11, (FRAMES,)), torch.randint(1, 6, (FRAMES,))
    entities = {
        name: RaggedTensor.from_lengths(torch.randint(10, (int(own.sum()), 2)).float(), own)
        for name, own in (("Mine", mines), ("Robot", robots))
    }
    index = torch.cat([torch.arange(m, m + r) for m, r in zip(mines, robots, strict=True)])
    mask = torch.ones(len(index), 5, dtype=torch.bool)
    moves = CategoricalActors(RaggedTensor.from_lengths(index, robots), mask)
    return EntityBatch(entities, torch.zeros(FRAMES, 0), {}, {"Move": moves})


def _attention(case: str) -> list[Row]:
    torch.manual_seed(0)
    batch = Batch.of(lengths(case, CASES[case]))
    qkv = torch.randn(batch.rows, 3, HEADS, DIM // HEADS, requires_grad=True)
    change = torch.randn(batch.rows, HEADS, DIM // HEADS)
    positions = torch.randint(10, (batch.rows, 2)).float()
    angles = positions @ wave_vectors(DIM // 2, 2, 1.0, 16.0).T  # (N, D / 2)
    sines = torch.stack([-angles.sin(), angles.sin()], -1).flatten(1)
    turns = torch.stack([angles.cos().repeat_interleave(2, 1), sines], 1)
    bias = PositionBias(NetConfig(dim=DIM, heads=HEADS))
    known = torch.ones(batch.rows, dtype=torch.bool)
    frames = Frames(batch.offsets, batch.rows, places=Places(positions, known, None))

    def padded_waves(x: Tensor) -> Tensor:
        cos, sin = batch.pad(turns).view(*batch.padding.shape, 2, 1, HEADS, -1).unbind(2)
        mixed = _padded(batch, turn(batch.pad(x), cos, sin), None)
        return batch.flat(turn_back(mixed, cos[:, :, 0], sin[:, :, 0]))

    def padded_bias(x: Tensor) -> Tensor:
        places = batch.pad(torch.cat([positions, torch.ones(batch.rows, 1)], 1))
        return batch.flat(_padded(batch, batch.pad(x), bias.biases(places)))

    functions = {
        "waves": lambda x: ragged_attention(x, batch.offsets, turns=turns),
        "padded waves": padded_waves,
        "mlp": lambda x: bias.attend(x, frames),
        "padded mlp": padded_bias,
    }
    for name in ("waves", "mlp"):
        found, expected = functions[name](qkv), functions[f"padded {name}"](qkv)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    learned = [qkv], [qkv, *bias.parameters()]

    def timed(name: str) -> Callable[[], object]:
        function, inputs = functions[name], learned["mlp" in name]
        return lambda: torch.autograd.grad(function(qkv), inputs, change)

    times = alternate({name: timed(name) for name in functions}, seconds=0.05, budget=10)
    label = f"attention, {case}, D={DIM}, forward + backward, with"
    return [
        speed_row(f"{label} waves", times["waves"], times["padded waves"], "padded", target=3.0),
        speed_row(f"{label} waves", times["waves"], times["padded mlp"], "padded, mlp", target=3.0),
        speed_row(f"{label} mlp", times["mlp"], times["padded mlp"], "padded"),
    ]


def _padded(batch: Batch, dense: Tensor, bias: Tensor | None) -> Tensor:
    """Return the attention (B, L, H, D) of padded frames (B, L, 3, H, D)."""
    query, key, value = dense.permute(2, 0, 3, 1, 4)
    allowed = ~batch.padding[:, None, None, :]
    mask = allowed if bias is None else bias.masked_fill(~allowed, float("-inf"))
    return scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2)


if __name__ == "__main__":
    print_rows(rows())
