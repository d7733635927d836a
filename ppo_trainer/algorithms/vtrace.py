"""PPO with V-trace corrections for decisions of earlier networks (Espeholt et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.config import VTraceConfig
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.experience.stored_choices import evaluations
from ppo_trainer.experience.trajectories import Trajectories
from ragged_net import RaggedNet
from ragged_net.ragged import FrameNumbers

__all__ = ["VTrace"]


@dataclass(frozen=True)
class VTrace(PPO):
    """The ``Algorithm`` that corrects decisions of earlier networks, then runs PPO.

    Decisions of earlier networks get the log-probability and the value that the present network
    gives them. In their advantages and returns, rewards and later values are weighted by the
    clipped ratio of the present to the earlier probability. Without such decisions the results
    equal those of PPO bit for bit.

    Args:
        vtrace: Settings of V-trace.

    Source:
        Espeholt et al. 2018, "IMPALA", arXiv:1802.01561, equation 1 and section 4.2.
        ``ppo.gae_lambda`` below 1 shortens traces, too (remark 2 there), and the advantages use the
        same traces, so that with equal networks they are those of PPO.
    """

    vtrace: VTraceConfig = field(default_factory=VTraceConfig)

    def estimate(self, trajectories: Trajectories, net: RaggedNet) -> Rollout:
        """Return the decisions evaluated by ``net``, with advantages and returns of V-trace."""
        rollout = super().estimate(trajectories, net)
        stale = trajectories.decisions.staleness > 0
        if not stale.any():
            return rollout
        rollout, log_ratios = self._of(net, rollout, stale)
        decisions = replace(trajectories.decisions, values=rollout.values)
        ratios = np.exp(log_ratios)
        weighed = estimate(
            replace(trajectories, decisions=decisions),
            self.config,
            weights=(
                np.minimum(ratios, self.vtrace.rho_clip),
                np.minimum(ratios, self.vtrace.trace_clip),
            ),
        )
        return replace(rollout, advantages=weighed.advantages, returns=weighed.returns)

    @torch.no_grad()
    def _of(
        self, net: RaggedNet, rollout: Rollout, stale: npt.NDArray[np.bool_]
    ) -> tuple[Rollout, npt.NDArray[np.float64]]:
        """Return the rollout with stale decisions evaluated by ``net``, and their log-ratios.

        Shape of the log-ratios: (K,), 0 for decisions that are not stale.
        """
        values = rollout.values.clone()
        log_probs = {name: own.values.clone() for name, own in rollout.log_probs.items()}
        log_ratios = torch.zeros(len(rollout), dtype=torch.float64)
        is_stale = torch.from_numpy(stale)
        for frames, output in evaluations(net, rollout, is_stale.nonzero().squeeze(1)):
            counted = is_stale[frames]
            kept = frames[counted].to(values.device)
            values[kept] = output.value.float()[counted.to(values.device)]
            for name, old in rollout.log_probs.items():
                part, rows = old.select_with_rows(FrameNumbers.of(frames, values.device))
                frame_of = part.frame_ids()
                counts = counted.to(values.device)[frame_of]
                now = output.actions[name].log_prob.float()
                log_probs[name][rows[counts]] = now[counts]
                moved = torch.where(counts, now - old.values[rows], 0.0).double().cpu()
                log_ratios.index_add_(0, frames[frame_of.cpu()], moved)
        logs = {name: rollout.log_probs[name].with_values(own) for name, own in log_probs.items()}
        return replace(rollout, values=values, log_probs=logs), log_ratios.numpy()
