"""Several compiled layers as one operation of autograd.

The overhead of one operation of autograd takes as long as the arithmetic of a small layer.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from entity_env.errors import BatchError
from ragged_net import kernels
from ragged_net.compiled.autograd import (
    Arrays,
    WeightArrays,
    flat,
    hidden_rows,
    save,
    saved,
    turns_of_rows,
)
from ragged_net.frames import Frames
from ragged_net.kernels.first_order import once_differentiable
from ragged_net.kernels.threads import together
from ragged_net.layout import Reading

__all__ = ["NO_ROWS", "Block", "Layer", "Norm", "ReluLinear", "chain", "is_plain", "weights_of"]

M = TypeVar("M", bound=nn.Module)


class Layer(Protocol):
    """The interface of a layer of a chain. Rows are (N, K) float32 on the CPU, contiguous."""

    @property
    def weights(self) -> Sequence[Tensor]:
        """The learned tensors."""

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """Return the result for rows ``x``, and with ``keep`` the tensors for the backward pass."""

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """Return the gradient of x; add the gradients of the weights to ``gradients``."""


def chain(layers: Sequence[Layer], x: Tensor, cache: WeightArrays | None = None) -> Tensor:
    """Apply all ``layers`` to rows ``x`` (N, K); ``NO_ROWS`` if the first layer makes the rows.

    ``cache`` belongs to a caller that calls again with the same weights.
    """
    weights = [weight for layer in layers for weight in layer.weights]
    arrays, x, at = (cache or WeightArrays()).of(weights), x.contiguous(), 0
    for i, layer in enumerate(layers):
        end = at + len(layer.weights)
        learned = (x, *layer.weights) if torch.is_grad_enabled() else ()
        if any(tensor.requires_grad for tensor in learned):  # then so are those of later layers
            result: Tensor = _Chain.apply(layers[i:], arrays[at:], x, *weights[at:])  # type: ignore[no-untyped-call]
            return result
        x, _ = layer.forward(x, arrays[at:end], False)
        at = end
    return x


class _Chain(torch.autograd.Function):
    """The operation behind ``chain``; its arguments repeat the weights, for autograd."""

    @staticmethod
    def forward(
        ctx: Any, layers: Sequence[Layer], arrays: Arrays, x: Tensor, *weights: Tensor
    ) -> Tensor:
        ctx.layers, ctx.arrays, ctx.counts = layers, arrays, []
        keeping = list(weights)
        for layer in layers:
            number = len(layer.weights)
            y, kept = layer.forward(x, arrays[:number], True)
            keeping += (x, *kept)
            ctx.counts.append(len(kept))
            x, arrays = y, arrays[number:]
        save(ctx, *keeping)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        left, arrays = list(saved(ctx)), ctx.arrays
        # Contiguous like the arrays; ``zeros_like`` would copy the strides of a transposed weight.
        gradients = [weight.new_zeros(weight.shape) for weight in left[: len(arrays)]]
        into = tuple(gradient.numpy() for gradient in gradients)
        d = d_y.contiguous()
        for layer, count in zip(reversed(ctx.layers), reversed(ctx.counts), strict=True):
            number, (x, *kept) = len(layer.weights), left[-1 - count :]
            d = layer.backward(d, x, arrays[-number:], kept, into[-number:])
            left, arrays, into = left[: -1 - count], arrays[:-number], into[:-number]
        return None, None, d, *gradients


NO_ROWS = torch.empty(0, device="cpu")


def is_plain(module: nn.Module, kind: type[M]) -> TypeGuard[M]:
    """Return True if ``module`` has exactly the class ``kind``, without hooks or overrides."""
    return _are_plain((module,), (kind,))


def _are_plain(modules: Sequence[nn.Module], kinds: Sequence[type[nn.Module]]) -> bool:
    """Return True if ``is_plain`` is true of each module and kind; one call takes less time."""
    for module, kind in zip(modules, kinds, strict=True):
        if type(module) is not kind or (
            module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
            or module._compiled_call_impl
            or "forward" in module.__dict__
        ):
            return False
    return True


def weights_of(
    modules: Sequence[nn.Module], kinds: Sequence[type[nn.Module]]
) -> list[Tensor] | None:
    """Return weight and bias of each module, or None unless each is plain and has both."""
    found: list[Tensor] = []
    if not _are_plain(modules, kinds):
        return None
    for module in modules:
        # From the dict, because an attribute look-up takes a microsecond.
        weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
        if weight is None or bias is None or getattr(module, "eps", _EPSILON) != _EPSILON:
            return None
        found += (weight, bias)
    return found


_EPSILON = nn.LayerNorm(1).eps
"""The epsilon of LayerNorm in the kernels."""


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


_shape_of = attrgetter("shape")


def _check_shapes(weights: Arrays, *expected: tuple[int, ...]) -> None:
    """Check the shapes of weights, because kernels would read or write beyond their memory.

    Raises:
        BatchError: A weight that was replaced has another shape.
    """
    received = tuple(map(_shape_of, weights))
    if received != expected:
        raise BatchError(
            "the weights of a layer do not fit its rows", expected=expected, received=received
        )
