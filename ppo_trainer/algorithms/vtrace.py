"""PPO on decisions of earlier networks, which V-trace corrects (Espeholt et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.config import VTraceConfig
from ppo_trainer.experience.acting import MOST_FRAMES
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.experience.stored_choices import evaluated
from ppo_trainer.experience.trajectories import Trajectories
from ragged_net import NetOutput, RaggedNet
from ragged_net.ragged import FrameNumbers

__all__ = ["VTrace"]


@dataclass(frozen=True)
class VTrace(PPO):
    """The ``Algorithm`` that estimates what the present network would get, and then is PPO.

    A decision of an earlier network counts as one of the present network: with the
    log-probabilities and the value that this has for it now, and with advantages and returns in
    which rewards and later values are weighed by how likely the present network makes the choice.
    Without such decisions all is as with PPO, bit for bit.

    Args:
        vtrace: Its own settings, beside those of PPO.

    Source:
        Espeholt et al. 2018, "IMPALA", arXiv:1802.01561, equation 1 and section 4.2. With
        ``ppo.gae_lambda`` below 1 traces are cut by it, too (remark 2 there), and the advantage
        bootstraps accordingly, so that with equal networks it is that of PPO.
    """

    vtrace: VTraceConfig = field(default_factory=VTraceConfig)

    def estimate(self, trajectories: Trajectories, net: RaggedNet) -> Rollout:
        """Return the decisions as those of ``net``, with V-trace's advantages and returns."""
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
        """Return the rollout with what ``net`` says of stale decisions, and their log-ratios.

        Shape of the log-ratios: (K,); 0 for decisions that are not stale.
        """
        values = rollout.values.clone()
        log_probs = {name: own.values.clone() for name, own in rollout.log_probs.items()}
        log_ratios = torch.zeros(len(rollout), dtype=torch.float64)
        is_stale = torch.from_numpy(stale)
        for frames, output in _evaluations(net, rollout, is_stale):
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


def _evaluations(
    net: RaggedNet, rollout: Rollout, is_stale: Tensor
) -> Iterator[tuple[Tensor, NetOutput]]:
    """Yield numbers of frames, every stale one among them, and what the network says of them."""
    if rollout.sequences is None:
        for numbers in torch.split(is_stale.nonzero().squeeze(1), MOST_FRAMES):
            yield numbers, evaluated(net, rollout.select(numbers))
        return
    # What a network remembers depends on the frames before.
    order, first = rollout.sequences.frames.values, 0
    whole = rollout.part(torch.arange(len(rollout.sequences)))
    for part in whole.parts(MOST_FRAMES):
        yield order[first : first + len(part)], evaluated(net, part)
        first += len(part)
