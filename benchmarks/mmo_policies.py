"""Policies that play all agents of a massively multiplayer world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from entity_env import VecObs
from entity_env.batching.ragged import ActionBuffer
from ppo_trainer.players.network_agent import agent_of
from ppo_trainer.runs.load_run import load_policy

MAPS = 24
Policy = Callable[[VecObs], Mapping[str, ActionBuffer]]


def of_run(run: Path, seed: int) -> Policy:
    """Return what plays all agents of a world as a run does, each population by its policy."""
    loaded = load_policy(run)
    return agent_of(loaded.nets, loaded.game, loaded.config, seed=seed).act_rows
