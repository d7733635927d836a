"""The optimizers of a network: gradient steps with clipping and a check for NaN, and averages."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from entity_env.errors import NonFiniteError
from ppo_trainer.algorithms.algorithm import scheduled
from ppo_trainer.config import OptimConfig, TrainConfig
from ppo_trainer.learner.step_metrics import StepMetrics
from ragged_net import RaggedNet

__all__ = [
    "Optimizers",
    "clip_gradients",
    "follow",
    "frozen_copy",
    "make_optimizers",
    "set_learning_rates",
    "step",
    "zero_grad",
]

_EPSILON = 1e-5
"""Adam's epsilon."""


@dataclass(frozen=True)
class Optimizers:
    """One optimizer for the network with its policy and value, one for a separate value network."""

    main: torch.optim.Optimizer
    value: torch.optim.Optimizer | None

    def all(self) -> dict[str, torch.optim.Optimizer]:
        """Return the optimizers by name."""
        return {"main": self.main} | ({} if self.value is None else {"value": self.value})


def make_optimizers(net: RaggedNet, config: TrainConfig) -> Optimizers:
    """Return fresh optimizers for a network."""
    value_parameters = list(net.value_parameters())
    return Optimizers(
        main=_adam(list(net.policy_parameters()), config.optim),
        value=_adam(value_parameters, config.optim) if value_parameters else None,
    )


def set_learning_rates(optimizers: Optimizers, config: TrainConfig, progress: float) -> None:
    """Set the learning rates according to their schedules.

    Args:
        optimizers: Changed in place.
        config: Settings of the schedules.
        progress: Fraction of the run that is over, 0 to 1.
    """
    for optimizer in optimizers.all().values():
        for group in optimizer.param_groups:
            group["lr"] = scheduled(config.optim.lr, config.optim.schedule, progress)


def zero_grad(optimizers: Optimizers) -> None:
    """Remove all gradients, in a third of the time of torch's ``zero_grad``."""
    for optimizer in optimizers.all().values():
        for parameter in _parameters(optimizer):
            parameter.grad = None


def step(net: RaggedNet, optimizers: Optimizers, max_norm: float, metrics: StepMetrics) -> None:
    """Clip the gradients and apply them; each optimizer clips by its own norm.

    Args:
        net: Network whose parameter names an error contains.
        optimizers: Changed in place, as are their parameters.
        max_norm: Maximum norm. Longer gradients are scaled down to it.
        metrics: Measurements, which get the norms before clipping.

    Raises:
        NonFiniteError: A gradient is NaN or infinite; then no parameter has changed.
    """
    names = {"main": "optim/grad_norm", "value": "optim/value_grad_norm"}
    norms = {}
    for name, optimizer in optimizers.all().items():
        gradients = [p.grad for p in _parameters(optimizer) if p.grad is not None]
        norm = metrics.bad.new_zeros(())  # without actors there are no gradients
        if gradients:
            norm = clip_gradients(gradients, max_norm, metrics.at_once)
        norms[names[name]] = norm
        if metrics.at_once and not math.isfinite(norm):
            raise NonFiniteError(
                "a gradient is not finite",
                expected="finite gradients",
                received=", ".join(_not_finite(net)) or "gradients too large for their norm",
            )
    metrics.add(list(norms), torch.stack(list(norms.values())))
    for optimizer in optimizers.all().values():
        if not metrics.at_once:
            # A fused optimizer skips its step if this is 1, as with GradScaler of torch.amp.
            optimizer.found_inf = metrics.bad  # type: ignore[attr-defined]
        optimizer.step()


def clip_gradients(gradients: list[Tensor], max_norm: float, look: bool) -> Tensor:
    """Scale gradients that are longer than ``max_norm`` down to it, and return their norm.

    This is ``clip_grad_norm_`` of torch in a third of its time: it takes the norm of one vector.

    Args:
        gradients: Changed in place.
        max_norm: Maximum norm of all of them together.
        look: True if reading a number is free. Then short gradients are not scaled at all.

    Returns:
        The norm before scaling, a scalar, float32.
    """
    vector = torch.cat([gradient.reshape(-1) for gradient in gradients])
    norm: Tensor = torch.linalg.vector_norm(vector, dtype=torch.float64).float()
    if not look or max_norm < float(norm) < math.inf:
        scale = (max_norm / (norm + 1e-6)).clamp_max(1.0)
        torch._foreach_mul_(gradients, scale)
    return norm


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _not_finite(net: RaggedNet) -> list[str]:
    return [
        name
        for name, parameter in net.named_parameters()
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all()
    ]


def _adam(parameters: list[nn.Parameter], config: OptimConfig) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=config.lr, eps=_EPSILON, fused=True)


_POWER = 7
"""Exponent p: update k has the weight k^p, so that most of it is in the last fifth of updates."""


def frozen_copy(net: RaggedNet) -> RaggedNet:
    """Return a copy of a network without gradients."""
    return copy.deepcopy(net).requires_grad_(False)


@torch.no_grad()
def follow(average: RaggedNet, net: RaggedNet, update: int) -> None:
    """Move ``average`` towards ``net``, in place.

    Polynomial-decay averaging: the weight of the newest network is ``(p + 1) / (update + p)``.
    Input statistics are copied from ``net``.

    Args:
        average: Average of the earlier networks.
        net: Network after ``update`` updates.
        update: Number of updates, at least 1.

    Source:
        Shamir and Zhang, "Stochastic gradient descent for non-smooth optimization", 2013.
    """
    weight = (_POWER + 1) / (update + _POWER)
    for mean, newest in zip(average.parameters(), net.parameters(), strict=True):
        mean.lerp_(newest, weight)
    for kept, now in zip(average.buffers(), net.buffers(), strict=True):
        kept.copy_(now)
