"""The interface of an algorithm: what to keep, how to estimate, what to minimise.

The training loop collects experience, asks the algorithm for a ``Rollout``, and hands it to
``ppo_trainer.learner``, which asks the algorithm for the losses of each minibatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ppo_trainer.config import UpdateConfig
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.experience.trajectories import Trajectories
from ragged_net import NetOutput, RaggedNet

__all__ = ["Algorithm", "Objective", "Scale"]


@dataclass(frozen=True)
class Scale:
    """The divisors of the sums over a minibatch, the same for all of its micro-batches.

    Args:
        frames: B, the number of frames, for what every frame has, such as a value.
        policy: The total weight of frames with actors, or of actors, for what only actors have. At
            least 1. A tensor () within a graph.
    """

    frames: float
    policy: float | Tensor


class Objective(Protocol):
    """The losses of gradient steps on frames of known outcome, wherever these come from."""

    @property
    def config(self) -> UpdateConfig:
        """The settings of its gradient steps, among others of its own."""
        ...

    def coefficients(self, progress: float) -> dict[str, float]:
        """Return the coefficient in the loss of each named number that ``losses`` measures.

        Those with coefficient 0 are only logged. Names that begin with ``loss/`` or ``policy/``
        are called losses when they are not finite.

        Args:
            progress: The part of the run that is over, 0 to 1.
        """
        ...

    def logged(self, progress: float) -> dict[str, float]:
        """Return settings that change over a run, for the log, by name."""
        ...

    def scale(self, minibatch: Rollout) -> Scale:
        """Return what sums over a minibatch are divided by, before it is split."""
        ...

    def prepare(self, minibatch: Rollout) -> Rollout:
        """Return the minibatch with what depends on all of its frames, such as scaled advantages.

        It comes before the minibatch is split, so that splitting changes no result.
        """
        ...

    def losses(
        self, output: NetOutput, part: Rollout, scale: Scale, value_std: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the named numbers of a minibatch, or the share of one of its micro-batches.

        Args:
            output: What the network says about ``part`` now, given its choices.
            part: The frames, as ``prepare`` left them.
            scale: That of the whole minibatch, so that the shares of its parts add up.
            value_std: The unit in which values are compared, a scalar; None stands for 1.

        Returns:
            Scalars, float32, by the names of ``coefficients`` and in their order. Those with a
            coefficient other than 0 need gradients. The shares of micro-batches are added up, and
            the log has the mean over the gradient steps. Of a name that ends with ``.min`` or
            ``.max``, which is only logged, it is the least or the greatest of all.
        """
        ...

    def stops(self, numbers: Mapping[str, Tensor]) -> bool:
        """Return whether the update ends before the gradient step that would use these numbers."""
        ...


class Algorithm(Objective, Protocol):
    """The part of learning that differs between algorithms."""

    def estimate(self, trajectories: Trajectories, net: RaggedNet) -> Rollout:
        """Return what updates need of the collected decisions, with their advantages and returns.

        Args:
            trajectories: K decisions, and what came of each.
            net: The network that will be improved. An algorithm that corrects for decisions of
                earlier networks, such as V-trace, asks it for the probabilities of the choices.
        """
        ...
