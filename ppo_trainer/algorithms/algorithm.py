"""The interface of an algorithm: its estimates and its losses.

The training loop collects experience, asks the algorithm for a ``Rollout``, and hands it to
``ppo_trainer.learner``, which asks the algorithm for the losses of each minibatch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ppo_trainer.config import PPOConfig, Schedule
from ppo_trainer.experience.rollout import Rollout, Trajectories
from ragged_net import NetOutput, RaggedNet

__all__ = ["Algorithm", "Objective", "Scale", "scheduled"]


@dataclass(frozen=True)
class Scale:
    """The divisors of the sums over a minibatch, the same for all of its micro-batches.

    Args:
        frames: Number of frames B, the divisor of terms that every frame has, such as the value
            loss.
        policy: Number of frames with actors, at least 1: the divisor of terms that only actors
            have. A tensor () within a CUDA graph.
    """

    frames: float
    policy: float | Tensor


class Objective(Protocol):
    """The losses of gradient steps on frames whose outcome is known."""

    @property
    def config(self) -> PPOConfig:
        """The settings of the gradient steps, and those of the algorithm."""
        ...

    def coefficients(self, progress: float) -> dict[str, float]:
        """Return the coefficient in the loss of each number that ``losses`` measures, by name.

        Numbers with coefficient 0 are only logged. An error about a number that is not finite calls
        it a loss if its name begins with ``loss/`` or ``policy/``.

        Args:
            progress: Fraction of the run that is over, 0 to 1.
        """
        ...

    def logged(self, progress: float) -> dict[str, float]:
        """Return settings that change over a run, by name, for the log."""
        ...

    def scale(self, minibatch: Rollout) -> Scale:
        """Return the divisors of the sums over a minibatch, before it is split."""
        ...

    def prepare(self, minibatch: Rollout) -> Rollout:
        """Return the minibatch with advantages scaled, or whatever else depends on all frames.

        It is called before the minibatch is split, so that splitting changes no result.
        """
        ...

    def losses(
        self, output: NetOutput, part: Rollout, scale: Scale, value_std: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the named numbers of a minibatch, or the part of them that a micro-batch adds.

        Args:
            output: Output of the network for ``part`` now, evaluated at the choices of ``part``.
            part: The frames, as ``prepare`` returned them.
            scale: Scale of the whole minibatch, so that the parts of micro-batches add up.
            value_std: Unit in which values are compared, a scalar; None stands for 1.

        Returns:
            Scalars, float32, by the names of ``coefficients`` and in their order. Those with a
            coefficient other than 0 need gradients. The numbers of micro-batches are added up, and
            the log has their mean over the gradient steps. A name that ends with ``.min`` or
            ``.max`` is only logged, as the least or the greatest number.
        """
        ...

    def stops(self, numbers: Mapping[str, Tensor]) -> bool:
        """Return True if the update must end before the gradient step of these numbers."""
        ...


class Algorithm(Objective, Protocol):
    """The part of learning that differs between algorithms."""

    def estimate(self, trajectories: Trajectories, net: RaggedNet) -> Rollout:
        """Return the decisions as a rollout with advantages and returns.

        Args:
            trajectories: K decisions and their outcomes.
            net: Network to train. An algorithm that corrects for decisions of earlier networks,
                such as V-trace, evaluates the choices with it.
        """
        ...


def scheduled(start: float, schedule: Schedule, progress: float, end: float = 0.0) -> float:
    """Return the value at ``progress``, the fraction of the run that is over, 0 to 1.

    ``constant`` returns ``start``; ``linear`` and ``cosine`` go from ``start`` to ``end``.
    """
    progress = min(max(progress, 0.0), 1.0)
    if schedule == "linear":
        return end + (start - end) * (1.0 - progress)
    if schedule == "cosine":
        return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * progress))
    return start
