"""The layers of a chain (``chain.py``), except the embedding."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env.errors import BatchError
from ragged_net.compiled import kernels
from ragged_net.compiled.autograd import Arrays, flat, hidden_rows, turns_of_rows
from ragged_net.compiled.threads import together
from ragged_net.model.frames import Frames
from ragged_net.model.read_rows import Reading

__all__ = ["Block", "Norm", "ReluLinear"]


@dataclass(frozen=True, eq=False)
class ReluLinear:
    """``relu(x) @ weight.T + bias``: weight (J, K) and bias (J,); J and K multiples of 32."""

    weights: Sequence[Tensor]

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """See ``Layer``."""
        size = len(weights[1])
        _check_shapes(weights, (size, x.shape[1]), (size,))
        y = x.new_empty(x.shape[0], size)
        kernels.load("layers").relu_linear_forward(flat(x), *weights, flat(y))
        return y, []

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """See ``Layer``."""
        d_x = torch.empty_like(x)
        kernels.load("layers").relu_linear_backward(
            flat(d_y), flat(x), weights[0], flat(d_x),
            *(gradient.reshape(-1) for gradient in gradients),
        )  # fmt: skip
        return d_x


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm: gain and bias (D,); the first ``before`` rows are returned unchanged."""

    weights: Sequence[Tensor]
    before: int = 0

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """See ``Layer``."""
        _check_shapes(weights, x.shape[1:], x.shape[1:])
        y, start = self._like(x), self.before * x.shape[1]
        kernels.load("layers").norm_forward(flat(x)[start:], *weights, flat(y)[start:])
        return y, []

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """See ``Layer``."""
        d_x, start = self._like(d_y), self.before * x.shape[1]
        kernels.load("layers").norm_backward(
            flat(d_y)[start:], flat(x)[start:], weights[0], flat(d_x)[start:], *gradients
        )
        return d_x

    def _like(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        y[: self.before] = x[: self.before]
        return y


@dataclass(frozen=True, eq=False)
class Block:
    """A pre-norm transformer block with ReLU.

    Args:
        frames: Description of the frames.
        heads: Number of heads H.
        weights: Gain and bias of the first norm; weight (3 * D, D) and bias of queries, keys and
            values; weight (D, D) and bias of the output; gain and bias of the second norm; weight
            (M, D) and bias, and weight (D, M) and bias of the MLP.
        reading: Rows to read. With it the result is the mean of each frame's rows (B, D), then the
            rows to read. Fewer of them take less time.
    """

    frames: Frames
    heads: int
    weights: Sequence[Tensor]
    reading: Reading | None = None

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """See ``Layer``."""
        (rows, dim), size = x.shape, len(weights[9])
        if rows != self.frames.num_rows:
            raise BatchError(
                "the rows do not fit the frames",
                expected=f"({self.frames.num_rows}, D)",
                received=tuple(x.shape),
            )
        y, narrow, third = self._result(x), (dim,), (3 * dim,)
        _check_shapes(
            weights, narrow, narrow, third + narrow, third, narrow + narrow, narrow,
            narrow, narrow, (size, dim), (size,), (dim, size), narrow,
        )  # fmt: skip
        kept: list[Tensor] = []
        if keep:
            widths = (3 * dim, dim, dim, size)
            kept = [x.new_empty(rows * width) for width in widths]
            kept.append(x.new_empty(int(self.frames.plan.kept[-1]) * self.heads))
        between = tuple(map(flat, kept)) if keep else _NOTHING_KEPT
        work = functools.partial(
            kernels.load("block").block_forward, flat(x), hidden_rows(self.frames),
            turns_of_rows(self.frames, dim), self.heads, dim, weights, between, self._places(),
            flat(y),
        )  # fmt: skip
        together(work, self.frames.shares(dim, _beside_attention(dim, size)))
        return y, kept

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """See ``Layer``."""
        d_x, dim = torch.empty_like(x), x.shape[1]
        work = functools.partial(
            kernels.load("block").block_backward, flat(d_y), flat(x), hidden_rows(self.frames),
            turns_of_rows(self.frames, dim), self.heads, dim, weights, tuple(map(flat, kept)),
            self._places(), flat(d_x),
        )  # fmt: skip
        plans = self.frames.shares(dim, _beside_attention(dim, len(weights[9])))
        first, *others = sums = [
            tuple(gradient.reshape(-1) for gradient in gradients),
            *(tuple(np.zeros(weight.size, np.float32) for weight in weights) for _ in plans[1:]),
        ]
        together(work, plans, sums)
        for gradient, *parts in zip(first, *others, strict=True):
            for part in parts:
                gradient += part
        return d_x

    def _result(self, x: Tensor) -> Tensor:
        if self.reading is None:
            return torch.empty_like(x)
        y, frames = x.new_empty(self.reading.num_results, x.shape[1]), self.reading.num_frames
        y[:frames] = 0  # the kernel adds to the means
        return y

    def _places(self) -> npt.NDArray[np.int64]:
        return _EVERY_ROW if self.reading is None else self.reading.places


def _beside_attention(dim: int, size: int) -> int:
    """Return the cost of a row in a block without attention (see ``shares``)."""
    return 2 * dim + size  # for 4 * dim * dim + 2 * dim * size weights


_EVERY_ROW = np.empty(0, np.int64)
"""The places of any block except the last one."""
_NOTHING_KEPT = (np.empty(0, np.float32),) * 5
"""Empty arrays, passed if there is no backward pass."""


def _check_shapes(weights: Arrays, *expected: tuple[int, ...]) -> None:
    """Check the shapes of weights, because kernels would read or write beyond their memory.

    Raises:
        BatchError: A weight that was replaced has another shape.
    """
    received = tuple(weight.shape for weight in weights)
    if received != expected:
        raise BatchError(
            "the weights of a layer do not fit its rows", expected=expected, received=received
        )
