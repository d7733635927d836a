"""One checkpoint for the rows of all processes of one training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from entity_env import VecEnv
from ppo_trainer.experience.pending import pending_from_tensors, pending_to_tensors
from ppo_trainer.experience.trajectories import Decisions
from ppo_trainer.machine.ranks import Ranks
from ppo_trainer.runs.checkpoint import TrainState

__all__ = ["with_all_rows"]

_PENDING, _MEMORY, _GENERATOR = "pending/", "memory/", "generator/"


def with_all_rows(
    ranks: Ranks, state: TrainState, vec_env: VecEnv
) -> tuple[TrainState, list[Any] | None]:
    """Return the state that a single process with all rows would save, and that of its rows.

    All processes must call this at the same time; the result is complete in the first one only.
    """
    own = {f"{_GENERATOR}{n}": g.get_state() for n, g in state.generators.all().items()}
    if state.pending is not None:
        pending = pending_to_tensors(state.pending)
        own |= {_PENDING + name: tensor for name, tensor in pending.items()}
    for name, memory in state.memories.items():
        if memory.states is not None:
            own[_MEMORY + name] = memory.states.cpu()
    packed = torch.from_numpy(np.frombuffer(save(own), np.uint8).copy())
    every = [load(part.numpy().tobytes()) for part in ranks.gathered(packed)]
    saved = ranks.gathered_json(vec_env.get_state() if vec_env.has_state() else None)
    counts = [part[0] for part in ranks.gathered_json([len(vec_env)])]
    if not ranks.is_first:
        return state, None
    waiting = []
    for first, count, tensors in zip(np.cumsum([0, *counts]), counts, every, strict=False):
        named = {k.removeprefix(_PENDING): t for k, t in tensors.items() if k.startswith(_PENDING)}
        if named:
            pending_there = pending_from_tensors(named, state.net, count)
            waiting.append(replace(pending_there, rows=pending_there.rows + int(first)))
    joined = {
        name: memory.with_states(torch.cat([tensors[_MEMORY + name] for tensors in every]))
        for name, memory in state.memories.items()
        if memory.states is not None
    }
    others = {
        f"{name}/{rank}": tensor
        for rank, tensors in enumerate(every[1:], start=1)
        for name, tensor in tensors.items()
        if name.startswith(_GENERATOR)
    }
    whole = replace(
        state.with_memories(joined),
        pending=Decisions.cat(waiting) if waiting else None,
        other_generators=others,
    )
    envs = None if None in saved else [row for part in saved for row in part]
    return whole, envs
