"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.algorithms.algorithm import Scale, scheduled
from ppo_trainer.algorithms.clone import Clone, clone_divergence, clone_weight, with_clone
from ppo_trainer.algorithms.losses import minibatch_scale, normalized, ppo_coefficients, ppo_losses
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Rollout, Trajectories
from ragged_net import NetOutput, RaggedNet

__all__ = ["PPO"]


@dataclass(frozen=True)
class PPO:
    """The ``Algorithm`` that clips the change of the policy (Schulman et al. 2017).

    Args:
        config: Settings of PPO.
        clone: Network that the policy should stay close to; None without such a penalty.
    """

    config: PPOConfig
    clone: Clone | None = None

    def estimate(self, trajectories: Trajectories, net: RaggedNet) -> Rollout:
        """Return the decisions with advantages and returns by the values of the time of acting."""
        rollout = estimate(trajectories, self.config)
        return rollout if self.clone is None else with_clone(rollout, trajectories, self.clone)

    def coefficients(self, progress: float) -> dict[str, float]:
        """Return the coefficient of each term, 0 for terms that are only logged."""
        terms = ppo_coefficients(self._entropy_coef(progress), self.config.value_coef)
        if self.clone is not None:
            terms |= {"loss/clone_kl": clone_weight(self.config, progress)}
        return terms

    def logged(self, progress: float) -> dict[str, float]:
        """Return the present weight of the entropy bonus."""
        return {"policy/entropy_coef": self._entropy_coef(progress)}

    def scale(self, minibatch: Rollout) -> Scale:
        """Return the number of frames, and of those with actors."""
        return minibatch_scale(minibatch)

    def prepare(self, minibatch: Rollout) -> Rollout:
        """Return the minibatch with normalised advantages, if the settings ask for it."""
        if not self.config.normalize_advantages:
            return minibatch
        return replace(minibatch, advantages=normalized(minibatch, self.config.least_deviation))

    def losses(
        self, output: NetOutput, part: Rollout, scale: Scale, value_std: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the terms of ``coefficients``. A new loss term is one more entry in both.

        On the CPU one kernel measures all of them and their gradients (``loss_kernel.py``).
        """
        losses = ppo_losses(output, part, scale, self.config, value_std)
        if part.clone_log_probs is not None:
            losses |= {"loss/clone_kl": clone_divergence(output, part, scale)}
        return losses

    def stops(self, numbers: Mapping[str, Tensor]) -> bool:
        """Return True if the KL divergence from the old policy is above ``target_kl``.

        Reading it makes the CPU wait for the GPU in each gradient step.
        """
        target = self.config.target_kl
        return bool(target and float(numbers["policy/kl"]) > target)

    def _entropy_coef(self, progress: float) -> float:
        config = self.config
        return scheduled(config.entropy_coef, config.entropy_schedule, progress, config.entropy_end)
