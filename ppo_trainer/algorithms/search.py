"""Learning from a search: its improved policies and values are the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.algorithms.algorithm import Scale
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Rollout, Trajectories
from ragged_net import NetOutput, RaggedNet, RaggedTensor

__all__ = ["SearchTeaching"]

_LEAST_PROBABILITY = 1e-12


@dataclass(frozen=True)
class SearchTeaching:
    """The ``Algorithm`` that follows the improved policies and values of a search.

    Returns are those by lambda of the searched values. Decisions without a search teach the value
    function only.

    Args:
        config: Settings of PPO, of which those of returns and gradient steps apply.

    Source:
        Danihelka, Guez, Schrittwieser and Silver, "Policy improvement by planning with Gumbel",
        2022.
    """

    config: PPOConfig

    def estimate(self, trajectories: Trajectories, net: RaggedNet) -> Rollout:
        """Return the decisions with their returns; advantages are 1 where a search was made."""
        rollout = estimate(trajectories, self.config)
        searched = torch.zeros_like(rollout.advantages)
        for target in _targets(rollout).values():
            searched[target.frame_ids()[target.values > 0]] = 1.0
        return replace(rollout, advantages=searched)

    def coefficients(self, progress: float) -> dict[str, float]:
        """Return the coefficient of each term, 0 for terms that are only logged."""
        return {"loss/policy": 1.0, "loss/value": self.config.value_coef, "policy/kl": 0.0}

    def logged(self, progress: float) -> dict[str, float]:
        """Return nothing, because no setting changes."""
        return {}

    def scale(self, minibatch: Rollout) -> Scale:
        """Return the number of frames, and of the actors that were searched, at least 1."""
        searched = minibatch.advantages.cpu() * minibatch.actors_per_frame
        return Scale(frames=len(minibatch), policy=max(float(searched.sum()), 1.0))

    def prepare(self, minibatch: Rollout) -> Rollout:
        """Return the minibatch as it is."""
        return minibatch

    def losses(
        self, output: NetOutput, part: Rollout, scale: Scale, value_std: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the terms of ``coefficients``.

        Policy: the mean over searched actors of the cross-entropy of the improved policy and the
            network's. KL: the same without the entropy of the improved policy. Value: half the mean
            squared error.
        """
        surprise, entropy = output.value.new_zeros(()), output.value.new_zeros(())
        for name, target in _targets(part).items():
            probs = output.actions[name].probs
            assert probs is not None
            own = probs.values if isinstance(probs, RaggedTensor) else probs.reshape(-1)
            wanted = target.values
            surprise = surprise - (wanted * own.clamp_min(_LEAST_PROBABILITY).log()).sum()
            entropy = entropy - torch.special.xlogy(wanted, wanted).sum()
        error = output.value - part.returns
        if value_std is not None:
            error = error / value_std
        return {
            "loss/policy": surprise / scale.policy,
            "loss/value": 0.5 * error.square().sum() / scale.frames,
            "policy/kl": ((surprise - entropy) / scale.policy).detach(),
        }

    def stops(self, numbers: Mapping[str, Tensor]) -> bool:
        """Return False: an update always uses all frames."""
        return False


def _targets(part: Rollout) -> Mapping[str, RaggedTensor]:
    assert part.targets is not None
    return part.targets
