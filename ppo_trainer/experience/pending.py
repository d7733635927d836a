"""Decisions whose outcome is still open, as named tensors for a checkpoint."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_env.errors import CheckpointError, EntityEnvError
from ppo_trainer.experience.acting import values_of
from ppo_trainer.experience.rollout import Decisions
from ragged_net import EntityBatch, RaggedNet, RaggedTensor
from ragged_net.actors import Actors
from ragged_net.heads import head_kind

__all__ = ["pending_from_tensors", "pending_to_tensors", "tensors_of"]


def pending_to_tensors(pending: Decisions) -> dict[str, Tensor]:
    """Return the decisions as tensors on the CPU; each name is a JSON list, such as a path."""
    # Copies, because some share their offsets, which safetensors refuses.
    return {
        json.dumps(where): tensor.detach().cpu().clone()
        for where, tensor in tensors_of(pending).items()
    }


def tensors_of(decisions: Decisions) -> dict[tuple[str, ...], Tensor]:
    """Return all tensors of decisions by name; those of actors are the fields of their class."""
    batch = decisions.batch
    parts: dict[tuple[str, ...], RaggedTensor | Tensor | None] = {
        ("rows",): torch.tensor(decisions.rows),
        ("rewards",): torch.tensor(decisions.rewards),
        ("staleness",): torch.tensor(decisions.staleness),
        ("values",): decisions.values,
        ("memory",): decisions.memory,
        ("global_features",): batch.global_features,
    }
    parts |= {("entities", name): rows for name, rows in batch.entities.items()}
    parts |= {("visible", name): shown for name, shown in batch.visible.items()}
    for name, actors in batch.actions.items():
        fields = dataclasses.fields(actors)
        parts |= {("actions", name, field.name): getattr(actors, field.name) for field in fields}
        parts["chosen", name] = decisions.chosen[name]
        parts["log_probs", name] = decisions.log_probs[name].values
    parts |= {("targets", name): ragged for name, ragged in (decisions.targets or {}).items()}
    tensors = {}
    for where, part in parts.items():
        if isinstance(part, RaggedTensor):
            tensors[*where, "values"] = part.values
            tensors[*where, "offsets"] = part.host_offsets
        elif isinstance(part, Tensor):
            tensors[where] = part
    return tensors


def pending_from_tensors(tensors: Mapping[str, Tensor], net: RaggedNet, num_rows: int) -> Decisions:
    """Return the decisions of ``pending_to_tensors``, on the device of ``net``.

    Raises:
        CheckpointError: The tensors are not those of decisions of ``net``.
    """
    try:
        pending = _read({tuple(json.loads(name)): tensor for name, tensor in tensors.items()}, net)
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
            targets=pending.targets
            and {name: ragged.to(device) for name, ragged in pending.targets.items()},
        )
        with torch.no_grad():  # checks every number, because updates do not check again
            net(pending.batch, memory=pending.memory, given=values_of(pending.chosen))
    except (KeyError, TypeError, ValueError, RuntimeError, EntityEnvError) as error:
        raise CheckpointError(
            f"the decisions with an open outcome are damaged: {type(error).__name__}: {error}"
        ) from error
    return pending


def _read(tensors: Mapping[tuple[str, ...], Tensor], net: RaggedNet) -> Decisions:
    def ragged(*where: str) -> RaggedTensor:
        return RaggedTensor(tensors[*where, "values"], tensors[*where, "offsets"])

    def names(kind: str) -> list[str]:
        return list(dict.fromkeys(where[1] for where in tensors if where[0] == kind))

    actions: dict[str, Actors] = {}
    for name, space in net.action_space.items():
        kind, fields = head_kind(space).actors, dict[str, Any]()
        for field in dataclasses.fields(kind):
            where = "actions", name, field.name
            if (*where, "values") in tensors:
                fields[field.name] = ragged(*where)
            elif field.name == "mask" and where in tensors:
                fields["mask"] = tensors[where]
        actions[name] = kind(**fields)
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
            name: ragged.with_values(tensors["log_probs", name]) for name, ragged in chosen.items()
        },
        values=tensors["values",],
        rows=tensors["rows",].numpy(),
        rewards=tensors["rewards",].numpy(),
        memory=tensors.get(("memory",)),
        staleness=tensors["staleness",].numpy(),
        targets={name: ragged("targets", name) for name in names("targets")} or None,
    )
    _check_parts(pending)
    return pending


def _check_parts(pending: Decisions) -> None:
    columns = pending.rows, pending.rewards, pending.staleness, pending.values
    sizes = {pending.batch.num_frames, *(len(column) for column in columns)}
    fits = len(sizes) == 1 and pending.rows.dtype == np.int64
    fits &= pending.staleness.dtype == np.int64 and bool((pending.staleness >= 0).all())
    for name, ragged in pending.chosen.items():
        log_probs = pending.log_probs[name].values
        fits &= torch.equal(ragged.offsets, pending.batch.actions[name].actors.offsets)
        fits &= log_probs.shape == ragged.values.shape[:1] and log_probs.dtype == torch.float32
        fits &= bool(log_probs.isfinite().all())
    numbers = [torch.from_numpy(pending.rewards), pending.values]
    numbers += [] if pending.memory is None else [pending.memory]
    fits &= all(x.dtype == torch.float32 and bool(x.isfinite().all()) for x in numbers)
    if not fits:
        raise ValueError("its parts have different numbers of decisions or rows")
