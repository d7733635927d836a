"""The Numba kernel of the PPO loss as an operation of autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ragged_net.compiled.first_order import once_differentiable

if TYPE_CHECKING:
    from ppo_trainer.algorithms.loss_kernel import Facts  # needs Numba

__all__ = ["compiled_losses"]


def compiled_losses(log_prob: Tensor, entropy: Tensor, value: Tensor, facts: Facts) -> Tensor:
    """Return the numbers named in ``losses.NAMES``. Shape: (5,), float32, on the CPU.

    Only the first three have gradients.

    Args:
        log_prob: Log-probability of the choice of each actor. Shape: (A,).
        entropy: Entropy of each actor's distribution. Shape: (A,).
        value: Value of each frame. Shape: (B,).
        facts: The minibatch and the settings.
    """
    numbers: Tensor = _Losses.apply(log_prob, entropy, value, facts)  # type: ignore[no-untyped-call]
    return numbers


class _Losses(torch.autograd.Function):
    """The operation behind ``compiled_losses``."""

    @staticmethod
    def forward(ctx: Any, log_prob: Tensor, entropy: Tensor, value: Tensor, facts: Facts) -> Tensor:
        from ppo_trainer.algorithms.loss_kernel import measure  # needs Numba

        tensors = [tensor.contiguous() for tensor in (log_prob, entropy, value)]
        gradients, numbers = [torch.empty_like(tensor) for tensor in tensors], value.new_empty(5)
        measure(
            *(tensor.numpy(force=True) for tensor in tensors), facts,
            numbers.numpy(), *(gradient.numpy() for gradient in gradients),
        )  # fmt: skip
        ctx.save_for_backward(*gradients)
        return numbers

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_numbers: Tensor) -> tuple[Tensor | None, ...]:
        d_policy, d_entropy, d_value, _, _ = d_numbers.tolist()
        by_log_prob, by_entropy, by_value = ctx.saved_tensors
        return d_policy * by_log_prob, d_entropy * by_entropy, d_value * by_value, None
