"""First episodes of rows, by a network or a rule, and means with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from entity_env import VecEnv, VecObs
from entity_env.play import Policy
from entity_env.scripted_agent import ScriptedAgent
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.load_run import LoadedNet, LoadedRun, load_policy

__all__ = [
    "MOST_ROWS",
    "first_episodes",
    "load_runs",
    "rules_of",
    "spread",
    "values_by",
    "values_of",
]

MOST_ROWS = 640
"""Number of rows that are played at once."""

_USUAL_RULES = {"labels": False, "waiting": True}

F64 = npt.NDArray[np.float64]


def load_runs(paths: Sequence[str]) -> list[LoadedRun]:
    """Load the networks of run folders."""
    return [load_policy(path, device="cpu", trust=True) for path in paths]


def rules_of(own: LoadedNet) -> dict[str, bool]:
    """Return the rules of the job shops that a run was trained in."""
    return {name: own.config.env.get(name, usual) for name, usual in _USUAL_RULES.items()}


def spread(numbers: npt.ArrayLike) -> str:
    """Return the mean, and half the width of its interval of 95% (normal)."""
    array = np.asarray(numbers, np.float64)
    half = 1.96 * array.std(ddof=1) / math.sqrt(len(array)) if len(array) > 1 else math.nan
    return f"{array.mean():.2f} ± {half:.2f}"


@torch.no_grad()
def values_of(own: LoadedRun, rows: VecEnv, metric: str, *, greedy: bool) -> F64:
    """Return a metric of the first episode of each row, played by a network. Shape: (R,)."""
    agent = NetworkAgent(own.net, seed=1, greedy=greedy, precision=own.config.precision)
    return first_episodes(agent.act_rows, own.game.seen(rows), metric)


def values_by(script: Policy, rows: VecEnv, metric: str) -> F64:
    """Return a metric of the first episode of each row, played by a script. Shape: (R,)."""
    agent = ScriptedAgent(script, rows.obs_space(), rows.action_space())
    return first_episodes(agent.act_rows, rows, metric)


def first_episodes(policy: Callable[[VecObs], Mapping[Any, Any]], rows: VecEnv, metric: str) -> F64:
    """Return a metric of the first episode of each row. Shape: (R,)."""
    found = np.full(len(rows), np.nan)
    with rows:
        obs = rows.reset()
        while np.isnan(found).any():
            obs = rows.act(policy(obs))
            if obs.metrics:
                ended = obs.done & np.isnan(found)
                found[ended] = obs.metrics[metric][ended]
    return found
