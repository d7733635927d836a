"""Compiled layers as operations of autograd, alone or in a chain that is one operation.

Autograd's own part in an operation takes as long as the arithmetic of a small layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ragged_net import kernels
from ragged_net.compiled import Arrays, WeightArrays, flat, hidden_rows, run
from ragged_net.errors import ShapeError
from ragged_net.frames import Frames

__all__ = [
    "NO_ROWS",
    "Block",
    "Layer",
    "Norm",
    "ReluLinear",
    "Value",
    "chain",
    "is_plain",
    "weights_of",
]


M = TypeVar("M", bound=nn.Module)


class Layer(Protocol):
    """One link of a chain. Rows are (N, K) float32 on the CPU, and contiguous."""

    @property
    def weights(self) -> Sequence[Tensor]:
        """What is learned."""

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """The result for rows ``x``, and with ``keep`` what the backward pass needs."""

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """The gradient of x; those of the weights are added to ``gradients``, which are zeros."""


def chain(layers: Sequence[Layer], x: Tensor, arrays: WeightArrays | None = None) -> Tensor:
    """Rows ``x`` (N, K) through all ``layers``; ``NO_ROWS`` where the first one makes them.

    ``arrays`` belong to a caller who comes again with the same weights.
    """
    weights = [weight for layer in layers for weight in layer.weights]
    arrays = arrays or WeightArrays()
    keep = torch.is_grad_enabled()
    result: Tensor = run(_Chain, layers, arrays, keep, x.contiguous(), *weights)
    return result


NO_ROWS = torch.empty(0)


def is_plain(module: nn.Module, kind: type[M]) -> TypeGuard[M]:
    """Whether calling ``module`` does what ``kind`` does, and nobody looks on or interferes."""
    return type(module) is kind and not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def weights_of(
    modules: Sequence[nn.Module], kinds: Sequence[type[nn.Module]]
) -> list[Tensor] | None:
    """Weight and bias of each module; None unless each is a plain one of its kind with both."""
    found: list[Tensor] = []
    for module, kind in zip(modules, kinds, strict=True):
        if not is_plain(module, kind):
            return None
        # Looked up as attributes, they would take a microsecond each.
        weight, bias = module._parameters["weight"], module._parameters["bias"]
        if weight is None or bias is None:
            return None
        found += (weight, bias)
    return found


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
    """LayerNorm: gain and bias (D,)."""

    weights: Sequence[Tensor]

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """See ``Layer``."""
        _check_shapes(weights, x.shape[1:], x.shape[1:])
        y = torch.empty_like(x)
        kernels.load("layers").norm_forward(flat(x), *weights, flat(y))
        return y, []

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """See ``Layer``."""
        d_x = torch.empty_like(x)
        kernels.load("layers").norm_backward(flat(d_y), flat(x), weights[0], flat(d_x), *gradients)
        return d_x


@dataclass(frozen=True, eq=False)
class Block:
    """A pre-norm transformer block with ReLU.

    Args:
        frames: Which rows belong together.
        heads: H.
        weights: Gain and bias of the first norm; weight (3 * D, D) and bias of queries, keys and
            values; weight (D, D) and bias of the output; gain and bias of the second norm; weight
            (M, D) and bias, and weight (D, M) and bias of the MLP.
    """

    frames: Frames
    heads: int
    weights: Sequence[Tensor]

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """See ``Layer``."""
        y, (rows, dim), size = torch.empty_like(x), x.shape, len(weights[9])
        narrow, third = (dim,), (3 * dim,)
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
        kernels.load("block").block_forward(
            flat(x), self.frames.plan, hidden_rows(self.frames), self.heads, dim, weights,
            between, flat(y),
        )  # fmt: skip
        return y, kept

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """See ``Layer``."""
        d_x = torch.empty_like(x)
        kernels.load("block").block_backward(
            flat(d_y), flat(x), self.frames.plan, hidden_rows(self.frames), self.heads,
            x.shape[1], weights, tuple(map(flat, kept)), flat(d_x),
            tuple(gradient.reshape(-1) for gradient in gradients),
        )  # fmt: skip
        return d_x


@dataclass(frozen=True, eq=False)
class Value:
    """An MLP with one hidden layer and ReLU on the mean of each frame: rows (N, D) -> (B, 1).

    Args:
        offsets: (B + 1,) int64.
        weights: Weight (M, D) and bias of the hidden layer, weight (1, M) and bias of the last.
    """

    offsets: Tensor
    weights: Sequence[Tensor]

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """See ``Layer``."""
        frames, dim, size = self.offsets.shape[0] - 1, x.shape[1], len(weights[1])
        _check_shapes(weights, (size, dim), (size,), (1, size), (1,))
        means, hidden = x.new_empty(frames, dim), x.new_empty(frames, size)
        values = x.new_empty(frames, 1)
        w_hidden, b_hidden, w_out, b_out = weights
        kernels.load("value").value_forward(
            flat(x), self.offsets.numpy(), w_hidden, b_hidden, w_out.reshape(-1), b_out,
            flat(means), flat(hidden), flat(values),
        )  # fmt: skip
        return values, [means, hidden]

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """See ``Layer``."""
        d_x, (w_hidden, _, w_out, _) = torch.empty_like(x), weights
        kernels.load("value").value_backward(
            flat(d_y), self.offsets.numpy(), w_hidden, w_out.reshape(-1), *map(flat, kept),
            flat(d_x), *(gradient.reshape(-1) for gradient in gradients),
        )  # fmt: skip
        return d_x


_NOTHING_KEPT = (np.empty(0, np.float32),) * 5
"""Where no backward pass follows a block."""


def _check_shapes(weights: Arrays, *expected: tuple[int, ...]) -> None:
    """Kernels do not: with others they would read and write memory that is not theirs.

    Raises:
        ShapeError: Weights that somebody has put there.
    """
    received = tuple(weight.shape for weight in weights)
    if received != expected:
        raise ShapeError(
            "the weights of a layer do not fit its rows", expected=expected, received=received
        )


class _Chain(torch.autograd.Function):
    """``chain``; the weights are those of the layers, once more, for autograd to see."""

    @staticmethod
    def forward(
        ctx: Any,
        layers: Sequence[Layer],
        cache: WeightArrays,
        keep: bool,
        x: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        saved, ctx.layers, ctx.counts = list(weights), layers, []
        ctx.arrays = arrays = cache.of(weights)
        for layer in layers:
            number = len(layer.weights)
            y, kept = layer.forward(x, arrays[:number], keep)
            if keep:
                saved += [x, *kept]
                ctx.counts.append(len(kept))
            x, arrays = y, arrays[number:]
        ctx.save_for_backward(*saved)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        saved, arrays = list(ctx.saved_tensors), ctx.arrays
        gradients = [torch.zeros_like(weight) for weight in saved[: len(arrays)]]
        into = tuple(gradient.numpy() for gradient in gradients)
        d = d_y.contiguous()
        for layer, count in zip(reversed(ctx.layers), reversed(ctx.counts), strict=True):
            number, (x, *kept) = len(layer.weights), saved[-1 - count :]
            d = layer.backward(d, x, arrays[-number:], kept, into[-number:])
            saved, arrays, into = saved[: -1 - count], arrays[:-number], into[:-number]
        return None, None, None, d, *gradients
