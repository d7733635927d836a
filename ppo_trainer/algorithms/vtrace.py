"""PPO with V-trace corrections for decisions of earlier networks (Espeholt et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.config import VTraceConfig
from ppo_trainer.experience.acting import evaluations
from ppo_trainer.experience.rollout import Rollout, Trajectories
from ragged_net import RaggedNet
from ragged_net.ragged import FrameNumbers

__all__ = ["VTrace", "mean_weights"]

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class VTrace(PPO):
    """The ``Algorithm`` that corrects decisions of earlier networks, then runs PPO.

    Decisions of earlier networks get the log-probability and the value that the present network
    gives them. In their advantages and returns, rewards and later values are weighted by clipped
    ratios of the present to the earlier probabilities (``mean_weights``). Without such decisions
    the results equal those of PPO bit for bit.

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
        frame_of = np.concatenate(
            [ragged.frame_ids().cpu().numpy() for ragged in rollout.log_probs.values()]
        )
        log_ratios: F64 = np.zeros(len(frame_of))
        if stale.any():
            rollout, log_ratios = self._of(net, rollout, stale)
        if self.config.ratio == "per_frame":
            log_ratios = np.bincount(frame_of, log_ratios, len(rollout)).astype(np.float64)
            frame_of = np.arange(len(rollout))
        rollout = replace(rollout, log_ratios=log_ratios)
        if not stale.any():
            return rollout
        decisions = replace(trajectories.decisions, values=rollout.values)
        weighed = estimate(
            replace(trajectories, decisions=decisions),
            self.config,
            weights=(
                mean_weights(log_ratios, frame_of, len(rollout), self.vtrace.rho_clip),
                mean_weights(log_ratios, frame_of, len(rollout), self.vtrace.trace_clip),
            ),
        )
        return replace(rollout, advantages=weighed.advantages, returns=weighed.returns)

    @torch.no_grad()
    def _of(
        self, net: RaggedNet, rollout: Rollout, stale: npt.NDArray[np.bool_]
    ) -> tuple[Rollout, F64]:
        """Return the rollout with stale decisions evaluated by ``net``, and their log-ratios.

        Shape of the log-ratios: (A,), of the actors of one action after the other, 0 for decisions
        that are not stale.
        """
        values = rollout.values.clone()
        log_probs = {name: ragged.values.clone() for name, ragged in rollout.log_probs.items()}
        is_stale = torch.from_numpy(stale)
        for frames, output in evaluations(net, rollout, is_stale.nonzero().squeeze(1)):
            counted = is_stale[frames]
            kept = frames[counted].to(values.device)
            values[kept] = output.value.float()[counted.to(values.device)]
            for name, old in rollout.log_probs.items():
                part, rows = old.select_with_rows(FrameNumbers.of(frames, values.device))
                counts = counted.to(values.device)[part.frame_ids()]
                log_probs[name][rows[counts]] = output.actions[name].log_prob.float()[counts]
        moved = [now - rollout.log_probs[name].values for name, now in log_probs.items()]
        logs = {
            name: rollout.log_probs[name].with_values(values) for name, values in log_probs.items()
        }
        log_ratios: F64 = torch.cat(moved).double().cpu().numpy()
        return replace(rollout, values=values, log_probs=logs), log_ratios


def mean_weights(log_ratios: F64, frame_of: npt.NDArray[np.int64], frames: int, clip: float) -> F64:
    """Return the mean of the clipped ratios of each frame, 1 in frames without ratios.

    With ``ppo.ratio=per_actor`` each actor is a decision of its own, as in the loss of PPO: the
    target of a frame is the mean of the targets that V-trace has for its actors one by one. The
    product of many ratios would be far from 1 although none of them is.

    Args:
        log_ratios: Logarithms of the ratios of actors, or of frames. Shape: (U,).
        frame_of: Frame of each ratio. Shape: (U,).
        frames: Number of frames B.
        clip: Maximum of a ratio.

    Returns:
        Shape: (B,), float64.
    """
    with np.errstate(over="ignore"):
        clipped = np.minimum(np.exp(log_ratios), clip)
    count = np.bincount(frame_of, minlength=frames)
    total = np.bincount(frame_of, clipped, frames)
    return np.where(count > 0, total / np.maximum(count, 1), min(1.0, clip))
