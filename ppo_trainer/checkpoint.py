"""Saving a run and going on with it. Tensors are safetensors, the rest is JSON: no code runs.

A checkpoint is a folder that is written under a temporary name and renamed when it is complete, so
that a kill at any moment leaves the one before.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from entity_env.errors import StateError
from ppo_trainer.errors import CheckpointError, NonFiniteError
from ppo_trainer.evaluation import Evaluation
from ppo_trainer.pending import pending_from_tensors, pending_to_tensors
from ppo_trainer.run_folder import RunFolder
from ppo_trainer.seeding import Generators
from ppo_trainer.trajectories import Decisions
from ppo_trainer.update import Optimizers
from ragged_net import RaggedNet

__all__ = [
    "TrainState",
    "latest_checkpoint",
    "load_network",
    "load_pending",
    "load_state",
    "locate_checkpoint",
    "save_network",
    "save_state",
    "saved_at",
]

_MODEL, _OPTIMIZERS, _STATE = "model.safetensors", "optimizers.safetensors", "state.json"
_PENDING = "pending.safetensors"  # only where decisions wait for their outcome
_FROM_CONFIG = ("lr", "eps", "weight_decay")  # a resume may change them


@dataclass
class TrainState:
    """What changes during a run, apart from the environments.

    Args:
        net: The network.
        optimizers: Its optimizers.
        generators: The random numbers of sampling and shuffling.
        update: Updates done.
        steps: Frames trained on.
        metrics: The numbers of the last update.
        evaluations: The players of the last evaluation.
        evaluated: Its means, as ``eval/<metric>``.
        pending: Decisions whose outcome is still open, if there are any.
    """

    net: RaggedNet
    optimizers: Optimizers
    generators: Generators
    update: int = 0
    steps: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)
    evaluated: dict[str, float] = field(default_factory=dict)
    pending: Decisions | None = None


def save_state(
    run: RunFolder, state: TrainState, envs: list[Any] | None, keep: int, name: str | None = None
) -> Path:
    """Write a checkpoint and remove all but the last ``keep``; returns its folder.

    Args:
        run: Where to.
        state: What to save.
        envs: The state of the VecEnv, where its environments can save theirs.
        keep: How many to keep.
        name: A name that keeps it apart from those that a run resumes from.

    Raises:
        NonFiniteError: A parameter is NaN or infinite, and no ``name`` sets the checkpoint apart.
        CheckpointError: There is no room for it, or nobody may write there; those before stay.
    """
    folder = run.checkpoints / (name or f"step_{state.steps:012d}")
    if name is None:
        if folder.exists():
            return folder  # the state between two updates does not change
        _check_finite(state.net)
    with _replaced(folder) as temporary:
        _write(temporary, state, envs)
    if name is None:
        _clean(run, keep)
    return folder


def saved_at(run: RunFolder, steps: int) -> Path | None:
    """The checkpoint after ``steps``, if there is one."""
    folder = run.checkpoints / f"step_{steps:012d}"
    return folder if folder.exists() else None


def save_network(folder: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write a network that is only to be played with: its tensors, and facts about it as JSON.

    Raises:
        CheckpointError: There is no room for it, or nobody may write there.
    """
    with _replaced(folder) as temporary:
        save_file(_contiguous(tensors), temporary / _MODEL)
        (temporary / _STATE).write_text(_json(dict(facts)))


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """An empty folder that takes the place of ``folder`` once it is complete."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {folder} cannot be written: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # on a full disk it would be in the way


def _write(folder: Path, state: TrainState, envs: list[Any] | None) -> None:
    """All files of a checkpoint."""
    save_file(_contiguous(state.net.state_dict()), folder / _MODEL)
    tensors, groups = _optimizer_parts(state.optimizers)
    generators = {f"generator/{n}": g.get_state() for n, g in state.generators.all().items()}
    save_file(_contiguous(tensors | generators), folder / _OPTIMIZERS)
    facts = {
        "update": state.update,
        "steps": state.steps,
        "device": state.generators.actions.device.type,
        "groups": groups,
        "envs": envs,
    }
    if state.pending is not None:
        save_file(pending_to_tensors(state.pending), folder / _PENDING)
    (folder / _STATE).write_text(_json(facts))


def _check_finite(net: RaggedNet) -> None:
    """A run must never resume from parameters that can only give NaN."""
    wrong = [name for name, tensor in net.named_parameters() if not tensor.isfinite().all()]
    if wrong:
        raise NonFiniteError(
            "a parameter is not finite", expected="finite parameters", received=", ".join(wrong)
        )


def latest_checkpoint(run: RunFolder) -> Path:
    """The folder of the newest complete checkpoint."""
    found = sorted(run.checkpoints.glob("step_*"))
    if not found:
        raise CheckpointError(
            f"run {str(run.path)!r} has no checkpoint yet",
            expected=f"a folder step_... in {run.checkpoints}",
            hint="start it again: nothing of it was saved",
        )
    return found[-1]


def locate_checkpoint(path: str | Path) -> tuple[RunFolder, Path]:
    """The run that a path means, and its newest checkpoint or, of ``<run>/best``, its best one."""
    folder = Path(path).absolute()  # a path such as "." has no parent otherwise
    run = RunFolder(folder.parent)
    if folder == run.best and (folder / _MODEL).is_file():
        return RunFolder.open(run.path), folder
    run = RunFolder.open(path)
    return run, latest_checkpoint(run)


def load_network(folder: Path, net: RaggedNet) -> None:
    """Fill ``net`` with the parameters and input statistics of a checkpoint."""
    tensors = _load(folder / _MODEL)
    expected = net.state_dict()
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors or name not in expected:
            raise CheckpointError(
                f"checkpoint {folder} belongs to another network",
                expected=f"{name!r} {'not ' if name in tensors else ''}to be there",
                hint="net, value_net and the environment's spaces must be those of the run",
            )
        if tensors[name].shape != expected[name].shape:
            raise CheckpointError(
                f"checkpoint {folder} belongs to another network: {name!r} differs in shape",
                expected=tuple(expected[name].shape),
                received=tuple(tensors[name].shape),
                hint="net, value_net and the environment's spaces must be those of the run",
            )
    net.load_state_dict(tensors)


@dataclass(frozen=True)
class Restored:
    """What a checkpoint holds besides a ``TrainState``.

    Args:
        envs: The state of the VecEnv; None where its environments do not save theirs.
        other_device: It was saved on another kind of device, whose random numbers mean nothing
            here; the generators are as fresh ones.
    """

    envs: list[Any] | None
    other_device: bool


def load_state(folder: Path, state: TrainState) -> Restored:
    """Fill ``state`` from a checkpoint, and return the rest of it."""
    load_network(folder, state.net)
    tensors = _load(folder / _OPTIMIZERS)
    try:
        facts = json.loads((folder / _STATE).read_text())
        state.update, state.steps = int(facts["update"]), int(facts["steps"])
        for name, optimizer in state.optimizers.all().items():
            settings = [{k: g[k] for k in _FROM_CONFIG} for g in optimizer.param_groups]
            optimizer.load_state_dict(_optimizer_dict(name, tensors, facts["groups"][name]))
            for group, own in zip(optimizer.param_groups, settings, strict=True):
                group.update(own)
        envs: list[Any] | None = facts["envs"]
        if envs is not None and not isinstance(envs, list):
            raise TypeError(f"the environments are no list: {envs!r}")
        other_device = facts["device"] != state.generators.actions.device.type
        for name, generator in state.generators.all().items():
            if not (other_device and generator is state.generators.actions):
                generator.set_state(tensors[f"generator/{name}"])
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CheckpointError(
            f"checkpoint {folder} is damaged or belongs to other settings: "
            f"{type(error).__name__}: {error}",
            hint="an older one may be whole: remove this folder and resume again",
        ) from error
    return Restored(envs, other_device)


def load_pending(folder: Path, net: RaggedNet, num_rows: int) -> Decisions | None:
    """The decisions of ``num_rows`` rows that waited for their outcome; None if there were none.

    They mean something only where the rows go on from the state that was saved with them.
    """
    path = folder / _PENDING
    return pending_from_tensors(_load(path), net, num_rows) if path.exists() else None


def _load(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path} cannot be read: {error}",
            hint="an older checkpoint may be whole: remove this one's folder and resume again",
        ) from error


def _json(facts: dict[str, Any]) -> str:
    try:
        return json.dumps(facts)
    except (TypeError, ValueError) as error:
        raise StateError(
            f"what the environment's get_state returns cannot be saved as JSON: {error}",
            expected="dicts with strings as keys, lists, strings, numbers, booleans and None",
            hint="array.tolist() turns a NumPy array into a list",
        ) from error


def _contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _optimizer_parts(optimizers: Optimizers) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors by ``name/parameter/key``, and the groups' settings."""
    tensors, groups = {}, {}
    for name, optimizer in optimizers.all().items():
        state = optimizer.state_dict()
        groups[name] = state["param_groups"]
        for parameter, values in state["state"].items():
            for key, value in values.items():
                tensors[f"{name}/{parameter}/{key}"] = value
    return tensors, groups


def _optimizer_dict(name: str, tensors: Mapping[str, Tensor], groups: list[Any]) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        owner, *rest = path.split("/")
        if owner == name:
            state.setdefault(int(rest[0]), {})[rest[1]] = tensor
    return {"state": state, "param_groups": groups}


def _clean(run: RunFolder, keep: int) -> None:
    """Remove old checkpoints, and what killed processes left unfinished."""
    for folder in sorted(run.checkpoints.glob("step_*"))[:-keep]:
        shutil.rmtree(folder, ignore_errors=True)
    for leftover in run.checkpoints.glob(".*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
