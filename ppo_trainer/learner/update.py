"""One update: several passes over a rollout in minibatches of whole frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce

import torch
from torch import Tensor

from ppo_trainer.algorithms.algorithm import Objective
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.acting import autocast, evaluated
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.learner.minibatches import Minibatch, minibatches
from ppo_trainer.learner.optimizers import Optimizers, set_learning_rates, step, zero_grad
from ppo_trainer.learner.step_graph import StepGraphs
from ppo_trainer.learner.step_metrics import StepMetrics, joined, means
from ppo_trainer.machine.device import explained_memory
from ppo_trainer.machine.ranks import LONE, Ranks
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import RaggedNet

__all__ = ["add_gradients", "add_up", "update"]


def update(
    algorithm: Objective,
    net: RaggedNet,
    optimizers: Optimizers,
    rollout: Rollout,
    config: TrainConfig,
    progress: float,
    generator: torch.Generator,
    clock: Stopwatch,
    graphs: StepGraphs | None = None,
    ranks: Ranks = LONE,
) -> dict[str, float]:
    """Train the network on a rollout.

    Args:
        algorithm: Objective to minimise.
        net: Changed in place, except for its input statistics.
        optimizers: Changed in place.
        rollout: Rollout on the network's device.
        config: Settings of learning rates and precision.
        progress: Fraction of the run that is over, 0 to 1, for the schedules.
        generator: Random number generator for shuffling, on the CPU.
        clock: Stopwatch of the phases.
        graphs: Gradients as CUDA graphs, where possible.
        ranks: The processes that train the network, each on its own rollout.

    Returns:
        The mean of each number over all gradient steps, by name; see ``Objective.losses``.

    Raises:
        NonFiniteError: A loss or a gradient is NaN or infinite; the network keeps the parameters
            from before that gradient step.
    """
    set_learning_rates(optimizers, config, progress)
    coefficients = algorithm.coefficients(progress)
    metrics, stopped = StepMetrics(rollout.values.device), False
    if net.value_std is not None:
        net.update_value_norm(torch.cat(ranks.gathered(rollout.returns)))
    graphed = graphs is not None and graphs.begin(algorithm, rollout)
    for minibatch in minibatches(rollout, algorithm.config, generator, ranks):
        zero_grad(optimizers)
        metrics.begin()
        measured = None
        if not len(minibatch.numbers):
            measured = _nothing_measured(list(coefficients), rollout.values)
        elif graphed and graphs is not None:
            with clock("graph"):
                measured = graphs.add_gradients(algorithm, rollout, minibatch, coefficients)
            graphed = measured is not None
        if measured is None:
            with clock("gather"):
                part = rollout.part(minibatch.numbers)
            what = (
                f"the gradients of a minibatch of {len(part):,} frames with "
                f"{part.batch.num_entities:,} entities"
            )
            with explained_memory(what, "ppo.microbatch_size, ppo.minibatch_size"):
                measured = add_gradients(
                    algorithm, net, part, config, coefficients, clock, minibatch
                )
        if not ranks.is_alone:
            with clock("others"):
                measured = add_up(ranks, net.parameters(), measured)
        metrics.add(measured, torch.stack(list(measured.values())))
        if algorithm.stops(measured):
            stopped = True
            break
        with clock("optimizer"):
            step(net, optimizers, config.ppo.max_grad_norm, metrics)
    steps = metrics.read()
    return (
        means(steps)
        | {
            "policy/stopped": float(stopped),
            "optim/gradient_steps": float(sum("optim/grad_norm" in step for step in steps)),
            "optim/lr": optimizers.main.param_groups[0]["lr"],
        }
        | algorithm.logged(progress)
    )


def add_gradients(
    algorithm: Objective,
    net: RaggedNet,
    minibatch: Rollout,
    config: TrainConfig,
    coefficients: Mapping[str, float],
    clock: Stopwatch,
    shared: Minibatch | None = None,
) -> dict[str, Tensor]:
    """Add the gradients of a minibatch to those of the network, one micro-batch at a time.

    Returns:
        The numbers that ``algorithm.losses`` measures for the whole minibatch, without gradients.
    """
    # Both are computed from the whole minibatch, so that splitting it changes no result.
    if shared is None or shared.whole is None:
        scale, minibatch = algorithm.scale(minibatch), algorithm.prepare(minibatch)
    else:
        scale, minibatch = shared.prepared(algorithm, minibatch)
    measured: dict[str, Tensor] = {}
    for part in minibatch.parts(algorithm.config.microbatch_size):
        with clock("forward"):
            with autocast(minibatch.values.device, config):
                output = evaluated(net, part)
            losses = algorithm.losses(output, part, scale, net.value_std)
            loss = sum(losses[name] * coef for name, coef in coefficients.items() if coef)
        with clock("backward"):
            loss.backward()  # type: ignore[union-attr]
        for name, number in losses.items():
            total = number.detach()
            measured[name] = joined(name, measured[name], total) if name in measured else total
    return measured


def add_up(
    ranks: Ranks, parameters: Iterable[Tensor], measured: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Add up the gradients of all processes, in each process, and return the sums of numbers.

    The losses of each process are its part of those of the whole minibatch (``Objective.losses``),
    so that the sum equals the gradient that one process would have computed.

    Args:
        ranks: The processes.
        parameters: Parameters whose gradients are replaced. A parameter without a gradient in every
            process gets none, so that the optimizer skips it.
        measured: Numbers of this process by name, in the same order in each process.
    """
    if ranks.is_alone:
        return dict(measured)
    trained, numbers = list(parameters), torch.stack(list(measured.values()))
    has_one = numbers.new_tensor([one.grad is not None for one in trained])
    # One message for all tensors, because each message takes up to a millisecond.
    flat = ranks.add(
        torch.cat([has_one, numbers, *(_gradient(one).reshape(-1) for one in trained)])
    )
    counts, sums, *parts = torch.split(
        flat, [len(trained), len(numbers), *map(torch.numel, trained)]
    )
    for one, part, count in zip(trained, parts, counts.tolist(), strict=True):
        one.grad = part.view_as(one) if count else None
    found = dict(zip(measured, sums.unbind(), strict=True))
    if extremes := [name for name in measured if name.endswith((".min", ".max"))]:
        shares = ranks.stacked(torch.stack([measured[name] for name in extremes])).unbind(1)
        for name, every in zip(extremes, shares, strict=True):
            found[name] = reduce(partial(joined, name), every)
    return found


def _nothing_measured(names: Sequence[str], like: Tensor) -> dict[str, Tensor]:
    """Return zeros for the numbers of a process without frames in a minibatch."""
    ends = {".min": float("inf"), ".max": float("-inf")}
    return {name: like.new_tensor(ends.get(name[-4:], 0.0)) for name in names}


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
