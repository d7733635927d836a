"""Several compiled layers as one operation of autograd.

The overhead of one operation of autograd takes as long as the arithmetic of a small layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from ragged_net.compiled.autograd import Arrays, WeightArrays, save, saved
from ragged_net.compiled.first_order import once_differentiable

__all__ = ["NO_ROWS", "Layer", "chain", "is_plain", "weights_of"]

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
    return type(module) is kind and not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or module._compiled_call_impl
        or "forward" in module.__dict__
    )


def weights_of(
    modules: Sequence[nn.Module], kinds: Sequence[type[nn.Module]]
) -> list[Tensor] | None:
    """Return weight and bias of each module, or None unless each is plain and has both."""
    found: list[Tensor] = []
    for module, kind in zip(modules, kinds, strict=True):
        if not is_plain(module, kind):
            return None
        # From the dict, because an attribute look-up takes a microsecond.
        weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
        if weight is None or bias is None or getattr(module, "eps", _EPSILON) != _EPSILON:
            return None
        found += (weight, bias)
    return found


_EPSILON = nn.LayerNorm(1).eps
"""The epsilon of LayerNorm in the kernels."""
