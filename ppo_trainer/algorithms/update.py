"""One PPO update: several passes over a rollout in minibatches of whole frames."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ppo_trainer.algorithms.losses import (
    NAMES,
    loss_weights,
    minibatch_scale,
    normalized,
    ppo_losses,
)
from ppo_trainer.algorithms.schedule import scheduled
from ppo_trainer.algorithms.step_metrics import Readings
from ppo_trainer.config import OptimConfig, TrainConfig
from ppo_trainer.errors import NonFiniteError
from ppo_trainer.experience.collect import autocast
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.experience.tensors import values_of
from ppo_trainer.reporting.stopwatch import Stopwatch
from ragged_net import NetOutput, RaggedNet

__all__ = ["Optimizers", "make_optimizers", "update"]

KL = NAMES.index("policy/kl")


@dataclass(frozen=True)
class Optimizers:
    """One for the policy (and a shared value head), one for a value network of its own."""

    policy: torch.optim.Optimizer
    value: torch.optim.Optimizer | None

    def all(self) -> dict[str, torch.optim.Optimizer]:
        """By name."""
        return {"policy": self.policy} | ({} if self.value is None else {"value": self.value})


def make_optimizers(net: RaggedNet, config: TrainConfig) -> Optimizers:
    """Fresh optimizers for a network."""
    value_parameters = list(net.value_parameters())
    return Optimizers(
        policy=_adamw(list(net.policy_parameters()), config.optim),
        value=_adamw(value_parameters, config.value_optim or config.optim)
        if value_parameters
        else None,
    )


def update(
    net: RaggedNet,
    optimizers: Optimizers,
    rollout: Rollout,
    config: TrainConfig,
    progress: float,
    generator: torch.Generator,
    clock: Stopwatch,
) -> dict[str, float]:
    """Improve the network on a rollout; returns means over the gradient steps, by name.

    Args:
        net: Changed in place; its input statistics are not.
        optimizers: Changed in place.
        rollout: All on the network's device.
        config: Settings.
        progress: The part of the run that is over, 0 to 1, for the schedules.
        generator: Shuffles the frames; on the CPU.
        clock: Times the phases.

    Raises:
        NonFiniteError: A loss or a gradient is NaN or infinite; the network is as it was before
            that gradient step.
    """
    set_learning_rates(optimizers, config, progress)
    entropy_coef = scheduled(config.ppo.entropy_coef, config.ppo.entropy_schedule, progress)
    device = rollout.values.device
    weights = loss_weights(config.ppo, entropy_coef, device)
    readings, stopped = Readings(device), False
    net.update_value_norm(rollout.returns)
    for numbers in _minibatches(rollout, config, generator):
        with clock("gather"):
            minibatch = _take(rollout, numbers)
        for optimizer in optimizers.all().values():
            for parameter in _parameters(optimizer):
                parameter.grad = None  # ``zero_grad`` takes three times as long
        readings.begin()
        measured = _backward(net, minibatch, config, weights, clock)
        readings.add(NAMES, measured)
        # The one setting for which the device is waited for in each step.
        if config.ppo.target_kl and float(measured[KL]) > config.ppo.target_kl:
            stopped = True
            break
        with clock("optimizer"):
            _step(net, optimizers, config.ppo.max_grad_norm, readings)
    steps = readings.read()
    means = {
        name: sum(step[name] for step in steps if name in step) / sum(name in s for s in steps)
        for name in sorted({name for step in steps for name in step})
    }
    return means | {
        "policy/stopped": float(stopped),
        "optim/gradient_steps": float(sum("optim/grad_norm" in step for step in steps)),
        "optim/lr": optimizers.policy.param_groups[0]["lr"],
        "policy/entropy_coef": entropy_coef,
    }


def set_learning_rates(optimizers: Optimizers, config: TrainConfig, progress: float) -> None:
    """Move the learning rates to where the run is."""
    for name, optimizer in optimizers.all().items():
        settings = config.optim if name == "policy" else config.value_optim or config.optim
        for group in optimizer.param_groups:
            group["lr"] = scheduled(settings.lr, settings.schedule, progress)


def _minibatches(
    rollout: Rollout, config: TrainConfig, generator: torch.Generator
) -> Iterator[Tensor]:
    """Shuffled frame numbers in parts of nearly equal size, at most ``minibatch_size``.

    With a memory, shuffled sequence numbers in as many parts, of about as many frames.
    """
    frames = len(rollout)
    parts = -(-frames // config.ppo.minibatch_size)
    for _ in range(config.ppo.epochs):
        if rollout.sequences is None:
            yield from torch.randperm(frames, generator=generator).tensor_split(parts)
        else:
            yield from rollout.sequences.minibatches(parts, generator)


def _take(rollout: Rollout, numbers: Tensor) -> Rollout:
    """The frames, or the sequences where there are any, of these numbers."""
    if rollout.sequences is None:
        return rollout.select(numbers)
    return rollout.select_sequences(numbers)


def _backward(
    net: RaggedNet, minibatch: Rollout, config: TrainConfig, weights: Tensor, clock: Stopwatch
) -> Tensor:
    """Add the gradients of a minibatch, one micro-batch at a time; returns ``Losses.numbers``."""
    ppo = config.ppo
    # Both look at the whole minibatch, so that splitting it changes nothing.
    scale = minibatch_scale(minibatch, ppo)
    advantages = minibatch.advantages
    if ppo.normalize_advantages:
        advantages = normalized(minibatch, ppo.least_deviation)
    numbers = torch.zeros_like(weights)
    for part, own_advantages in _parts(minibatch, advantages, ppo.microbatch_size):
        with clock("forward"):
            with autocast(advantages.device, config):
                output = _evaluate(net, part)
            losses = ppo_losses(output, part, own_advantages, scale, ppo, net.value_std)
            loss = losses.total(weights)
        with clock("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        numbers += losses.numbers.detach()
    return numbers


def _parts(minibatch: Rollout, advantages: Tensor, size: int) -> Iterator[tuple[Rollout, Tensor]]:
    """Micro-batches of ``size`` frames, or with 0 the whole, and their advantages.

    Sequences stay whole, so that one that is longer makes a larger micro-batch.
    """
    if not 0 < size < len(minibatch):
        yield minibatch, advantages
        return
    sequences, start = minibatch.sequences, 0
    if sequences is None:
        every = iter(torch.split(torch.arange(len(minibatch)), size))
    else:
        every = sequences.within(size)
    for numbers in every:
        part = _take(minibatch, numbers)
        yield part, advantages[start : start + len(part)]
        start += len(part)


def _evaluate(net: RaggedNet, part: Rollout) -> NetOutput:
    """What the network says now about what was chosen."""
    given, sequences = values_of(part.chosen), part.sequences
    if sequences is None:
        output: NetOutput = net(part.batch, given=given, trusted=True)
    else:
        output = net(
            part.batch,
            memory=sequences.states,
            sequences=sequences.lengths,
            given=given,
            trusted=True,
        )
    return output


def _step(net: RaggedNet, optimizers: Optimizers, max_norm: float, readings: Readings) -> None:
    """Clip and apply the gradients; each optimizer has a norm of its own."""
    names = {"policy": "optim/grad_norm", "value": "optim/value_grad_norm"}
    norms = {}
    for name, optimizer in optimizers.all().items():
        gradients = [p.grad for p in _parameters(optimizer) if p.grad is not None]
        norm = readings.bad.new_zeros(())  # where nobody acted there are no gradients at all
        if gradients:
            norm = _clip(gradients, max_norm, readings.at_once)
        norms[names[name]] = norm
        if readings.at_once and not math.isfinite(norm):
            raise NonFiniteError(
                "a gradient is not finite",
                expected="finite gradients",
                received=", ".join(_not_finite(net)) or "gradients too large for their norm",
            )
    readings.add(list(norms), torch.stack(list(norms.values())))
    for optimizer in optimizers.all().values():
        if not readings.at_once:
            # Where a fused optimizer looks before it steps, as GradScaler of torch.amp has it.
            optimizer.found_inf = readings.bad  # type: ignore[attr-defined]
        optimizer.step()


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _clip(gradients: list[Tensor], max_norm: float, look: bool) -> Tensor:
    """Scale gradients that are longer down to ``max_norm``; returns the norm they had.

    As ``clip_grad_norm_`` of torch, in a third of its time: the norm of one vector, and, if a
    ``look`` is free, nothing more where they are short.
    """
    vector = torch.cat([gradient.reshape(-1) for gradient in gradients])
    norm: Tensor = torch.linalg.vector_norm(vector, dtype=torch.float64).float()
    if not look or max_norm < float(norm) < math.inf:
        scale = (max_norm / (norm + 1e-6)).clamp_max(1.0)
        torch._foreach_mul_(gradients, scale)
    return norm


def _not_finite(net: RaggedNet) -> list[str]:
    return [
        name
        for name, parameter in net.named_parameters()
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all()
    ]


def _adamw(parameters: list[nn.Parameter], config: OptimConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        parameters, lr=config.lr, eps=config.eps, weight_decay=config.weight_decay, fused=True
    )
