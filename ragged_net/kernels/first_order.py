"""Errors for derivatives of gradients that autograd does not compute.

Torch's ``once_differentiable`` raises an error only if the incoming gradient requires one. The
gradient of a plain sum does not, so that a gradient penalty would be left out silently.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from entity_env.errors import GradientError

__all__ = ["once_differentiable"]

Backward = Callable[..., tuple[Tensor | None, ...]]


def once_differentiable(backward: Backward) -> Backward:
    """Make the results of a ``backward`` raise an error when they are differentiated again."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if any(map(_is_several, gradients)):
            raise GradientError(
                "the compiled layers compute one gradient at a time",
                hint=f"without is_grads_batched or vectorize; or {_PLAIN}",
            )
        with torch.no_grad():
            results = backward(ctx, *gradients)
        if not torch.is_grad_enabled():  # then they cannot be differentiated
            return results
        final: Any = _Final.apply
        return tuple(None if g is None else final(g.requires_grad_()) for g in results)

    return wrapped


# The check for tensors that stand for several, which has no public name in torch.
_is_several: Callable[[Tensor | None], bool] = getattr(
    getattr(torch._C, "_functorch", None), "is_legacy_batchedtensor", lambda gradient: False
)


class _Final(torch.autograd.Function):
    """The identity, whose backward pass raises an error."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Tensor:
        raise GradientError(
            "a gradient of the compiled layers cannot be differentiated again",
            hint=f"{_PLAIN}: torch differentiates that any number of times",
        )


_PLAIN = (
    "call the network within ragged_net.plain_torch(), made with NetConfig(attention='reference')"
)
