"""Learning from a search: its improved policies and values are the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from entity_env.errors import SettingError
from entity_env.spaces import SelectEntityActionSpace
from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.algorithms.algorithm import Scale
from ppo_trainer.config import PPOConfig
from ppo_trainer.experience.rollout import Rollout, Trajectories
from ragged_net import EntityBatch, NetOutput, RaggedNet, RaggedTensor
from ragged_net.position_config import check_feature

__all__ = ["SearchTeaching", "mirror_places", "with_mirrored"]

_LEAST_PROBABILITY = 1e-12


@dataclass(frozen=True)
class SearchTeaching:
    """The ``Algorithm`` that follows the improved policies and values of a search.

    Returns are those by lambda of the searched values. Decisions without a search teach the value
    function only.

    Args:
        config: Settings of PPO, of which those of returns and gradient steps apply.
        mirror: ``search.mirror``.

    Source:
        Danihelka, Guez, Schrittwieser and Silver, "Policy improvement by planning with Gumbel",
        2022.
    """

    config: PPOConfig
    mirror: Mapping[str, Mapping[str, float]] | None = None

    def estimate(self, trajectories: Trajectories, net: RaggedNet) -> Rollout:
        """Return the decisions with their returns; advantages are 1 where a search was made."""
        rollout = estimate(trajectories, self.config)
        searched = torch.zeros_like(rollout.advantages)
        for target in _targets(rollout).values():
            searched[target.frame_ids()[target.values > 0]] = 1.0
        rollout = replace(rollout, advantages=searched)
        return with_mirrored(rollout, net, self.mirror) if self.mirror else rollout

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


def mirror_places(
    net: RaggedNet, mirror: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[int, float]]:
    """Return the places of the mirror by entity type and number of the feature.

    Raises:
        SettingError: There is no such number, or an action does not select entities.
    """
    for name, action in net.action_space.items():
        if not isinstance(action, SelectEntityActionSpace):
            raise SettingError(
                f"search.mirror cannot mirror action {name!r}",
                expected="selections of entities, which stay the same",
                received=type(action).__name__,
            )
    entities = net.obs_space.entities
    for kind, coordinates in mirror.items():
        for feature in coordinates:
            check_feature(net.obs_space, "search.mirror", kind, feature)
    return {
        kind: {entities[kind].names.index(name): place for name, place in coordinates.items()}
        for kind, coordinates in mirror.items()
    }


def with_mirrored(
    rollout: Rollout, net: RaggedNet, mirror: Mapping[str, Mapping[str, float]]
) -> Rollout:
    """Return the frames of a rollout and, behind them, the same frames mirrored."""
    batch = rollout.batch
    entities = dict(batch.entities)
    for kind, columns in mirror_places(net, mirror).items():
        values = entities[kind].values.clone()
        for column, place in columns.items():
            values[:, column] = 2 * place - values[:, column]
        entities[kind] = entities[kind].with_values(values)

    def twice(parts: Mapping[str, RaggedTensor]) -> dict[str, RaggedTensor]:
        return {name: RaggedTensor.cat([part, part]) for name, part in parts.items()}

    return Rollout(
        batch=EntityBatch.cat([batch, replace(batch, entities=entities)]),
        chosen=twice(rollout.chosen),
        log_probs=twice(rollout.log_probs),
        values=rollout.values.repeat(2),
        advantages=rollout.advantages.repeat(2),
        returns=rollout.returns.repeat(2),
        targets=twice(_targets(rollout)),
    )


def _targets(part: Rollout) -> Mapping[str, RaggedTensor]:
    assert part.targets is not None
    return part.targets
