"""Checkpoints of a run: tensors as safetensors, everything else as JSON; reading them runs no code.

A checkpoint is a folder that is written under a temporary name and renamed when it is complete, so
that a kill at any moment leaves the previous checkpoint.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from entity_env import ActionSpace, ObsSpace
from entity_env.errors import CheckpointError, NonFiniteError, shorten
from entity_env.storage.files import fresh_name, is_leftover, remove, sync_folder
from ppo_trainer.algorithms.clone import Clone
from ppo_trainer.algorithms.group_baseline import GroupReturns
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.acting_graph import ActingGraphs
from ppo_trainer.experience.pending import pending_from_tensors, pending_to_tensors
from ppo_trainer.experience.row_memory import RowMemory
from ppo_trainer.experience.trajectories import Decisions
from ppo_trainer.learner.optimizers import Optimizers
from ppo_trainer.learner.step_graph import StepGraphs
from ppo_trainer.machine.graphs import Graphs
from ppo_trainer.machine.seeding import Generators
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.runs.checkpoint_files import SavedFiles, write_checkpoint
from ppo_trainer.runs.folder import RunFolder, named_policy
from ppo_trainer.runs.saved_network import MODEL, check_forms, network_for
from ppo_trainer.runs.tensor_file import TensorForm
from ragged_net import RaggedNet

__all__ = [
    "Content",
    "TrainState",
    "latest_checkpoint",
    "load_network",
    "load_rows",
    "load_state",
    "locate_checkpoint",
    "network_of",
    "own_checkpoints",
    "remove_old_checkpoints",
    "save_network",
    "save_state",
    "saved_at",
    "steps_of",
]

_OPTIMIZERS = "optimizers.safetensors"
_PENDING = "pending.safetensors"  # only if decisions have an open outcome
_AVERAGE = "average.safetensors"  # only if the run's agent is an average
_MEMORY = "memory.safetensors"  # only for a network with a memory, if the rows can continue
_CLONE_MEMORY = "clone_memory.safetensors"
_OURS = re.compile(r"step_(\d{12}|[1-9]\d{12,17})")


@dataclass
class TrainState:
    """The parts of a run that training changes, without the environments.

    Args:
        net: The network.
        optimizers: Optimizers of the network.
        generators: Random number generators of sampling and shuffling.
        update: Number of updates done.
        steps: Number of frames trained on.
        metrics: Numbers of the last update.
        evaluations: Players of the last evaluation.
        evaluated: Means of the last evaluation, as ``eval/<metric>``.
        pending: Decisions whose outcome is still open; None without any.
        memory: Memory states of the rows.
        players: State of self-play as JSON values, as it is saved; None without self-play.
        groups: Returns of rows that are each other's baseline; None for the value function.
        average: Average of the networks so far, if it is the run's agent.
        clone: Network that the run began with, while a penalty keeps the policy close to it.
        acting_graphs: CUDA graphs in which the network acts; not saved.
        step_graphs: CUDA graphs of gradient steps; not saved.
        other_generators: States of the random number generators of the other processes, by the
            names under which they are saved.
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
    memory: RowMemory | None = None
    players: Any = None
    groups: GroupReturns | None = None
    average: RaggedNet | None = None
    clone: Clone | None = None
    acting_graphs: ActingGraphs | None = None
    step_graphs: StepGraphs | None = None
    other_generators: dict[str, Tensor] = field(default_factory=dict)

    def use_graphs(self, frames: int, precision: str) -> None:
        """Let the network use CUDA graphs, for steps of at most ``frames`` frames."""
        graphs = Graphs(self.net)
        self.acting_graphs = ActingGraphs(graphs, self.net, frames, precision)
        self.step_graphs = StepGraphs(graphs, self.net, precision)

    @property
    def memories(self) -> dict[str, RowMemory]:
        """The memories of the rows, by the names of the files in which they are saved."""
        own = {} if self.memory is None else {_MEMORY: self.memory}
        return own if self.clone is None else {**own, _CLONE_MEMORY: self.clone.memory}

    def with_memories(self, memories: Mapping[str, RowMemory]) -> TrainState:
        """Return the state with other ``memories``; those that are left out stay the same."""
        clone = self.clone
        if clone is not None:
            clone = replace(clone, memory=memories.get(_CLONE_MEMORY, clone.memory))
        return replace(self, memory=memories.get(_MEMORY, self.memory), clone=clone)

    @property
    def acting(self) -> RaggedNet:
        """The network that is the run's agent."""
        return self.net if self.average is None else self.average


@dataclass(frozen=True)
class Content:
    """The content of a checkpoint, except for the states of the environments.

    Args:
        files: Tensors of each file, by the name of the file.
        of_rows: Files that belong to rows which continue, likewise.
        pending: Decisions whose outcome is still open; they belong to such rows, too.
        facts: Everything else, as JSON values.
        baseline: Returns of groups of rows which continue, as JSON values.
    """

    files: Mapping[str, Mapping[str, Tensor]]
    of_rows: Mapping[str, Mapping[str, Tensor]]
    pending: Decisions | None
    facts: Mapping[str, Any]
    baseline: Any

    @classmethod
    def of(cls, state: TrainState) -> Content:
        """Return the content for the present state, whose tensors it shares."""
        tensors, values, groups = _optimizer_parts(state.optimizers)
        generators = {f"generator/{n}": g.get_state() for n, g in state.generators.all().items()}
        files: dict[str, Mapping[str, Tensor]] = {
            MODEL: state.net.state_dict(),
            _OPTIMIZERS: tensors | generators | state.other_generators,
        }
        if state.average is not None:
            files[_AVERAGE] = state.average.state_dict()
        memories = state.memories.items()
        return cls(
            files,
            {name: {"states": own.states} for name, own in memories if own.states is not None},
            state.pending,
            {
                "update": state.update,
                "steps": state.steps,
                "device": state.generators.actions.device.type,
                "optimizers": {n: type(own).__name__ for n, own in state.optimizers.all().items()},
                "groups": groups,
                "optimizer_values": values,
                "players": state.players,
            },
            None if state.groups is None else state.groups.get_state(),
        )

    def copied(self) -> Content:
        """Return the same content with tensors and values that training does not change.

        Decisions and memory states are never changed in place.
        """
        files = {name: _copied(own) for name, own in self.files.items()}
        facts, baseline = json.loads(json.dumps([self.facts, self.baseline]))
        return replace(self, files=files, facts=facts, baseline=baseline)

    @property
    def steps(self) -> int:
        """The number of frames trained on."""
        return int(self.facts["steps"])


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    copies = [torch.empty_like(own) for own in tensors.values()]
    if copies:
        torch._foreach_copy_(copies, list(tensors.values()))  # few operations on a GPU
    return dict(zip(tensors, copies, strict=True))


def save_state(
    run: RunFolder, state: TrainState | Content, envs: list[Any] | None, keep: int
) -> Path:
    """Write a checkpoint, remove all but the last ``keep``, and return its folder.

    Args:
        run: Run folder.
        state: State to save.
        envs: State of the VecEnv; None if its environments cannot save theirs, so that the rows
            begin fresh episodes.
        keep: Number of checkpoints to keep.

    Raises:
        NonFiniteError: A parameter is NaN or infinite.
        CheckpointError: The disk is full or the folder is not writable; earlier checkpoints stay.
    """
    content = state if isinstance(state, Content) else Content.of(state)
    folder = run.checkpoints / _name_of(content.steps)
    if folder.exists():
        return folder  # this state was saved already
    _check_finite(content)
    files, facts = dict(content.files), {**content.facts, "envs": envs, "baseline": None}
    if envs is not None:
        files |= content.of_rows
        facts["baseline"] = content.baseline
        if content.pending is not None:
            files[_PENDING] = pending_to_tensors(content.pending)
    with _replaced(folder) as temporary:
        write_checkpoint(temporary, files, facts)
    remove_old_checkpoints(run, keep)
    return folder


def saved_at(run: RunFolder, steps: int) -> Path | None:
    """Return the checkpoint at ``steps``, or None."""
    folder = run.checkpoints / _name_of(steps)
    return folder if folder.exists() else None


def save_network(folder: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write a network without training state: its tensors, and facts about it as JSON.

    Raises:
        CheckpointError: The disk is full, or the folder is not writable.
    """
    with _replaced(folder) as temporary:
        write_checkpoint(temporary, {MODEL: tensors}, facts)


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """Give an empty folder that replaces ``folder`` at the end of the block."""
    temporary = fresh_name(folder)
    try:
        if folder.parent.is_symlink():
            raise OSError(f"{folder.parent} is a link: link the run's folder itself instead")
        # Never create the run folder: if it does not exist any more, its settings are lost, too.
        folder.parent.mkdir(exist_ok=True)
        temporary.mkdir()
        yield temporary
        remove(folder)
        temporary.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise CheckpointError(f"checkpoint {folder} cannot be written: {error}") from error
    finally:
        remove(temporary)  # free its space on a full disk


def _check_finite(content: Content) -> None:
    """Raise NonFiniteError if a parameter is not finite."""
    tensors = {name: own for file in content.files.values() for name, own in file.items()}
    floats = {name: own for name, own in tensors.items() if own.is_floating_point()}
    wrong = [name for name, tensor in floats.items() if not tensor.isfinite().all()]
    if wrong:
        raise NonFiniteError(
            "a parameter is not finite", expected="finite parameters", received=", ".join(wrong)
        )


def steps_of(folder: Path) -> int | None:
    """Return the steps in a folder name that ``save_state`` made, or None for another name."""
    found = _OURS.fullmatch(folder.name)
    return None if found is None else int(found[1])


def own_checkpoints(run: RunFolder) -> list[Path]:
    """Return the checkpoints that a run can resume from, oldest first, without copies.

    Raises:
        CheckpointError: The folder cannot be read.
    """
    try:
        names = [Path(entry.path) for entry in os.scandir(run.checkpoints) if entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{run.checkpoints} cannot be read: {error}") from error
    ours = {steps: folder for folder in names if (steps := steps_of(folder)) is not None}
    return [folder for _, folder in sorted(ours.items())]


def remove_old_checkpoints(run: RunFolder, keep: int) -> None:
    """Remove old checkpoints, and unfinished folders of killed processes."""
    for folder in own_checkpoints(run)[:-keep]:
        if not folder.is_symlink():
            remove(folder)
    for entry in list(os.scandir(run.checkpoints)):
        if is_leftover(entry.name):
            remove(Path(entry.path))


def latest_checkpoint(run: RunFolder) -> Path:
    """Return the folder of the newest complete checkpoint.

    Raises:
        CheckpointError: There is no checkpoint, or the folder cannot be read.
    """
    found = own_checkpoints(run)
    if not found:
        raise CheckpointError(
            f"run {str(run.path)!r} has no checkpoint yet",
            expected=f"a folder step_... in {run.checkpoints}",
            hint="start the run again, because nothing of it was saved",
        )
    return found[-1]


def locate_checkpoint(path: str | Path) -> tuple[RunFolder, Path]:
    """Return the run of a path, and its newest checkpoint.

    For ``<run>/best`` this is the best network, for ``<run>/snapshots/<name>`` that version, and
    for ``<run>:1`` that of policy 1 of a population.
    """
    path = named_policy(path)
    folder = path.absolute()  # otherwise a path such as "." has no parent
    run = RunFolder(folder.parent)
    if folder == run.best and (folder / MODEL).is_file():
        return RunFolder.open(run.path), folder
    kept = RunFolder(folder.parent.parent)
    if folder.parent == kept.snapshots and (folder / MODEL).is_file():
        return RunFolder.open(kept.path), folder
    run = RunFolder.open(path)
    return run, latest_checkpoint(run)


def network_of(
    folder: Path, obs_space: ObsSpace, action_space: Mapping[str, ActionSpace], config: TrainConfig
) -> RaggedNet:
    """Return a new network with these spaces and settings, for ``load_network``.

    Raises:
        CheckpointError: The checkpoint contains a much smaller network, or is damaged.
    """
    with _way_back(folder):
        return network_for(folder, obs_space, action_space, config)


def load_network(folder: Path, net: RaggedNet) -> None:
    """Load the parameters and input statistics of the agent in a checkpoint into ``net``.

    The agent is the average of the run's networks, if the run has one.

    Raises:
        CheckpointError: The checkpoint is damaged, or contains another network.
    """
    with _way_back(folder):
        saved = SavedFiles.open(folder)
        name = _AVERAGE if saved.has(_AVERAGE) else MODEL
        net.load_state_dict(_network_tensors(saved, net, name))


def _network_tensors(saved: SavedFiles, net: RaggedNet, file: str = MODEL) -> dict[str, Tensor]:
    expected = {name: TensorForm.of(tensor) for name, tensor in net.state_dict().items()}
    check_forms(saved.folder / file, saved.forms(file), expected)
    return saved.tensors(file)


@dataclass(frozen=True)
class Restored:
    """The parts of a checkpoint besides its ``TrainState``.

    Args:
        envs: State of the VecEnv; None if its environments did not save theirs.
        other_device: True if it was saved on another kind of device, whose random numbers differ;
            the generators then keep their initial states.
        players: State of self-play; None without self-play.
    """

    envs: list[Any] | None
    other_device: bool
    players: Any = None


def load_state(folder: Path, state: TrainState, rank: int = 0) -> Restored:
    """Load a checkpoint into ``state``, and return the rest of it.

    Args:
        folder: The checkpoint.
        state: Changed in place.
        rank: Number of this process among those of the training. A process that did not exist when
            the checkpoint was saved gets new random numbers.

    Raises:
        CheckpointError: The checkpoint is damaged, or belongs to other settings.
    """
    with _way_back(folder):
        saved = SavedFiles.open(folder)
        network = _network_tensors(saved, state.net)
        average = network
        if state.average is not None and saved.has(_AVERAGE):
            average = _network_tensors(saved, state.average, _AVERAGE)
        with _damage_named(folder):
            _check_optimizers(saved, state.optimizers)
        tensors = saved.tensors(_OPTIMIZERS)
        with _damage_named(folder):
            restored = _restore(saved, state, tensors, rank)
        state.net.load_state_dict(network)
        if state.average is not None:
            state.average.load_state_dict(average)
    return restored


def load_rows(
    folder: Path, state: TrainState, num_rows: int, share: tuple[int, int] | None = None
) -> None:
    """Load the parts that belong to the rows into ``state``, for rows that continue.

    These are decisions with an open outcome, memory states, and returns of groups.

    Args:
        folder: The checkpoint.
        state: Changed in place.
        num_rows: Number of rows R that were saved.
        share: First row of this process, and the number of its rows; None for all rows.

    Raises:
        CheckpointError: A file is missing or damaged, or belongs to other rows.
    """
    with _way_back(folder):
        saved = SavedFiles.open(folder)
        state.pending = None
        if saved.has(_PENDING):
            state.pending = pending_from_tensors(saved.tensors(_PENDING), state.net, num_rows)
            if share is not None:
                state.pending = state.pending.of_rows(*share)
        first, count = (0, num_rows) if share is None else share
        for name, own in state.memories.items():
            # A run that is longer now may need its clone again, which had no memory any more.
            if own.states is None or (name == _CLONE_MEMORY and not saved.has(name)):
                continue
            form = TensorForm.of(own.states)
            expected = {"states": replace(form, shape=(num_rows, *form.shape[1:]))}
            check_forms(folder / name, saved.forms(name), expected)
            states = saved.tensors(name)["states"]
            own.states = states[first : first + count].to(own.states.device)
        baseline = saved.facts.get("baseline")
        if state.groups is not None and baseline is not None:
            with _damage_named(folder):
                state.groups.set_state(baseline)


def _restore(
    saved: SavedFiles, state: TrainState, tensors: Mapping[str, Tensor], rank: int
) -> Restored:
    facts, steps = saved.facts, steps_of(saved.folder)
    state.update, state.steps = int(facts["update"]), int(facts["steps"])
    if min(state.update, state.steps) < 0 or steps not in (None, state.steps):
        raise ValueError(f"it was saved at update {state.update}, step {state.steps}")
    for name, optimizer in state.optimizers.all().items():
        groups = optimizer.state_dict()["param_groups"]
        if [own["params"] for own in groups] != [g["params"] for g in facts["groups"][name]]:
            raise ValueError(f"the optimizer {name!r} has other parameters")
            # The groups have the settings of the config, which a resume may change.
        values = facts["optimizer_values"].get(name, {})
        optimizer.load_state_dict(_optimizer_dict(name, tensors, values, groups))
    envs: list[Any] | None = facts["envs"]
    if envs is not None and not isinstance(envs, list):
        raise TypeError("the state of the environments is not a list")
    other_device = facts["device"] != state.generators.actions.device.type
    for name, generator in state.generators.all().items():
        if not (other_device and generator is state.generators.actions):
            saved_as = f"generator/{name}" + (f"/{rank}" if rank else "")
            if rank and saved_as not in tensors:
                generator.manual_seed(generator.initial_seed() + state.update)
            else:
                generator.set_state(tensors[saved_as])
    return Restored(envs, other_device, facts.get("players"))


def _check_optimizers(saved: SavedFiles, optimizers: Optimizers) -> None:
    """Raise CheckpointError unless the saved state is one that these optimizers can have."""
    kinds = {name: type(own).__name__ for name, own in optimizers.all().items()}
    if saved.facts.get("optimizers") != kinds:
        raise CheckpointError(
            f"{saved.folder / _OPTIMIZERS} belongs to other optimizers",
            expected=kinds,
            received=saved.facts.get("optimizers"),
            hint="a run keeps its optimizers",
        )
    forms = saved.forms(_OPTIMIZERS)
    expected = {name: form for name, form in forms.items() if name.startswith("generator/")}
    known = {name: _stepped(optimizer) for name, optimizer in optimizers.all().items()}
    for name in forms.keys() - expected.keys():
        owner, number = [*name.split("/"), ""][:2]
        if number.isdecimal() and int(number) < len(known.get(owner, ())):
            own = {k: v for k, v in known[owner][int(number)].items() if isinstance(v, Tensor)}
            expected |= {f"{owner}/{number}/{k}": TensorForm.of(v) for k, v in own.items()}
    check_forms(saved.folder / _OPTIMIZERS, forms, expected)
    for owner, parameters in saved.facts["optimizer_values"].items():
        for number, values in parameters.items():
            own = known[owner][int(number)]
            if any(type(value) is not type(own[name]) for name, value in values.items()):
                raise ValueError(f"the optimizer {owner!r} has another state: {shorten(values)}")


def _stepped(optimizer: Optimizer) -> list[dict[str, Any]]:
    """Return the state of each parameter after a step of a copy of the optimizer.

    Only a step shows which state an optimizer keeps.
    """
    other = copy.deepcopy(optimizer)
    parameters = _parameters(other)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    other.step()
    return [dict(other.state[parameter]) for parameter in parameters]


@contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"checkpoint {folder} is damaged or belongs to other settings: "
            f"{type(error).__name__}: {error}"
        ) from error


@contextmanager
def _way_back(folder: Path) -> Iterator[None]:
    """Add a hint to errors of a checkpoint without one: an older checkpoint that is complete."""
    try:
        yield
    except CheckpointError as error:
        if error.hint is None:
            error.hint = _older_whole(folder)
        raise


def _older_whole(folder: Path) -> str:
    steps, run = steps_of(folder), RunFolder(folder.parent.parent)
    if steps is None:
        return "nothing resumes from it; the run has other checkpoints"
    for older in reversed(own_checkpoints(run)):
        if steps_of(older) < steps and _is_whole(older):  # type: ignore[operator]
            return (
                f"{older} is complete: to resume from it, move {folder.name} away, such as by "
                "adding _damaged to its name, and try again"
            )
    return "no older checkpoint is complete: begin the run again, or restore this one from a backup"


def _is_whole(folder: Path) -> bool:
    try:
        saved = SavedFiles.open(folder)
        saved.check()
        return all(saved.forms(name) for name in (MODEL, _OPTIMIZERS))
    except CheckpointError:
        return False


def _name_of(steps: int) -> str:
    return f"step_{steps:012d}"


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    """Return the parameters in the order in which an optimizer numbers them."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _optimizer_parts(
    optimizers: Optimizers,
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """Return the state of the optimizers, which need not be those of this package.

    Returns:
        All tensors by ``name/parameter/key``; other values as JSON values, by these three; and the
        settings of the groups, of which a resume takes the parameters only.
    """
    tensors, values, groups = dict[str, Tensor](), dict[str, Any](), dict[str, Any]()
    for name, optimizer in optimizers.all().items():
        state = optimizer.state_dict()
        groups[name] = [{"params": group["params"]} for group in state["param_groups"]]
        values[name] = {}
        for parameter, own in state["state"].items():
            for key, value in own.items():
                if isinstance(value, Tensor):
                    tensors[f"{name}/{parameter}/{key}"] = value
                elif value is None or isinstance(value, bool | int | float | str):
                    values[name].setdefault(str(parameter), {})[key] = value
                else:
                    raise CheckpointError(
                        f"the state {key!r} of {type(optimizer).__name__} cannot be saved",
                        expected="tensors, numbers, texts or None",
                        received=type(value).__name__,
                    )
    return tensors, values, groups


def _optimizer_dict(
    name: str, tensors: Mapping[str, Tensor], values: Mapping[str, Any], groups: list[Any]
) -> dict[str, Any]:
    state = {int(parameter): dict(own) for parameter, own in values.items()}
    for path, tensor in tensors.items():
        owner, *rest = path.split("/")
        if owner == name:
            state.setdefault(int(rest[0]), {})[rest[1]] = tensor
    return {"state": state, "param_groups": groups}
