"""The select-entity head, against padding and against flat pairs in plain torch.

From queries of actors and keys of actees to log-probabilities, and back to their gradients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import Row, alternate, print_rows, speed_row
from benchmarks.ragged import Batch
from ragged_net import RaggedTensor, SelectActors
from ragged_net.actors import Pairs
from ragged_net.compiled.heads import select

DIM = 64
CASES = {  # actors and actees of each frame
    "1,024 frames of 3 x 8": ([3] * 1024, [8] * 1024),
    "99% of 3 x 8, 1% of 200 x 200": (([3] * 99 + [200]) * 2, ([8] * 99 + [200]) * 2),
    "one frame of 1,000 x 1,000": ([1000], [1000]),
}


def rows() -> list[Row]:
    """Return the rows of all cases, forward and backward."""
    torch.set_num_threads(1)
    return [row for case, sizes in CASES.items() for row in _compare(case, *map(np.array, sizes))]


def _compare(case: str, actors: np.ndarray, actees: np.ndarray) -> list[Row]:
    torch.manual_seed(0)
    pairs = Pairs.of(SelectActors(_counted(actors), _counted(actees)))
    query = torch.randn(int(actors.sum()), DIM, requires_grad=True)
    key = torch.randn(int(actees.sum()), DIM, requires_grad=True)
    change = torch.randn(pairs.num_pairs)
    many, few = Batch.of(actors), Batch.of(actees)
    functions: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: select(query, key, pairs),
        "pad": lambda: _padded(query, key, many, few),
        "flat pairs": lambda: _flat(query, key, pairs),
    }
    for function in functions.values():
        torch.testing.assert_close(function(), functions["ours"](), rtol=1e-4, atol=1e-5)

    def timed(function: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(function(), (query, key), change)

    times = alternate(
        {name: timed(function) for name, function in functions.items()}, seconds=0.02, budget=6.0
    )
    label = f"{case}, D={DIM}, forward + backward"
    return [
        speed_row(label, times["ours"], times[name], name, target=1.0)
        for name in functions
        if name != "ours"
    ]


def _counted(lengths: np.ndarray) -> RaggedTensor:
    return RaggedTensor.from_lengths(torch.cat([torch.arange(n) for n in lengths]), lengths)


def _padded(query: Tensor, key: Tensor, actors: Batch, actees: Batch) -> Tensor:
    scores = actors.pad(query) @ actees.pad(key).transpose(1, 2) / DIM**0.5
    log_probs = scores.masked_fill(actees.padding[:, None, :], float("-inf")).log_softmax(-1)
    return log_probs[~actors.padding[:, :, None] & ~actees.padding[:, None, :]]


def _flat(query: Tensor, key: Tensor, pairs: Pairs) -> Tensor:
    products = query.index_select(0, pairs.actor) * key.index_select(0, pairs.actee)
    scores = products.sum(-1) / DIM**0.5
    scores = scores - pairs.max(scores.detach()).index_select(0, pairs.actor)
    return scores - pairs.sum(scores.exp()).log().index_select(0, pairs.actor)


if __name__ == "__main__":
    print_rows(rows())
