"""A network's acting path as a graph of plain tensors, for ONNX, torch.export and other runtimes.

    graph = ActingGraph(net)
    Path("policy.onnx").write_bytes(graph.to_onnx())  # extra: export
    torch.export.save(graph.to_program(), "policy.pt2")

Its inputs and outputs are named tensors with dynamic sizes, 0 included: B frames, N entities of a
type, A actors, E entities that can be selected.

=====================  =================  ========================================================
input                  shape              meaning
=====================  =================  ========================================================
``<type>/features``    (N, F) float32     features of the entities of that type, frame by frame
``<type>/lengths``     (B,) int64         number of entities of that type in each frame
``<grid>/features``    (M, H*W, F)        features of the cells in the M frames that show a ``Grid``
``<grid>/lengths``     (B,) int64         H * W in these frames, 0 in the others
``global``             (B, G) float32     global features; only if the space has some
``<action>/actors``    (A,) int64         entity index within the frame, counted in the order of the
                                          entity types; not for a global action
``<action>/lengths``   (B,) int64         number of actors in each frame; not for a global action
``<action>/mask``      (A, C) bool        categorical actions: allowed choices; (B, C) for a global
                                          one. Selections: (A, E), actees that may be selected
``<action>/actees``    (E,) int64         selections: entity index within the frame
``<action>/actee_lengths`` (B,) int64     selections: number of actees in each frame
``memory``             (B, W) float32     networks with a memory: its state, zeros for a new game
=====================  =================  ========================================================

=====================  =================  ========================================================
output                 shape              meaning
=====================  =================  ========================================================
``<action>/logits``    (A, C) or (A, E)   log-probabilities up to a constant for each actor, -inf if
                                          forbidden by the mask, or in another frame; (B, C) for a
                                          global action
``<action>/mean``      (A, K)             continuous actions: means before clipping to the bounds
``<action>/std``       (A, K)             continuous actions: standard deviations before clipping
``value``              (B,)               value of each frame
``next_memory``        (B, W)             memory state for the next frames
=====================  =================  ========================================================

Entities that are hidden from the policy must be left out. The graph is the network's own pass, with
attention between all pairs of entities of a call and a mask between frames, so that the cost of a
call is quadratic in the number of entities. It is meant for one frame, or a few, at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from entity_env.errors import BatchError, ExportError
from entity_env.spaces import Grid
from ragged_net.batch import EntityBatch
from ragged_net.heads import head_kind
from ragged_net.heads.kind import Sizes
from ragged_net.kernels import for_any_sizes
from ragged_net.network import RaggedNet
from ragged_net.ragged import RaggedTensor, offsets_of
from ragged_net.tensor_checks import check_kind

__all__ = ["ActingGraph"]

OPSET = 18
"""Version of ONNX's operations, which every runtime since 2023 supports."""


@dataclass(frozen=True)
class _Input:
    """An input of the graph.

    Args:
        name: Its name.
        shape: The names or sizes of its dimensions.
        dtype: Its dtype.
        spare: Its value in the spare frame.
    """

    name: str
    shape: Sizes
    dtype: torch.dtype
    spare: int = 0

    def with_spare(self, tensor: Tensor) -> Tensor:
        """Return the input with the rows of one more frame.

        With a spare frame, which has an entity of each type, no size is ever 0.
        """
        for axis, size in enumerate(self.shape):
            if isinstance(size, str):
                shape = [*tensor.shape[:axis], 1, *tensor.shape[axis + 1 :]]
                tensor = torch.cat([tensor, tensor.new_full(shape, self.spare)], axis)
        return tensor


class ActingGraph(nn.Module):
    """The outputs of ``net`` as a function of plain tensors; shares its weights.

    Args:
        net: The network.

    Attributes:
        inputs: Names of the inputs, in the order of ``forward``'s arguments.
        outputs: Names of the outputs, in the order of ``forward``'s results.

    Raises:
        ExportError: The network has a part that export does not support.
    """

    def __init__(self, net: RaggedNet) -> None:
        super().__init__()
        check_kind("the network to export", net, RaggedNet)
        _refuse(net)
        self.net = net
        self._inputs = _inputs_of(net)
        self._outputs = _outputs_of(net)
        self.inputs, self.outputs = tuple(one.name for one in self._inputs), tuple(self._outputs)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs, for the inputs in their order."""
        with for_any_sizes():
            given = {
                one.name: one.with_spare(tensor)
                for one, tensor in zip(self._inputs, tensors, strict=True)
            }
            entities = {
                name: _framed(given[f"{name}/features"], given[f"{name}/lengths"])
                for name in self.net.obs_space.entities
            }
            some = next(iter(entities.values()), None)
            global_features = given.get("global")
            if global_features is None:
                assert some is not None
                global_features = some.values.new_zeros(some.num_frames, 0)
            actions, pairs = {}, {}
            for name, space in self.net.action_space.items():
                kind, parts = head_kind(space), _parts_of(name, given)
                if space.is_global:
                    actors = _last_rows(entities, global_features)
                else:
                    actors = _framed(parts.pop("actors"), parts.pop("lengths"))
                actions[name], pairs_of_action = kind.from_tensors(actors, parts)
                if pairs_of_action is not None:
                    pairs[name] = pairs_of_action
            batch = EntityBatch(entities, global_features, {}, actions)
            dists, value, state = self.net.distributions(batch, pairs, given.get("memory"))
            results: list[Tensor] = []
            for name, space in self.net.action_space.items():
                results += head_kind(space).outputs(dists[name])
            results += [value] if state is None else [value, state]
            return tuple(map(_without_spare, results, self._outputs.values()))

    def inputs_of(self, batch: EntityBatch, memory: Tensor | None = None) -> dict[str, Tensor]:
        """Return the inputs by name for ``batch``, which must not have hidden entities.

        Args:
            batch: B frames.
            memory: State before each frame, required by a network with a memory. Shape: (B, W).

        Raises:
            ExportError: The batch has hidden entities, or a global action in some of its frames
                only.
            BatchError: The state of the memory is missing.
        """
        check_kind("the batch", batch, EntityBatch)
        if any(not bool(mask.all()) for mask in batch.visible.values()):
            raise ExportError(
                "an exported network does not support hidden entities",
                expected="a batch without the hidden entities, which the policy does not see",
            )
        found: dict[str, Tensor] = {"global": batch.global_features}
        for name, rows in batch.entities.items():
            values, grid = rows.values, self.net.obs_space.grids.get(name)
            if grid is not None:
                values = values.view(len(values) // grid.size, grid.size, values.shape[1])
            found |= {f"{name}/features": values, f"{name}/lengths": rows.lengths}
        for name, action in batch.actions.items():
            space = self.net.action_space[name]
            if space.is_global:
                _check_all_act(name, action.actors.num_rows, batch.num_frames)
            parts = {"actors": action.actors.values, "lengths": action.actors.lengths}
            parts |= head_kind(space).tensors(action)
            found |= {f"{name}/{part}": tensor for part, tensor in parts.items()}
        if memory is not None:
            found["memory"] = memory
        for name in self.inputs:
            if name not in found:
                raise BatchError(f"the batch lacks {name!r}", options=self.inputs)
        return {name: found[name] for name in self.inputs}

    def to_program(self) -> torch.export.ExportedProgram:
        """Return the graph as a program of ``torch.export``, with all sizes dynamic."""
        dims: dict[str, Any] = {}
        shapes = tuple(
            {
                k: dims.setdefault(size, torch.export.Dim(size))
                for k, size in enumerate(one.shape)
                if isinstance(size, str)
            }
            for one in self._inputs
        )
        was_training = self.training
        try:
            with torch.no_grad():
                return torch.export.export(
                    self.eval(), self._example(), dynamic_shapes=(shapes,), strict=False
                )
        finally:
            self.train(was_training)

    def to_onnx(self) -> bytes:
        """Return the graph as a file of ONNX.

        Raises:
            ExportError: The packages of the extra ``export`` are not installed.
        """
        if find_spec("onnxscript") is None or find_spec("onnx") is None:
            raise ExportError(
                "ONNX files need the packages onnx and onnxscript, which are not installed",
                hint='pip install "ragged-rl[export]"',
            )
        program = torch.onnx.export(
            self.to_program(),
            (),
            input_names=list(self.inputs),
            output_names=list(self.outputs),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
        assert program is not None  # for the type checker
        data: bytes = program.model_proto.SerializeToString()
        return data

    def _example(self) -> tuple[Tensor, ...]:
        """Return example inputs, without sizes 0 and 1, which would become constants."""
        counts: dict[str, int] = {}
        device = next(self.net.parameters()).device
        example = []
        for one in self._inputs:
            sizes = [
                counts.setdefault(size, _FRAMES if size == _B else _EACH * _FRAMES + len(counts))
                if isinstance(size, str)
                else size
                for size in one.shape
            ]
            if one.dtype == torch.bool:
                example.append(torch.ones(sizes, dtype=torch.bool, device=device))
            elif one.name.endswith("lengths"):
                example.append(torch.full(sizes, _EACH, dtype=torch.int64, device=device))
            else:
                example.append(torch.zeros(sizes, dtype=one.dtype, device=device))
        return tuple(example)


_B = "frames"
_FRAMES, _EACH = 3, 2


def _inputs_of(net: RaggedNet) -> list[_Input]:
    found = []
    features = len(net.obs_space.global_features)
    if features or not net.obs_space.entities:
        found.append(_Input("global", (_B, features), torch.float32))
    for k, (name, entity) in enumerate(net.obs_space.entities.items()):
        shape: Sizes = (f"entities_{k}", len(entity.features))
        spare = 1
        if isinstance(entity, Grid):
            shape, spare = (f"maps_{k}", entity.size, len(entity.features)), entity.size
        found.append(_Input(f"{name}/features", shape, torch.float32))
        found.append(_Input(f"{name}/lengths", (_B,), torch.int64, spare))
    for k, (name, space) in enumerate(net.action_space.items()):
        parts = dict(head_kind(space).graph_inputs(space))
        names = {_B: _B, "actors": f"actors_{k}", "actees": f"actees_{k}"}
        if space.is_global:
            names["actors"] = _B
        else:
            parts = {"actors": ("actors",), "lengths": (_B,), **parts}
        for part, sizes in parts.items():
            shape = tuple(
                names.get(size, size) if isinstance(size, str) else size for size in sizes
            )
            dtype = torch.bool if part == "mask" else torch.int64
            is_one = part == "mask" or part.endswith("lengths")
            found.append(_Input(f"{name}/{part}", shape, dtype, int(is_one)))
    if net.memory is not None:
        found.append(_Input("memory", (_B, net.memory.state_size), torch.float32))
    names_of_all = [one.name for one in found]
    for name in names_of_all:
        if names_of_all.count(name) > 1:
            raise ExportError(
                f"two inputs of the graph would be called {name!r}",
                expected="entity types and actions with different names",
            )
    return found


def _outputs_of(net: RaggedNet) -> dict[str, Sizes]:
    found: dict[str, Sizes] = {
        f"{name}/{part}": shape
        for name, space in net.action_space.items()
        for part, shape in head_kind(space).graph_outputs(space).items()
    }
    found["value"] = (_B,)
    if net.memory is not None:  # ONNX does not allow an output with the name of an input
        found["next_memory"] = (_B, net.memory.state_size)
    return found


def _framed(values: Tensor, lengths: Tensor) -> RaggedTensor:
    """Return frames of ``lengths`` (B,), in which the cells (M, H * W, F) of a grid are rows."""
    if values.ndim == 3:
        values = values.flatten(0, 1)
    return RaggedTensor.unchecked(values, offsets_of(lengths))


def _parts_of(name: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs of an action by the names of its parts."""
    start = f"{name}/"
    return {
        key.removeprefix(start): tensor for key, tensor in given.items() if key.startswith(start)
    }


def _last_rows(entities: Mapping[str, RaggedTensor], global_features: Tensor) -> RaggedTensor:
    """Return the entity index of each frame's global entity."""
    frames, device = global_features.shape[0], global_features.device
    last = torch.zeros(frames, dtype=torch.int64, device=device)
    for rows in entities.values():
        last = last + rows.lengths
    return RaggedTensor.unchecked(last, torch.arange(frames + 1, device=device))


def _without_spare(tensor: Tensor, shape: Sizes) -> Tensor:
    """Return an output without the rows of the spare frame."""
    for axis, size in enumerate(shape):
        if isinstance(size, str):
            tensor = tensor.narrow(axis, 0, tensor.shape[axis] - 1)
    return tensor


def _check_all_act(name: str, actors: int, frames: int) -> None:
    if actors != frames:
        raise BatchError(
            f"the global action {name!r} is taken in some of the frames only",
            expected=f"{frames} actors, one in each frame: leave the others' logits aside",
            received=actors,
        )


def _refuse(net: RaggedNet) -> None:
    """Raise ExportError for parts that a graph of plain tensors does not support."""
    reasons = (
        (
            net.conditioning is not None,
            "net.action_order: the logits of an action depend on the choices of earlier ones, "
            "but the graph does not draw choices",
        ),
        (
            not all(head_kind(space).graph_outputs(space) for space in net.action_space.values()),
            "an action that selects sets: its logits depend on the entities selected before",
        ),
        (net.translation is not None, "net.translation: it depends on reference entities"),
        (
            any(grid.cells for grid in net.obs_space.grids.values()),
            "a Grid(cells=True), whose cells act or are selected; a grid without ``cells`` can be "
            "exported, and so can entities in the place of cells",
        ),
    )
    for is_there, what in reasons:
        if is_there:
            raise ExportError(
                f"this network cannot be exported: it has {what}",
                expected="a network without net.action_order and net.translation",
                hint="use torch.onnx.export on a module of your own with the network's layers",
            )
