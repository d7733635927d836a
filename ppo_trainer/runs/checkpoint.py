"""Checkpoints of a run, as files of ``saved_files``; reading them runs no code.

A checkpoint is a folder that is written under a temporary name and renamed when it is complete, so
that a kill at any moment leaves the previous checkpoint. Of several processes the first one writes
the rows of all.
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

import numpy as np
import safetensors.torch
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode

from entity_env import ActionSpace, ObsSpace, VecEnv
from entity_env.errors import CheckpointError, EntityEnvError, NonFiniteError, shorten
from entity_env.storage.files import is_leftover, remove
from ppo_trainer.algorithms.clone import Clone
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.experience.acting_graph import ActingGraphs
from ppo_trainer.experience.pending import pending_from_tensors, pending_to_tensors
from ppo_trainer.experience.rollout import Decisions
from ppo_trainer.learner.optimizers import Optimizers
from ppo_trainer.learner.step_graph import StepGraphs
from ppo_trainer.machine.graphs import Graphs
from ppo_trainer.machine.ranks import Ranks
from ppo_trainer.machine.seeding import Generators
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.runs.folder import RunFolder, named_policy
from ppo_trainer.runs.saved_files import SavedFiles, TensorForm, write_files
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
    "with_all_rows",
]

MODEL = "model.safetensors"
_OPTIMIZERS = "optimizers.safetensors"
_PENDING = "pending.safetensors"  # only if decisions have an open outcome
_AVERAGE = "average.safetensors"  # only if the run's agent is an average
_MEMORY = "memory.safetensors"  # only for a network with a memory, if the rows can continue
_CLONE_MEMORY = "clone_memory.safetensors"
_OTHER_TENSORS = 100
"""Number of tensors that a network may make besides those that are saved."""
_OTHER_NETWORK = "net, value_net and the environment's spaces must be those of the run"
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
        memories = {} if self.memory is None else {_MEMORY: self.memory}
        return memories if self.clone is None else {**memories, _CLONE_MEMORY: self.clone.memory}

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
    """

    files: Mapping[str, Mapping[str, Tensor]]
    of_rows: Mapping[str, Mapping[str, Tensor]]
    pending: Decisions | None
    facts: Mapping[str, Any]

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
            {
                name: {"states": memory.states}
                for name, memory in memories
                if memory.states is not None
            },
            state.pending,
            {
                "update": state.update,
                "steps": state.steps,
                "device": state.generators.actions.device.type,
                "optimizers": {
                    n: type(optimizer).__name__ for n, optimizer in state.optimizers.all().items()
                },
                "groups": groups,
                "optimizer_values": values,
                "players": state.players,
            },
        )

    def copied(self) -> Content:
        """Return the same content with tensors and values that training does not change.

        Decisions and memory states are never changed in place.
        """
        files = {name: _copied(tensors) for name, tensors in self.files.items()}
        return replace(self, files=files, facts=json.loads(json.dumps(self.facts)))

    @property
    def steps(self) -> int:
        """The number of frames trained on."""
        return int(self.facts["steps"])


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    copies = [torch.empty_like(tensor) for tensor in tensors.values()]
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
    files, facts = dict(content.files), {**content.facts, "envs": envs}
    if envs is not None:
        files |= content.of_rows
        if content.pending is not None:
            files[_PENDING] = pending_to_tensors(content.pending)
    write_files(folder, files, facts)
    remove_old_checkpoints(run, keep)
    return folder


def with_all_rows(
    ranks: Ranks, state: TrainState, vec_env: VecEnv
) -> tuple[TrainState, list[Any] | None]:
    """Return the state that a single process with all rows would save, and that of its rows.

    All processes must call this at the same time; the result is complete in the first one only.
    """
    mine = {f"generator/{n}": g.get_state() for n, g in state.generators.all().items()}
    if state.pending is not None:
        pending = pending_to_tensors(state.pending)
        mine |= {f"pending/{name}": tensor for name, tensor in pending.items()}
    for name, memory in state.memories.items():
        if memory.states is not None:
            mine[f"memory/{name}"] = memory.states.cpu()
    packed = torch.from_numpy(np.frombuffer(safetensors.torch.save(mine), np.uint8).copy())
    every = [safetensors.torch.load(part.numpy().tobytes()) for part in ranks.gathered(packed)]
    saved = ranks.gathered_json(vec_env.get_state() if vec_env.has_state() else None)
    counts = [part[0] for part in ranks.gathered_json([len(vec_env)])]
    if not ranks.is_first:
        return state, None
    waiting = []
    for first, count, tensors in zip(np.cumsum([0, *counts]), counts, every, strict=False):
        named = {
            k.removeprefix("pending/"): t for k, t in tensors.items() if k.startswith("pending/")
        }
        if named:
            pending_there = pending_from_tensors(named, state.net, count)
            waiting.append(replace(pending_there, rows=pending_there.rows + int(first)))
    joined = {
        name: memory.with_states(torch.cat([tensors[f"memory/{name}"] for tensors in every]))
        for name, memory in state.memories.items()
        if memory.states is not None
    }
    others = {
        f"{name}/{rank}": tensor
        for rank, tensors in enumerate(every[1:], start=1)
        for name, tensor in tensors.items()
        if name.startswith("generator/")
    }
    whole = replace(
        state.with_memories(joined),
        pending=Decisions.cat(waiting) if waiting else None,
        other_generators=others,
    )
    envs = None if None in saved else [row for part in saved for row in part]
    return whole, envs


def saved_at(run: RunFolder, steps: int) -> Path | None:
    """Return the checkpoint at ``steps``, or None."""
    folder = run.checkpoints / _name_of(steps)
    return folder if folder.exists() else None


def save_network(folder: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write a network without training state: its tensors, and facts about it as JSON.

    Raises:
        CheckpointError: The disk is full, or the folder is not writable.
    """
    write_files(folder, {MODEL: tensors}, facts)


def _check_finite(content: Content) -> None:
    """Raise NonFiniteError if a parameter is not finite."""
    tensors = {name: tensor for file in content.files.values() for name, tensor in file.items()}
    floats = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
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

    The settings and spaces in a run folder are not trusted: a single number in them could take all
    memory. The network is therefore built without numbers first, and compared with the file.

    Raises:
        CheckpointError: The checkpoint contains another network, or is damaged.
    """
    with _explained(folder):
        forms = SavedFiles.open(folder).forms(MODEL)
        with torch.device("meta"), _WithoutNumbers(len(forms)):
            try:
                sized = RaggedNet(obs_space, action_space, config.net, config.value_config)
            except (ArithmeticError, RuntimeError, TypeError) as error:
                raise CheckpointError(
                    f"{folder / MODEL} belongs to another network: {error}", hint=_OTHER_NETWORK
                ) from error
        _check_forms(folder / MODEL, forms, _forms_of(sized.state_dict()))
    return RaggedNet(obs_space, action_space, config.net, config.value_config)


class _WithoutNumbers(TorchFunctionMode):
    """Leaves out the initial numbers of a network, and stops one with too many tensors.

    Args:
        saved: Number of tensors in the file.
    """

    def __init__(self, saved: int) -> None:
        super().__init__()
        self._left = saved + _OTHER_TENSORS

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        draws = getattr(func, "__name__", "") in ("normal_", "uniform_")
        if draws or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        self._left -= func is torch.empty
        if self._left < 0:
            raise RuntimeError("it has fewer tensors")
        return func(*args, **(kwargs or {}))


def load_network(folder: Path, net: RaggedNet) -> None:
    """Load the parameters and input statistics of the agent in a checkpoint into ``net``.

    The agent is the average of the run's networks, if the run has one.

    Raises:
        CheckpointError: The checkpoint is damaged, or contains another network.
    """
    with _explained(folder):
        saved = SavedFiles.open(folder)
        name = _AVERAGE if saved.has(_AVERAGE) else MODEL
        net.load_state_dict(_network_tensors(saved, net, name))


def _network_tensors(saved: SavedFiles, net: RaggedNet, file: str = MODEL) -> dict[str, Tensor]:
    _check_forms(saved.folder / file, saved.forms(file), _forms_of(net.state_dict()))
    return saved.tensors(file)


def _forms_of(tensors: Mapping[str, Tensor]) -> dict[str, TensorForm]:
    return {name: TensorForm.of(tensor) for name, tensor in tensors.items()}


def _check_forms(
    path: Path, found: Mapping[str, TensorForm], expected: Mapping[str, TensorForm]
) -> None:
    """Raise CheckpointError unless a file contains exactly the expected tensors."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found or name not in expected:
            raise CheckpointError(
                f"{path} belongs to another network",
                expected=f"{name!r} {'not ' if name in found else ''}to be there",
                hint=_OTHER_NETWORK,
            )
        if found[name] != expected[name]:
            what = "shape" if found[name].shape != expected[name].shape else "dtype"
            raise CheckpointError(
                f"{path} belongs to another network: {name!r} differs in {what}",
                expected=expected[name],
                received=found[name],
                hint=_OTHER_NETWORK,
            )


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
    with _explained(folder):
        saved = SavedFiles.open(folder)
        network = _network_tensors(saved, state.net)
        average = network
        if state.average is not None and saved.has(_AVERAGE):
            average = _network_tensors(saved, state.average, _AVERAGE)
        _check_optimizers(saved, state.optimizers)
        restored = _restore(saved, state, saved.tensors(_OPTIMIZERS), rank)
        state.net.load_state_dict(network)
        if state.average is not None:
            state.average.load_state_dict(average)
    return restored


def load_rows(
    folder: Path, state: TrainState, num_rows: int, share: tuple[int, int] | None = None
) -> None:
    """Load the parts that belong to the rows into ``state``, for rows that continue.

    These are decisions with an open outcome, and memory states.

    Args:
        folder: The checkpoint.
        state: Changed in place.
        num_rows: Number of rows R that were saved.
        share: First row of this process, and the number of its rows; None for all rows.

    Raises:
        CheckpointError: A file is missing or damaged, or belongs to other rows.
    """
    with _explained(folder):
        saved = SavedFiles.open(folder)
        state.pending = None
        if saved.has(_PENDING):
            state.pending = pending_from_tensors(saved.tensors(_PENDING), state.net, num_rows)
            if share is not None:
                state.pending = state.pending.of_rows(*share)
        first, count = (0, num_rows) if share is None else share
        for name, memory in state.memories.items():
            # A run that is longer now may need its clone again, which had no memory any more.
            if memory.states is None or (name == _CLONE_MEMORY and not saved.has(name)):
                continue
            form = TensorForm.of(memory.states)
            expected = {"states": replace(form, shape=(num_rows, *form.shape[1:]))}
            _check_forms(folder / name, saved.forms(name), expected)
            states = saved.tensors(name)["states"]
            memory.states = states[first : first + count].to(memory.states.device)


def _restore(
    saved: SavedFiles, state: TrainState, tensors: Mapping[str, Tensor], rank: int
) -> Restored:
    facts, steps = saved.facts, steps_of(saved.folder)
    state.update, state.steps = int(facts["update"]), int(facts["steps"])
    if min(state.update, state.steps) < 0 or steps not in (None, state.steps):
        raise ValueError(f"it was saved at update {state.update}, step {state.steps}")
    for name, optimizer in state.optimizers.all().items():
        groups = optimizer.state_dict()["param_groups"]
        if [group["params"] for group in groups] != [g["params"] for g in facts["groups"][name]]:
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
    kinds = {name: type(optimizer).__name__ for name, optimizer in optimizers.all().items()}
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
            state = {k: v for k, v in known[owner][int(number)].items() if isinstance(v, Tensor)}
            expected |= {f"{owner}/{number}/{k}": TensorForm.of(v) for k, v in state.items()}
    _check_forms(saved.folder / _OPTIMIZERS, forms, expected)
    for owner, parameters in saved.facts["optimizer_values"].items():
        for number, values in parameters.items():
            state = known[owner][int(number)]
            if any(type(value) is not type(state[name]) for name, value in values.items()):
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
def _explained(folder: Path) -> Iterator[None]:
    """Turn errors in a checkpoint into CheckpointError, which names an older one to resume from."""
    try:
        yield
    except CheckpointError as error:
        error.hint = error.hint or _older(folder)
        raise
    except EntityEnvError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"checkpoint {folder} is damaged or belongs to other settings: "
            f"{type(error).__name__}: {error}",
            hint=_older(folder),
        ) from error


def _older(folder: Path) -> str:
    """Return a hint on the checkpoint before one that cannot be read."""
    steps = steps_of(folder)
    if steps is None:
        return "nothing resumes from it; the run has other checkpoints"
    found = own_checkpoints(RunFolder(folder.parent.parent))
    before = [other for other in found if (steps_of(other) or 0) < steps]
    if not before:
        return "there is no older checkpoint: begin the run again, or restore this one"
    return (
        f"to resume from {before[-1]}, move {folder.name} away, such as by adding _damaged to its "
        "name, and try again"
    )


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
        for parameter, parameter_state in state["state"].items():
            for key, value in parameter_state.items():
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
    state = {
        int(parameter): dict(parameter_values) for parameter, parameter_values in values.items()
    }
    for path, tensor in tensors.items():
        owner, *rest = path.split("/")
        if owner == name:
            state.setdefault(int(rest[0]), {})[rest[1]] = tensor
    return {"state": state, "param_groups": groups}
