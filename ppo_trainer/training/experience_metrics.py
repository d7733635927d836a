"""Numbers about the experience of an update, over all processes of the training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from entity_env import Metric
from ppo_trainer.algorithms.advantage import explained_variance
from ppo_trainer.experience.collect import Collected
from ppo_trainer.experience.rollout import Rollout, Trajectories
from ppo_trainer.machine.ranks import Ranks
from ppo_trainer.reporting.recent_episodes import is_per_episode

__all__ = ["about_rollout", "importance", "of_all", "staleness", "with_episodes"]


def about_rollout(ranks: Ranks, rollout: Rollout) -> dict[str, float]:
    """Return the explained variance of the returns and the mean size of a frame."""
    values, returns = (
        torch.cat(ranks.gathered(tensor)) for tensor in (rollout.values, rollout.returns)
    )
    sizes = torch.tensor([rollout.batch.num_entities, len(rollout)])
    entities, frames = ranks.stacked(sizes).sum(0).tolist()
    return {
        "value/explained_variance": explained_variance(values, returns),
        "entities_per_frame": entities / frames,
    }


def staleness(ranks: Ranks, trajectories: Trajectories) -> dict[str, float]:
    """Return the staleness of the decisions of all processes, in updates, for the log."""
    updates = trajectories.decisions.staleness
    every = ranks.stacked(torch.tensor([updates.sum(), len(updates), updates.max(initial=0)]))
    total, count, _ = every.sum(0).tolist()
    return {"policy/staleness": total / count, "policy/staleness.max": float(every[:, 2].max())}


def importance(ranks: Ranks, rollout: Rollout, rho_clip: float) -> dict[str, float]:
    """Return the mean clipped ratio of V-trace, and the effective sample size as a share.

    Source:
        Kish, "Survey sampling", 1965: the effective number of samples with weights w is
        (sum w)^2 / sum w^2.
    """
    if rollout.log_ratios is None:
        return {}
    ratios = np.exp(np.minimum(rollout.log_ratios, 50.0))  # whose squares are finite
    clipped = np.minimum(ratios, rho_clip)
    sums = [float(len(ratios)), clipped.sum(), ratios.sum(), np.square(ratios).sum()]
    every = ranks.stacked(torch.tensor(sums, dtype=torch.float64)).sum(0).tolist()
    count, rho, total, squares = every if every[0] else (1.0,) * 4
    return {
        "policy/rho": rho / count,
        "policy/effective_sample_size": total**2 / squares / count if squares else 0.0,
    }


def of_all(ranks: Ranks, collected: Sequence[Collected]) -> tuple[int, dict[str, Metric], int]:
    """Return the numbers of frames, ended episodes and truncated episodes of all processes.

    Args:
        ranks: The processes.
        collected: Experience of each network of this process; the first one has the episodes.
    """
    frames, ended = sum(len(part.trajectories) for part in collected), collected[0].metrics
    if ranks.is_alone:
        return frames, dict(ended), collected[0].num_truncated
    mine = {name: dataclasses.astuple(metric) for name, metric in ended.items()}
    episodes: dict[str, Metric] = {}
    every = ranks.gathered_json([frames, mine, collected[0].num_truncated])
    for _, theirs, _ in every:
        for name, values in theirs.items():
            episodes[name] = episodes.get(name, Metric()).merge(Metric(*values))
    return sum(part[0] for part in every), episodes, sum(part[2] for part in every)


def with_episodes(
    metrics: dict[str, float], ended: Mapping[str, Metric], truncated: int
) -> dict[str, float]:
    """Add the metrics of the episodes that ended."""
    metrics |= {
        "episodes": float(ended.get("episodic_length", Metric()).count),
        "episodes_truncated": float(truncated),
    }
    for name, metric in ended.items():
        # An environment may have a metric of the same name.
        taken = name in metrics or not is_per_episode(name)
        metrics[f"env/{name}" if taken else name] = metric.mean
    return metrics
