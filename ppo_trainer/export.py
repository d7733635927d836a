"""Write a run's network for other runtimes: ``python -m ppo_trainer.export <run> policy.onnx``.

``policy.onnx`` runs in ONNX Runtime: in browsers, on phones and in game engines. ``policy.pt2`` is
read by ``torch.export.load``. ``ragged_net/export.py`` has a table of inputs and outputs. Before a
file is written, its outputs are compared with those of the network, in frames of many shapes.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from entity_env.errors import ExportError, MissingPackageError, RunFolderError
from entity_env.storage.files import new_file_by_path, write_file
from ppo_trainer.machine.commands import command_parser, run_main
from ppo_trainer.machine.screen import log
from ppo_trainer.runs.load_run import network_of_run
from ragged_net import (
    CategoricalActors,
    ContinuousActors,
    EntityBatch,
    NetOutput,
    RaggedNet,
    RaggedTensor,
    SelectActors,
)
from ragged_net.actors import Actors
from ragged_net.export import ActingGraph
from ragged_net.heads.categorical import CategoricalDist

__all__ = ["CHECKED_SHAPES", "Exported", "export_run", "largest_difference", "main", "random_batch"]

TOLERANCE = 1e-4
"""Maximum difference from the network, relative for numbers above 1."""
CHECKED_SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (0,),
    (1,),
    (2,),
    (500,),
    (0, 1),
    (3, 0, 0, 2),
    (1, 1, 1, 1, 1),
    (40, 3, 11),
    tuple(range(12)),
)
"""Numbers of entities in each frame of a batch; types are drawn five times for each batch."""

_LEAST = -30.0
"""Log-probability below which logits are not compared."""

Run = Callable[[Mapping[str, Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class Exported:
    """The file that ``export_run`` wrote.

    Args:
        path: Path of the file.
        inputs: Names of the graph's inputs.
        outputs: Names of the graph's outputs.
        shapes: Number of batches on which the graph was compared with the network.
        difference: Largest difference from the network, relative for numbers above 1.
        size: Size of the file, in bytes.
    """

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: int
    difference: float
    size: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.size:,} bytes, within {self.difference:.1e} of the network on "
            f"{self.shapes} batches\n  inputs:  {', '.join(self.inputs)}\n"
            f"  outputs: {', '.join(self.outputs)}"
        )


def export_run(run: str | Path, path: str | Path) -> Exported:
    """Export the newest network of a run, or the best one of ``<run>/best``, to a file.

    No code that the run names is imported.

    Args:
        run: Run folder.
        path: File to write, ``.onnx`` (needs the extra ``export``) or ``.pt2``.

    Raises:
        ExportError: The network cannot be exported, a package is missing, or the graph's outputs
            differ from those of the network; then no file is written.
        RunFolderError: The folder is not a run, or the path has another suffix.
    """
    path = Path(path)
    if path.suffix not in (".onnx", ".pt2"):
        raise RunFolderError(
            f"{str(path)!r} is not the name of an export format",
            expected="a name that ends with .onnx, or with .pt2 for torch.export",
        )
    net = network_of_run(run, "cpu").eval()
    graph = ActingGraph(net)
    with _quiet():
        if path.suffix == ".onnx":
            data = graph.to_onnx()
            difference, shapes = largest_difference(graph, _onnx_runner(data, graph))
            write_file(path, data)
        else:
            program = graph.to_program()
            module = program.module()
            difference, shapes = largest_difference(graph, lambda given: module(*given.values()))
            with new_file_by_path(path) as file:
                torch.export.save(program, file)
    size = path.stat().st_size
    return Exported(path, graph.inputs, graph.outputs, shapes, difference, size)


@torch.no_grad()
def largest_difference(graph: ActingGraph, run: Run, draws: int = 5) -> tuple[float, int]:
    """Return the largest difference between a runtime and the network.

    Args:
        graph: Graph that was exported, in eval mode.
        run: Function that runs the exported graph and returns the outputs in their order.
        draws: Number of batches for each of ``CHECKED_SHAPES``.

    Returns:
        The largest difference of logits, means, deviations, values and states, relative for numbers
        above 1; and the number of batches.

    Raises:
        ExportError: The difference is above 1e-4, or other choices are forbidden.
    """
    net, generator, largest, batches = graph.net, torch.Generator().manual_seed(0), 0.0, 0
    for lengths in CHECKED_SHAPES:
        for _ in range(draws):
            batch = random_batch(net, lengths, generator)
            state = None
            if net.memory is not None:
                state = torch.randn(len(lengths), net.memory.state_size, generator=generator)
            given = graph.inputs_of(batch, state)
            got = dict(zip(graph.outputs, run(given), strict=True))
            expected = _expected(net, net(batch, memory=state, greedy=True), batch, got)
            for name, (mine, theirs) in expected.items():
                scale = theirs.abs().clamp_min(1.0)
                difference = float(((mine - theirs) / scale).abs().max()) if len(mine) else 0.0
                if not difference <= TOLERANCE:
                    raise ExportError(
                        f"the exported graph differs from the network in {name!r}, "
                        f"in a batch with frames of {list(lengths)} entities",
                        expected=f"a difference of at most {TOLERANCE:g}",
                        received=f"{difference:g}",
                    )
                largest = max(largest, difference)
            batches += 1
    return largest, batches


def _expected(
    net: RaggedNet, output: NetOutput, batch: EntityBatch, got: Mapping[str, Tensor]
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the computed and the expected values of each output, in comparable units."""
    pairs = {"value": (got["value"], output.value)}
    if output.memory is not None:
        pairs["next_memory"] = (got["next_memory"], output.memory)
    for name, action in output.actions.items():
        if action.mean is not None and action.std is not None:
            pairs[f"{name}/mean"] = got[f"{name}/mean"], action.mean
            pairs[f"{name}/std"] = got[f"{name}/std"], action.std
            continue
        logits = got[f"{name}/logits"]
        if not logits.numel():
            continue
        log_probs = CategoricalDist(logits, logits > float("-inf")).log_probs
        expected = action.probs
        if isinstance(expected, RaggedTensor):
            log_probs, expected = log_probs[_same_frame(batch.actions[name])], expected.values
        assert expected is not None
        # Forbidden choices have -inf in both; logits below this bound are treated as equal.
        pairs[f"{name}/logits"] = log_probs.clamp_min(_LEAST), expected.log().clamp_min(_LEAST)
    return pairs


def _same_frame(action: Actors) -> Tensor:
    """Return a mask (A, E) of the pairs within one frame, whose rows are a batch's pairs."""
    assert isinstance(action, SelectActors)
    return action.actors.frame_ids()[:, None] == action.actees.frame_ids()[None, :]


def random_batch(net: RaggedNet, lengths: Sequence[int], generator: torch.Generator) -> EntityBatch:
    """Return random frames, in which each entity has a random type and half of them are actors.

    Args:
        net: Network whose spaces and input statistics determine the entities and their features.
        lengths: Number of entities of each frame. Shape: (B,).
        generator: Random number generator on the CPU.
    """
    space, frames = net.obs_space, len(lengths)
    names = [name for name in space.entities if name not in space.grids]
    total = sum(lengths) if names else 0
    kinds = torch.randint(max(1, len(names)), (total,), generator=generator)
    frame_of = torch.arange(frames).repeat_interleave(torch.tensor(lengths, dtype=torch.int64))
    entities = {}
    embedding: Any = net.encoder.embedding
    for name, embed in zip(space.entities, embedding.types, strict=True):
        if name in space.grids:
            shown = torch.rand(frames, generator=generator) < 0.5
            counts = shown * space.grids[name].size
        else:
            where = frame_of[: len(kinds)][kinds == names.index(name)]
            counts = torch.bincount(where, minlength=frames)[:frames]
        rows = _random_rows(embed, int(counts.sum()), generator)
        entities[name] = RaggedTensor.from_lengths(rows, counts)
    global_features = torch.zeros(frames, 0)
    if space.global_features:
        global_features = _random_rows(embedding.global_type, frames, generator)
    # No action names a cell.
    named = [
        torch.cat(
            [torch.zeros(0, dtype=torch.bool)]
            + [
                torch.full((int(rows.lengths[b]),), kind in names)
                for kind, rows in entities.items()
            ]
        )
        for b in range(frames)
    ]
    actions = {
        name: _random_actors(action, named, generator) for name, action in net.action_space.items()
    }
    return EntityBatch(entities, global_features, {}, actions)


def _random_rows(embed: Any, count: int, generator: torch.Generator) -> Tensor:
    """Return features (count, F) drawn according to the network's input statistics."""
    norm, embed = embed.norm, getattr(embed, "cells", embed)
    rows = torch.zeros(count, norm.width)
    drawn = torch.randn(count, norm.num_columns, generator=generator)
    rows[:, norm.columns] = norm.shift + drawn / norm.scale.clamp_min(1e-6)
    for column, feature in embed.discrete:
        rows[:, column] = torch.randint(feature.n, (count,), generator=generator).float()
    return rows


def _random_actors(space: Any, named: Sequence[Tensor], generator: torch.Generator) -> Actors:
    """Return random actors; of each frame ``named`` (E,) has True for entities that may act."""
    if space.is_global:
        # The global entity comes last in each frame.
        last = torch.tensor([len(entities) for entities in named], dtype=torch.int64)
        who = RaggedTensor.from_lengths(last, [1] * len(named))
    else:
        who = _listed(
            [indices[_random_half(indices, generator)] for indices in map(_indices, named)]
        )
    if not space.selects:
        if not space.picks_one:
            return ContinuousActors(who)
        return CategoricalActors(who, _random_mask(who.num_rows, len(space), generator))
    every = [_indices(entities) for entities in named]
    actees = _listed(
        [indices[torch.randperm(len(indices), generator=generator)] for indices in every]
    )
    pairs = [
        _random_mask(int(count), len(indices), generator).flatten()
        for count, indices in zip(who.lengths, every, strict=True)
    ]
    return SelectActors(who, actees, _listed(pairs, torch.bool))


def _indices(mask: Tensor) -> Tensor:
    return mask.nonzero().squeeze(1)


def _random_half(indices: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(len(indices), generator=generator) < 0.5


def _listed(parts: Sequence[Tensor], dtype: torch.dtype = torch.int64) -> RaggedTensor:
    values = torch.cat([torch.zeros(0, dtype=dtype), *parts])
    return RaggedTensor.from_lengths(values, [len(part) for part in parts])


def _random_mask(actors: int, choices: int, generator: torch.Generator) -> Tensor:
    """Return a random mask (A, C) with at least one True in each row."""
    mask = torch.rand(actors, choices, generator=generator) < 0.6
    if choices:
        mask[:, 0] |= ~mask.any(1)
    return mask


def _onnx_runner(data: bytes, graph: ActingGraph) -> Run:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError(
            "checking the exported file needs the package onnxruntime, which is not installed",
            hint='pip install "ragged-rl[export]"',
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def run(given: Mapping[str, Tensor]) -> Sequence[Tensor]:
        arrays = {name: tensor.numpy() for name, tensor in given.items()}
        return [torch.from_numpy(one) for one in session.run(list(graph.outputs), arrays)]

    return run


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's messages about packages that are not needed here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("export", __doc__, trusts=False)
    parser.add_argument("run", help="run folder, or <run>/best")
    parser.add_argument("path", help="file to write: policy.onnx or policy.pt2")
    options: dict[str, Any] = vars(parser.parse_args(arguments))
    log(str(export_run(**options)), is_read=True)


if __name__ == "__main__":
    run_main(main)
