"""Decisions whose outcome is still open, as named tensors for a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ppo_trainer.errors import CheckpointError
from ppo_trainer.experience.acting import values_of
from ppo_trainer.experience.trajectories import Decisions
from ragged_net import (
    CategoricalActors,
    ContinuousActors,
    EntityBatch,
    RaggedNet,
    RaggedTensor,
    SelectActors,
)
from ragged_net.actors import Actors
from ragged_net.errors import RaggedNetError

__all__ = ["pending_from_tensors", "pending_to_tensors"]


def pending_to_tensors(pending: Decisions) -> dict[str, Tensor]:
    """Return the decisions as tensors on the CPU; each name is a JSON list, such as a path."""
    tensors: dict[tuple[str, ...], Tensor] = {
        ("rows",): torch.from_numpy(pending.rows),
        ("rewards",): torch.from_numpy(pending.rewards),
        ("staleness",): torch.from_numpy(pending.staleness),
        ("values",): pending.values,
        ("global_features",): pending.batch.global_features,
    }
    if pending.memory is not None:
        tensors["memory",] = pending.memory
    ragged = {("entities", name): rows for name, rows in pending.batch.entities.items()}
    for name, actors in pending.batch.actions.items():
        ragged["actors", name] = actors.actors
        ragged["chosen", name] = pending.chosen[name]
        tensors["log_probs", name] = pending.log_probs[name].values
        if isinstance(actors, CategoricalActors):
            tensors["choices", name] = actors.mask
        elif isinstance(actors, SelectActors):
            ragged["actees", name] = actors.actees
            if actors.mask is not None:
                ragged["pairs", name] = actors.mask
    for name, shown in pending.batch.visible.items():
        tensors["visible", name] = shown
    for where, rows in ragged.items():
        tensors[*where, "values"] = rows.values
        tensors[*where, "offsets"] = rows.host_offsets
    # Copies, because some share their offsets, which safetensors refuses.
    return {json.dumps(where): tensor.detach().cpu().clone() for where, tensor in tensors.items()}


def pending_from_tensors(tensors: Mapping[str, Tensor], net: RaggedNet, num_rows: int) -> Decisions:
    """Return the decisions of ``pending_to_tensors``, on the device of ``net``.

    Raises:
        CheckpointError: The tensors are not those of decisions of ``net``.
    """
    try:
        pending = _read({tuple(json.loads(name)): tensors[name] for name in tensors})
        rows = pending.rows
        if len(rows) and not (rows.min() >= 0 and rows.max() < num_rows):
            raise ValueError(f"rows beyond {num_rows}")
        device = next(net.parameters()).device
        pending = Decisions(
            batch=pending.batch.to(device),
            chosen={name: ragged.to(device) for name, ragged in pending.chosen.items()},
            log_probs={name: ragged.to(device) for name, ragged in pending.log_probs.items()},
            values=pending.values.to(device),
            rows=rows,
            rewards=pending.rewards,
            memory=None if pending.memory is None else pending.memory.to(device),
            staleness=pending.staleness,
        )
        with torch.no_grad():  # checks every number, because updates do not check again
            net(pending.batch, memory=pending.memory, given=values_of(pending.chosen))
    except (KeyError, TypeError, ValueError, RuntimeError, RaggedNetError) as error:
        raise CheckpointError(
            f"the decisions with an open outcome are damaged: {type(error).__name__}: {error}"
        ) from error
    return pending


def _read(tensors: Mapping[tuple[str, ...], Tensor]) -> Decisions:
    def names(kind: str) -> list[str]:
        return list(dict.fromkeys(where[1] for where in tensors if where[0] == kind))

    def ragged(kind: str, name: str) -> RaggedTensor:
        return RaggedTensor(tensors[kind, name, "values"], tensors[kind, name, "offsets"])

    actions: dict[str, Actors] = {}
    for name in names("actors"):
        if name not in (*names("choices"), *names("actees")):
            actions[name] = ContinuousActors(ragged("actors", name))
        elif ("choices", name) in tensors:
            actions[name] = CategoricalActors(ragged("actors", name), tensors["choices", name])
        else:
            pairs = ragged("pairs", name) if name in names("pairs") else None
            actions[name] = SelectActors(ragged("actors", name), ragged("actees", name), pairs)
    chosen = {name: ragged("chosen", name) for name in actions}
    pending = Decisions(
        batch=EntityBatch(
            entities={name: ragged("entities", name) for name in names("entities")},
            global_features=tensors["global_features",],
            visible={name: tensors["visible", name] for name in names("visible")},
            actions=actions,
        ),
        chosen=chosen,
        log_probs={
            name: own.with_values(tensors["log_probs", name]) for name, own in chosen.items()
        },
        values=tensors["values",],
        rows=tensors["rows",].numpy(),
        rewards=tensors["rewards",].numpy(),
        memory=tensors.get(("memory",)),
        staleness=tensors["staleness",].numpy(),
    )
    _check_parts(pending)
    return pending


def _check_parts(pending: Decisions) -> None:
    columns = pending.rows, pending.rewards, pending.staleness, pending.values
    sizes = {pending.batch.num_frames, *(len(own) for own in columns)}
    fits = len(sizes) == 1 and pending.rows.dtype == np.int64
    fits &= pending.staleness.dtype == np.int64 and bool((pending.staleness >= 0).all())
    for name, own in pending.chosen.items():
        log_probs = pending.log_probs[name].values
        fits &= torch.equal(own.offsets, pending.batch.actions[name].actors.offsets)
        fits &= log_probs.shape == own.values.shape[:1] and log_probs.dtype == torch.float32
        fits &= bool(log_probs.isfinite().all())
    numbers = [torch.from_numpy(pending.rewards), pending.values]
    numbers += [] if pending.memory is None else [pending.memory]
    fits &= all(x.dtype == torch.float32 and bool(x.isfinite().all()) for x in numbers)
    if not fits:
        raise ValueError("its parts have different numbers of decisions or rows")
