"""Attention alone, against padding and against exact-length groups in plain torch.

Both sides start from flat rows and end with flat rows: what padding costs is part of it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.measure import Row, alternate, print_rows, speed_row
from benchmarks.ragged import Batch, lengths
from ragged_net import ragged_attention

CASES = {  # the number of frames keeps a repeat short
    "constant 10": 512,
    "uniform 1..20": 512,
    "95% of 5, 5% of 200": 80,
    "uniform 1..200": 32,
    "constant 1000": 1,
}
HEADS = 4
# At least this many times as fast as exact-length groups, by case and width; else no slower.
SHORT, HEAVY = ("constant 10", "uniform 1..20"), "95% of 5, 5% of 200"
ALONE = "constant 1000"  # nothing to pad


def rows() -> list[Row]:
    """Return the rows of all cases, widths and directions."""
    torch.set_num_threads(1)
    found = []
    for case, frames in CASES.items():
        batch = Batch.of(lengths(case, frames))
        for dim in (32, 64, 128):
            for backward in (False, True):
                found += _compare(case, batch, dim, backward)
    return found


def _compare(case: str, batch: Batch, dim: int, backward: bool) -> list[Row]:
    torch.manual_seed(0)
    qkv = torch.randn(batch.rows, 3, HEADS, dim // HEADS, requires_grad=backward)
    change = torch.randn(batch.rows, HEADS, dim // HEADS)

    def timed(function: Callable[[Tensor], Tensor]) -> Callable[[], object]:
        def forward() -> object:
            with torch.no_grad():
                return function(qkv)

        return (lambda: torch.autograd.grad(function(qkv), qkv, change)) if backward else forward

    functions = {
        "ours": lambda x: ragged_attention(x, batch.offsets),
        "exact-length SDPA": lambda x: ragged_attention(x, batch.offsets, backend="grouped"),
    }
    targets: dict[str, float | None] = {
        "exact-length SDPA": 1.5 if case in SHORT and dim == 32 else 1.0
    }
    if case != ALONE:
        functions["pad + SDPA"] = lambda x: padded_attention(batch, x, fused=True)
        functions["pad + unfused"] = lambda x: padded_attention(batch, x, fused=False)
        targets |= {"pad + SDPA": 8.0 if case == HEAVY else None, "pad + unfused": None}
    for function in functions.values():
        torch.testing.assert_close(function(qkv), functions["ours"](qkv), rtol=1e-4, atol=1e-5)
    times = alternate(
        {name: timed(function) for name, function in functions.items()},
        repeats=9,
        seconds=0.02,
        budget=1.5,
    )
    label = f"{case}, D={dim}, forward{' + backward' if backward else ''}"
    return [
        speed_row(label, times["ours"], times[name], name, target=target)
        for name, target in targets.items()
    ]


def padded_attention(batch: Batch, qkv: Tensor, *, fused: bool) -> Tensor:
    """Attention of flat rows (N, 3, H, D / H) by way of padding; (N, H, D / H)."""
    query, key, value = batch.pad(qkv).permute(2, 0, 3, 1, 4)  # each (B, H, longest, D / H)
    allowed = ~batch.padding[:, None, None, :]
    if fused:
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=allowed)
    else:
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
        mixed = scores.masked_fill(~allowed, float("-inf")).softmax(-1) @ value
    return batch.flat(mixed.transpose(1, 2))


if __name__ == "__main__":
    print_rows(rows())
