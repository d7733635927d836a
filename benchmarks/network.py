"""A whole network against ``torch.nn.TransformerEncoder`` on padded frames.

Same width, depth, heads and MLP, the same embedding before it and the same heads after it: one
categorical action for a fifth of the entities, and the mean of a frame's entities as its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import Row, alternate, print_rows, speed_row
from benchmarks.ragged import Batch, lengths
from entity_env import CategoricalActionSpace, Entity, ObsSpace
from ragged_net import CategoricalActors, EntityBatch, NetConfig, RaggedNet, RaggedTensor

LAYERS, HEADS, RATIO, CHOICES, FEATURES = 2, 4, 4, 5, 4
TARGETS = {"uniform 4..12": 2.0, "95% of 5, 5% of 200": 10.0}
DIM, WIDE = 64, 256


def rows() -> list[Row]:
    """Inference at 128 frames, training at 1,024, a wide one, and time against entities."""
    torch.set_num_threads(1)
    found = []
    for case, target in TARGETS.items():
        for training, frames in ((False, 128), (True, 1024)):
            found.append(_compare(case, frames, training, target))
    wide = [_compare("uniform 4..12", 64, training, 1.0, WIDE) for training in (False, True)]
    return [*found, *wide, *_scaling()]


class PaddedNet(nn.Module):
    """The usual implementation: pad to the longest frame, mask, and gather the rest."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(FEATURES, dim), nn.ReLU(), nn.Linear(dim, dim))
        layer = nn.TransformerEncoderLayer(
            dim, HEADS, RATIO * dim, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(
            layer, LAYERS, norm=nn.LayerNorm(dim), enable_nested_tensor=False
        )
        self.logits = nn.Linear(dim, CHOICES)
        self.value = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, features: Tensor, batch: Batch, actors: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (N, F) -> log-probabilities (A, C) of the ``actors`` (A,), values (B,)."""
        x = self.encoder(self.embed(batch.pad(features)), src_key_padding_mask=batch.padding)
        real = ~batch.padding[:, :, None]
        mean = (x * real).sum(1) / real.sum(1).clamp_min(1)
        log_probs = self.logits(batch.flat(x).index_select(0, actors)).log_softmax(-1)
        return log_probs, self.value(mean).squeeze(-1)


def make_problem(counts: np.ndarray) -> tuple[EntityBatch, Batch, Tensor]:
    """Return the same frames for both networks; the first and every fifth entity acts."""
    batch = Batch.of(counts)
    features = torch.randn(batch.rows, FEATURES)
    index = torch.cat([torch.arange(n) for n in counts.tolist()])
    acts = index % 5 == 0
    actors = RaggedTensor.from_lengths(index[acts], [-(-n // 5) for n in counts.tolist()])
    mask = torch.ones(actors.num_rows, CHOICES, dtype=torch.bool)
    ours = EntityBatch(
        {"Thing": RaggedTensor(features, batch.offsets)},
        torch.zeros(len(counts), 0),
        actions={"Move": CategoricalActors(actors, mask)},
    )
    return ours, batch, acts.nonzero().squeeze(1)


def make_networks(dim: int, **options: Any) -> tuple[RaggedNet, PaddedNet]:
    """Our network with these ``options`` of ``NetConfig``, and the padded one."""
    space = ObsSpace(entities={"Thing": Entity([f"f{i}" for i in range(FEATURES)])})
    actions = {"Move": CategoricalActionSpace([f"c{i}" for i in range(CHOICES)])}
    config = NetConfig(dim=dim, layers=LAYERS, heads=HEADS, mlp_ratio=RATIO, **options)
    return RaggedNet(space, actions, config), PaddedNet(dim)


def _compare(case: str, frames: int, training: bool, target: float, dim: int = DIM) -> Row:
    torch.manual_seed(0)
    ours, batch, actors = make_problem(lengths(case, frames))
    net, padded = make_networks(dim)
    features = ours.entities["Thing"].values
    chosen = torch.zeros(len(actors), dtype=torch.int64)

    def run_ours() -> None:
        output = net(ours, given={"Move": chosen})
        if training:
            net.zero_grad(set_to_none=True)
            (output.actions["Move"].log_prob.mean() + output.value.mean()).backward()

    def run_padded() -> None:
        log_probs, value = padded(features, batch, actors)
        if training:
            padded.zero_grad(set_to_none=True)
            (log_probs[:, 0].mean() + value.mean()).backward()

    with torch.set_grad_enabled(training):
        net.train(training), padded.train(training)
        times = alternate({"ours": run_ours, "padded": run_padded}, repeats=11, seconds=0.1)
    what = f"training, B={frames}" if training else f"inference, B={frames}"
    label = f"{case}, D={dim}, {what}"
    return speed_row(
        label, times["ours"], times["padded"], "nn.TransformerEncoder, padded", target=target
    )


def _scaling() -> list[Row]:
    """Time against entities at 128 frames: a straight line, and how far the points are off it."""
    net, _ = make_networks(DIM)
    counts = (2, 4, 8, 16, 32)
    problems = {n: make_problem(np.full(128, n))[0] for n in counts}

    def run(batch: EntityBatch) -> Callable[[], object]:
        def forward() -> object:
            with torch.no_grad():
                return net(batch)

        return forward

    times = alternate({n: run(batch) for n, batch in problems.items()}, repeats=9)
    entities = np.array([128 * n for n in counts], dtype=np.float64)
    seconds = np.array([times[n].median for n in counts])
    slope, start = np.polyfit(entities, seconds, 1)
    fit = (
        1
        - ((seconds - slope * entities - start) ** 2).sum()
        / ((seconds - seconds.mean()) ** 2).sum()
    )
    points = ", ".join(f"{n:.0f}: {s * 1e3:.2f}" for n, s in zip(entities, seconds, strict=True))
    return [
        Row(
            case="entity scaling, B=128",
            note="ms by entities: " + points,
            ours=f"{start * 1e3:.2f} ms + {slope * 1e6:.2f} us an entity, R^2 {fit:.4f}",
            value=float(fit),
            target=0.99,
        )
    ]


if __name__ == "__main__":
    print_rows(rows())
