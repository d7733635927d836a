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
``<action>/logits``    (A, C) or (A, E)   unnormalised log-probabilities, -inf if forbidden by the
                                          mask, or in another frame; (B, C) for a global action
``<action>/mean``      (A, K)             continuous actions: means before clipping to the bounds
``<action>/std``       (A, K)             continuous actions: standard deviations before clipping
``value``              (B,)               value of each frame
``next_memory``        (B, W)             memory state for the next frames
=====================  =================  ========================================================

Entities that are hidden from the policy must be left out. Attention is computed for all pairs of
entities of a call, with a mask between frames, so that the cost of a call is quadratic in the
number of entities. The graph is meant for one frame, or a few, at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor, nn

from entity_env.errors import BatchError, ExportError
from entity_env.spaces import (
    CONTINUOUS_ACTIONS,
    GLOBAL_ACTIONS,
    ActionSpace,
    CategoricalActionSpace,
    Entity,
    GlobalCategoricalActionSpace,
    Grid,
    SelectEntitiesActionSpace,
    SelectEntityActionSpace,
)
from ragged_net.actors import CategoricalActors, SelectActors
from ragged_net.batch import EntityBatch
from ragged_net.compiled.chain import is_plain
from ragged_net.compiled.kernels import plain_torch
from ragged_net.heads.categorical import CategoricalHead
from ragged_net.heads.continuous import ContinuousHead
from ragged_net.heads.select_entity import SelectEntityHead
from ragged_net.heads.value import ValueHead
from ragged_net.model.embedding import EntityEmbedding, TypeEmbedding
from ragged_net.model.encoder import Encoder, Mix
from ragged_net.model.geometry import columns_of, radians, turn, turn_back
from ragged_net.model.memory import Memory
from ragged_net.model.tiles import TileEmbedding
from ragged_net.model.transformer import RaggedTransformer, TransformerBlock
from ragged_net.network import RaggedNet
from ragged_net.tensor_checks import check_kind

__all__ = ["ActingGraph"]

OPSET = 18
"""Version of ONNX's operations, which every runtime since 2023 supports."""


@dataclass(frozen=True)
class _Input:
    """An input: its name, the names or sizes of its dimensions, and its dtype."""

    name: str
    shape: tuple[str | int, ...]
    dtype: torch.dtype


class ActingGraph(nn.Module):
    """The outputs of ``net``, computed by plain operations on plain tensors; shares its weights.

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
        self.inputs = tuple(one.name for one in self._inputs)
        self.outputs = _outputs_of(net)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs, for the inputs in their order."""
        net, given = self.net, dict(zip(self.inputs, tensors, strict=True))
        with plain_torch():
            scene = _Scene.of(net, given)
            x, hidden = _embedded(net.encoder, scene), None
            more: list[Tensor] = []
            state: list[Tensor] = []
            if net.memory is not None:
                hidden, following = _recall(net.memory, scene.means(x), given["memory"])
                more, state = [net.memory.to_entity(hidden)], [following]
            rows = _encoded(net.encoder, x, scene, more)
            means = scene.means(rows, more)
            named = rows if net.encoder.norm is None else net.encoder.norm(rows)
            results: list[Tensor] = []
            for (name, space), head in zip(net.action_space.items(), net.heads, strict=True):
                results += _decide(name, space, head, named, scene, given)
            if net.value_encoder is not None:
                x = _embedded(net.value_encoder, scene)
                means = scene.means(_encoded(net.value_encoder, x, scene, []))
            if hidden is not None and net.value_memory is not None:
                means = means + net.value_memory(hidden)
            value: Tensor = net.value_head(means)
            return (*results, value, *state)

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
            if isinstance(self.net.action_space[name], GLOBAL_ACTIONS):
                _check_all_act(name, action.actors.num_rows, batch.num_frames)
            found |= {
                f"{name}/actors": action.actors.values,
                f"{name}/lengths": action.actors.lengths,
            }
            if isinstance(action, CategoricalActors):
                found[f"{name}/mask"] = action.mask
            elif isinstance(action, SelectActors):
                found |= {
                    f"{name}/actees": action.actees.values,
                    f"{name}/actee_lengths": action.actees.lengths,
                    f"{name}/mask": _square_mask(action),
                }
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
        shape: tuple[str | int, ...] = (f"entities_{k}", len(entity.features))
        if isinstance(entity, Grid):
            shape = (f"maps_{k}", entity.size, len(entity.features))
        found.append(_Input(f"{name}/features", shape, torch.float32))
        found.append(_Input(f"{name}/lengths", (_B,), torch.int64))
    for k, (name, space) in enumerate(net.action_space.items()):
        who: str = _B
        if not isinstance(space, GLOBAL_ACTIONS):
            who = f"actors_{k}"
            found.append(_Input(f"{name}/actors", (who,), torch.int64))
            found.append(_Input(f"{name}/lengths", (_B,), torch.int64))
        if isinstance(space, SelectEntityActionSpace):
            found.append(_Input(f"{name}/actees", (f"actees_{k}",), torch.int64))
            found.append(_Input(f"{name}/actee_lengths", (_B,), torch.int64))
            found.append(_Input(f"{name}/mask", (who, f"actees_{k}"), torch.bool))
        elif isinstance(space, CategoricalActionSpace | GlobalCategoricalActionSpace):
            found.append(_Input(f"{name}/mask", (who, len(space)), torch.bool))
    if net.memory is not None:
        found.append(_Input("memory", (_B, net.memory.state_size), torch.float32))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise ExportError(
                f"two inputs of the graph would be called {name!r}",
                expected="entity types and actions with different names",
            )
    return found


def _outputs_of(net: RaggedNet) -> tuple[str, ...]:
    found = []
    for name, space in net.action_space.items():
        parts = ("mean", "std") if isinstance(space, CONTINUOUS_ACTIONS) else ("logits",)
        found += [f"{name}/{part}" for part in parts]
    # ONNX does not allow an output with the name of an input.
    return (*found, "value", *([] if net.memory is None else ["next_memory"]))


@dataclass(frozen=True, eq=False)
class _Scene:
    """The rows of a batch: type by type, then the global entities, then one spare row.

    With the spare row there is always at least one row.

    A grid has as many rows in a frame as summaries stand for its cells.

    Args:
        features: Features of each entity type. Shape of each: (N_k, F_k), or of a grid
            (M_k, H * W, F_k).
        rows: Number of rows of each type.
        frame_of: Frame of each row; -1 for the spare one. Shape: (N,), int64.
        lengths: Number of entities of each type in each frame. Shape of each: (B,), int64.
        num_frames: B.
        global_features: Shape: (B, G); None if frames have no global entity.
    """

    features: Mapping[str, Tensor]
    rows: Mapping[str, int]
    frame_of: Tensor
    lengths: tuple[Tensor, ...]
    num_frames: int
    global_features: Tensor | None

    @classmethod
    def of(cls, net: RaggedNet, given: Mapping[str, Tensor]) -> _Scene:
        names = tuple(net.obs_space.entities)
        features = {name: given[f"{name}/features"] for name in names}
        lengths = tuple(given[f"{name}/lengths"] for name in names)
        num_frames = (lengths[0] if lengths else given["global"]).shape[0]
        rows, parts, embedding = {}, [], cast(Any, net.encoder.embedding)
        for name, own, embed in zip(names, lengths, embedding.types, strict=True):
            grid, count = net.obs_space.grids.get(name), features[name].shape[0]
            few = 1 if grid is None else embed.summaries
            rows[name] = count * few
            parts.append(_frames_of(own if grid is None else own // grid.size * few, rows[name]))
        some = next(iter(given.values()))
        global_features = None
        if net.with_global:
            global_features = given.get("global")
            if global_features is None:
                global_features = torch.zeros(num_frames, 0, device=some.device)
            parts.append(torch.arange(num_frames, device=some.device))
        parts.append(torch.full((1,), -1, device=some.device))
        return cls(features, rows, torch.cat(parts), lengths, num_frames, global_features)

    def rows_of(self, indices: Tensor, frames: Tensor) -> Tensor:
        """Return the rows (A,) int64 of entity ``indices`` (A,) within their ``frames`` (A,)."""
        rows, before, base = torch.zeros_like(indices), torch.zeros_like(indices), 0
        for own, number in zip(self.lengths, self.rows.values(), strict=True):
            first = (own.cumsum(0) - own).index_select(0, frames)  # first row of the frame's type
            place = indices - before
            count = own.index_select(0, frames)
            is_here = (place >= 0) & (place < count)
            rows = torch.where(is_here, base + first + place, rows)
            before = before + count
            base = base + number
        return rows

    def global_rows(self) -> Tensor:
        """Return the rows (B,) int64 of the global entities."""
        last = self.frame_of.shape[0] - 1
        return torch.arange(self.num_frames, device=self.frame_of.device) + (last - self.num_frames)

    def means(self, rows: Tensor, more: list[Tensor] | None = None) -> Tensor:
        """Return the mean (B, D) of each frame's ``rows`` (N, D) and ``more`` rows (B, D)."""
        frames = torch.arange(self.num_frames, device=rows.device)
        frame_of = self.frame_of if not more else torch.cat([self.frame_of, frames])
        members = (frames[:, None] == frame_of[None, :]).float()  # (B, N)
        return (members @ rows) / members.sum(1, keepdim=True).clamp_min(1.0)


def _frames_of(lengths: Tensor, rows: int) -> Tensor:
    """Return the frame of each row (N,) int64 of frames with these ``lengths`` (B,)."""
    places = torch.arange(rows, device=lengths.device)
    return (places[:, None] >= lengths.cumsum(0)[None, :]).sum(1)


def _embedded(encoder: Encoder, scene: _Scene) -> Tensor:
    """Return the vectors (N, D) of all rows before attention."""
    embedding: Any = encoder.embedding
    parts = [
        embed(values.flatten(0, -2))
        for embed, values in zip(embedding.types, scene.features.values(), strict=True)
    ]
    if embedding.global_type is not None and scene.global_features is not None:
        parts.append(embedding.global_type(scene.global_features))
    parts.append(torch.zeros(1, embedding.dim, device=scene.frame_of.device))
    mix: Any = encoder.mix
    x: Tensor = mix.linear(mix.activation(torch.cat(parts)))
    return x


def _encoded(encoder: Encoder, x: Tensor, scene: _Scene, more: list[Tensor]) -> Tensor:
    """Return rows (N, D), and ``more`` rows (B, D), one of each frame, after all blocks."""
    x = torch.cat([x, *more])
    frame_of = scene.frame_of
    if more:
        frame_of = torch.cat([frame_of, torch.arange(scene.num_frames, device=frame_of.device)])
    together = frame_of[:, None] == frame_of[None, :]  # (N, N)
    joined = len(more) > 0
    turns = None if encoder.waves is None else _turns(encoder, scene, joined)
    places = None if encoder.read_places is None else _places(encoder, scene, joined)
    transformer: Any = encoder.transformer
    for block in transformer.blocks:
        x = x + block.out(_attend(block, x, together, turns, places))
        x = x + block.mlp(block.norm_mlp(x))
    return x


def _attend(
    block: Any, x: Tensor, together: Tensor, turns: Tensor | None, places: Tensor | None
) -> Tensor:
    """Return the attention (N, D) of all rows; rows attend only to rows of the same frame."""
    dim, heads = x.shape[1], block.heads
    width = dim // heads
    parts = block.qkv(block.norm_attention(x)).view(-1, 3, dim)
    if turns is not None:
        cos, sin = turns[:, None, :dim], turns[:, None, dim:]  # (N, 1, D)
        parts = turn(parts, cos, sin)
    query, key, value = parts.view(-1, 3, heads, width).permute(1, 2, 0, 3)  # (H, N, D / H)
    scores = query @ key.transpose(1, 2) / width**0.5
    if places is not None:
        scores = scores + block.bias.biases(places[None])[0]
    scores = scores.masked_fill(~together, float("-inf"))
    mixed = (scores.softmax(-1) @ value).transpose(0, 1).reshape(-1, dim)
    return mixed if turns is None else turn_back(mixed, turns[:, :dim], turns[:, dim:])


def _turns(encoder: Encoder, scene: _Scene, joined: bool) -> Tensor:
    """Return the turns (N, 2 * D) of ``PositionWaves`` or ``RelationTurns``."""
    waves: Any = encoder.waves
    parts = []
    for name, values in scene.features.items():
        if name in waves.columns:
            parts.append(waves.of(name, values))
        else:
            parts.append(waves.silent.expand(scene.rows[name], -1))
    parts.append(waves.silent.expand(_placeless(scene, joined), -1))
    return torch.cat(parts)


def _places(encoder: Encoder, scene: _Scene, joined: bool) -> Tensor:
    """Return positions, whether they are known, and headings: (N, K + 1 or K + 2).

    See ``PositionBias.biases``.
    """
    reader: Any = encoder.read_places
    axes, has_headings = len(next(iter(reader.columns.values()))), bool(reader.headings)
    width = axes + 1 + has_headings
    parts = []
    for name, values in scene.features.items():
        columns = [values.new_zeros(scene.rows[name], axes)]
        known = values.new_zeros(scene.rows[name], 1)
        if name in reader.columns:
            columns, known = [columns_of(values, reader.columns[name])], known + 1.0
        columns.append(known)
        if has_headings:
            heading = values.new_zeros(scene.rows[name])
            if name in reader.headings:
                column, steps = reader.headings[name]
                heading = radians(values[:, column], steps)
            columns.append(heading[:, None])
        parts.append(torch.cat(columns, 1))
    rows = _placeless(scene, joined)
    parts.append(torch.zeros(rows, width, device=scene.frame_of.device))
    return torch.cat(parts)


def _placeless(scene: _Scene, joined: bool) -> int:
    """Return the number of rows without an entity type."""
    whole = 0 if scene.global_features is None else scene.num_frames
    return whole + 1 + (scene.num_frames if joined else 0)


def _recall(memory: Memory, pooled: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return the hidden vectors (B, H) and the next state (B, W) after one step of the cell."""
    cell: Any = memory.cell
    x = memory.norm(pooled)
    hidden = state[:, : memory.size]
    own = torch.nn.functional.linear(x, cell.weight_ih_l0, cell.bias_ih_l0)
    past = torch.nn.functional.linear(hidden, cell.weight_hh_l0, cell.bias_hh_l0)
    if memory.kind == "lstm":
        enter, keep, new, out = (own + past).chunk(4, 1)
        carried = keep.sigmoid() * state[:, memory.size :] + enter.sigmoid() * new.tanh()
        hidden = out.sigmoid() * carried.tanh()
        return hidden, torch.cat([hidden, carried], 1)
    reset, keep, new = own.chunk(3, 1)
    past_reset, past_keep, past_new = past.chunk(3, 1)
    kept = (keep + past_keep).sigmoid()
    fresh = (new + (reset + past_reset).sigmoid() * past_new).tanh()
    hidden = (1 - kept) * fresh + kept * hidden
    return hidden, hidden


def _decide(
    name: str,
    space: ActionSpace,
    head: Any,
    rows: Tensor,
    scene: _Scene,
    given: Mapping[str, Tensor],
) -> list[Tensor]:
    """Return the outputs of one action."""
    if isinstance(space, GLOBAL_ACTIONS):
        frames, where = None, scene.global_rows()
    else:
        actors = given[f"{name}/actors"]
        frames = _frames_of(given[f"{name}/lengths"], actors.shape[0])
        where = scene.rows_of(actors, frames)
    own = rows.index_select(0, where)
    if isinstance(space, CONTINUOUS_ACTIONS):
        dist = head(own)
        return [dist.means, dist.stds]
    mask = given[f"{name}/mask"]
    if not isinstance(space, SelectEntityActionSpace):
        return [head.logits(own).masked_fill(~mask, float("-inf"))]
    assert frames is not None
    actees = given[f"{name}/actees"]
    at = _frames_of(given[f"{name}/actee_lengths"], actees.shape[0])
    query, key = head.query(own), head.key(rows.index_select(0, scene.rows_of(actees, at)))
    scores = query @ key.t() / query.shape[1] ** 0.5
    allowed = mask & (frames[:, None] == at[None, :])
    return [scores.masked_fill(~allowed, float("-inf"))]


def _square_mask(action: SelectActors) -> Tensor:
    """Return the mask (A, E) bool of the actees that each actor may select."""
    actors, actees = action.actors, action.actees
    allowed = actors.values.new_zeros(actors.num_rows, actees.num_rows, dtype=torch.bool)
    pairs, first = action.full_mask().values, 0
    for frame in range(actors.num_frames):
        here = slice(*actors.host_offsets[frame : frame + 2].tolist())
        there = slice(*actees.host_offsets[frame : frame + 2].tolist())
        count = (here.stop - here.start) * (there.stop - there.start)
        part = pairs[first : first + count]
        allowed[here, there] = part.view(here.stop - here.start, there.stop - there.start)
        first += count
    return allowed


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
            any(isinstance(own, SelectEntitiesActionSpace) for own in net.action_space.values()),
            "an action that selects sets: its logits depend on the entities selected before",
        ),
        (net.translation is not None, "net.translation: it depends on reference entities"),
        (
            any(grid.cells for grid in net.obs_space.grids.values()),
            "a Grid(cells=True), whose cells act or are selected; a grid without ``cells`` can be "
            "exported, and so can entities in the place of cells",
        ),
        (
            any(type(own) not in (Entity, Grid) for own in net.obs_space.entities.values()),
            "an entity type that is neither a list of rows nor a grid",
        ),
        (not _is_usual(net), "layers or heads of your own, hooks, or wrapped modules"),
    )
    for is_there, what in reasons:
        if is_there:
            raise ExportError(
                f"this network cannot be exported: it has {what}",
                expected="RaggedNet's own layers and heads, without net.action_order and "
                "net.translation",
                hint="use torch.onnx.export on a module of your own with the network's layers",
            )


def _is_usual(net: RaggedNet) -> bool:
    heads = {CategoricalHead, SelectEntityHead, ContinuousHead}
    encoders = [one for one in (net.encoder, net.value_encoder) if one is not None]
    return (
        all(type(head) in heads and is_plain(head, type(head)) for head in net.heads)
        and is_plain(net.value_head, ValueHead)
        and (net.memory is None or is_plain(net.memory, Memory))
        and all(_is_usual_encoder(encoder) for encoder in encoders)
    )


def _is_usual_encoder(encoder: Any) -> bool:
    if not (is_plain(encoder, Encoder) and is_plain(encoder.embedding, EntityEmbedding)):
        return False
    types = [*encoder.embedding.types, encoder.embedding.global_type]
    return (
        is_plain(encoder.mix, Mix)
        and is_plain(encoder.transformer, RaggedTransformer)
        and all(is_plain(block, TransformerBlock) for block in encoder.transformer.blocks)
        and all(one is None or _is_usual_type(one) for one in types)
    )


def _is_usual_type(embed: Any) -> bool:
    if isinstance(embed, TileEmbedding):
        return is_plain(embed, TileEmbedding) and is_plain(embed.cells, TypeEmbedding)
    return is_plain(embed, TypeEmbedding)
