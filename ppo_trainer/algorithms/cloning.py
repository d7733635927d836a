"""Behavioural cloning: likelihood of recorded actions, and values of recorded returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ppo_trainer.algorithms.algorithm import Scale
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Rollout
from ragged_net import NetOutput

__all__ = ["Cloning", "right_choices"]


@dataclass(frozen=True)
class Cloning:
    """The ``Objective`` that maximises the likelihood of recorded actions (Pomerleau 1988).

    In a rollout of recorded frames ``advantages`` are the weights of the frames.

    Args:
        config: Settings of the gradient steps, and the weight of the value loss.
    """

    config: PPOConfig

    def coefficients(self, progress: float) -> dict[str, float]:
        """Return the coefficient of each term, 0 for terms that are only logged."""
        return {"loss/cloning": 1.0, "loss/value": self.config.value_coef, "policy/entropy": 0.0}

    def logged(self, progress: float) -> dict[str, float]:
        """Return nothing, because no setting changes."""
        return {}

    def scale(self, minibatch: Rollout) -> Scale:
        """Return the number of frames, and the total weight of actors, at least 1."""
        weights = minibatch.advantages.cpu() * minibatch.actors_per_frame
        return Scale(frames=len(minibatch), policy=float(weights.sum()) or 1.0)

    def prepare(self, minibatch: Rollout) -> Rollout:
        """Return the minibatch as it is."""
        return minibatch

    def losses(
        self, output: NetOutput, part: Rollout, scale: Scale, value_std: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the terms of ``coefficients``.

        Cloning: weighted mean of -log p(choice) over all choices, in nats. Value: half the mean
            squared error. Entropy: weighted mean over all choices.
        """
        surprise, entropy = output.value.new_zeros(()), output.value.new_zeros(())
        for name, old in part.log_probs.items():
            weights, action = part.advantages[old.frame_ids()], output.actions[name]
            surprise = surprise - (weights * action.log_prob).sum()
            entropy = entropy + (weights * action.entropy).sum()
        error = output.value - part.returns
        if value_std is not None:
            error = error / value_std
        return {
            "loss/cloning": surprise / scale.policy,
            "loss/value": 0.5 * error.square().sum() / scale.frames,
            "policy/entropy": entropy / scale.policy,
        }

    def stops(self, numbers: Mapping[str, Tensor]) -> bool:
        """Return False: a pass always uses all frames."""
        return False


def right_choices(output: NetOutput, part: Rollout) -> dict[str, Tensor]:
    """Return a mask of the actors that chose as recorded, for each discrete action. Shape: (A,).

    Args:
        output: The network's own most likely choices in the frames of ``part``.
        part: The recorded frames and choices.
    """
    found = {}
    for name, chosen in part.chosen.items():
        chosen_now, recorded = output.actions[name].chosen.values, chosen.values
        if recorded.is_floating_point():
            continue  # no two real numbers are the same
        if recorded.dim() > 1:  # sets, compared regardless of their order
            chosen_now, recorded = chosen_now.sort(dim=1).values, recorded.sort(dim=1).values
        same = chosen_now == recorded
        found[name] = same.all(dim=1) if same.dim() > 1 else same
    return found
