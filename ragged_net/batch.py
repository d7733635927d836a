"""EntityBatch, the input of the network: entities, actors and masks of B frames as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from entity_env.arguments import check_whole
from entity_env.errors import BatchError
from entity_env.spaces import ObsSpace
from ragged_net import kernels
from ragged_net.actors import Actors, CategoricalActors, ContinuousActors, SelectActors
from ragged_net.devices import device_named, send
from ragged_net.growing import GrowingActors, GrowingRagged, GrowingTensor
from ragged_net.observed import Observed, actors_of, column_of, rows_of
from ragged_net.packing import by_type, from_lists, from_nested, from_padded
from ragged_net.ragged import FrameNumbers, RaggedTensor, check_memory
from ragged_net.tensor_checks import check_device, check_kind, check_names, check_tensor

__all__ = ["BatchReading", "EntityBatch", "GrowingBatch"]


@dataclass(frozen=True, eq=False)
class EntityBatch:
    """B frames with their entities and actors.

    Args:
        entities: Rows of each entity type, in the order of the observation space. All types are
            present; any may be empty. Shape of each: (N_k, F_k), float32.
        global_features: Global features of each frame; G is 0 without any. Its rows determine B.
            Shape: (B, G), float32.
        visible: Masks by entity type; False hides the entity from the policy, but not from the
            value function. All entities of a type without a mask are visible. Shape of each:
            (N_k,), bool.
        actions: Actors of every action of the action space.

    Raises:
        DtypeError, BatchError, DtypeError, DeviceError, BatchError: Parts do not fit
            together.
    """

    entities: Mapping[str, RaggedTensor]
    global_features: Tensor
    visible: Mapping[str, Tensor] = field(default_factory=dict)
    actions: Mapping[str, Actors] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Copy the mappings, and check that all parts have the same frames and device."""
        for name in ("entities", "visible", "actions"):
            parts = getattr(self, name)
            if type(parts) is not dict:  # a check for an abstract class takes longer
                check_kind(f"{name} of an EntityBatch", parts, Mapping, hint=_BY_NAME)
            object.__setattr__(self, name, dict(parts))
        self._check_parts()

    def check(self) -> None:
        """Check everything that may have changed since, except numbers.

        Tensors can be resized, and entries of the mappings replaced. It takes as long as a few
        operations on small tensors.
        """
        for name, action in self.actions.items():
            check_kind(f"action {name!r}", action, *_ACTORS)
            action.check(f"action {name!r}")
        self._check_parts()

    def _check_parts(self) -> None:
        """Check all parts but actors, which have checked themselves when they were made."""
        features = self.global_features
        shape = "(B, G), with G = 0 without global features"
        check_tensor("the global features", features, torch.float32, 2, shape)
        for name, rows in self.entities.items():
            where = f"entity type {name!r}"
            check_kind(where, rows, RaggedTensor, hint=_ROWS)
            check_tensor(where, rows.values, torch.float32, 2, "(N, F)")
            _check_frames(where, rows, features)
        if self.visible:
            _check_visible(self.visible, self.entities)
        for name, action in self.actions.items():
            where = f"action {name!r}"
            check_kind(where, action, *_ACTORS)
            _check_frames(where, action.actors, features)

    def check_memory(self) -> None:
        """Check that all tensors on the CPU have as much memory as their shapes need."""
        if self.device.type != "cpu" or not kernels.available() or torch.compiler.is_compiling():
            return
        tensors = [("the global features", self.global_features), *self.visible.items()]
        tensors += [(name, rows.values) for name, rows in self.entities.items()]
        for name, action in self.actions.items():
            tensors += [(name, tensor) for tensor in action.tensors]
        for where, tensor in tensors:
            # This comparison is enough, except for views of a part of a storage.
            if tensor.untyped_storage().nbytes() < tensor.nbytes or tensor.storage_offset():
                check_memory(where, tensor)

    @property
    def num_frames(self) -> int:
        """The number of frames B."""
        return self.global_features.shape[0]

    @property
    def num_entities(self) -> int:
        """The number of entities N of all types in all frames, without global entities."""
        return sum(rows.num_rows for rows in self.entities.values())

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.global_features.device

    @staticmethod
    def from_obs(obs: Observed, device: torch.device | str = "cpu") -> EntityBatch:
        """Return the frames of an observation of many rows, such as ``VecEnv.reset`` returns.

        ``NetOutput.actions_for`` is the way back::

            output = net(EntityBatch.from_obs(obs))
            obs = rows.act(output.actions_for(obs))

        Args:
            obs: A ``VecObs``, or another object with these attributes. The batch shares its memory.
            device: Device of the tensors.
        """
        return EntityBatch(
            {name: rows_of(buffer) for name, buffer in obs.features.items()},
            torch.from_numpy(obs.global_features),
            {name: column_of(buffer).values for name, buffer in obs.visible.items()},
            {name: actors_of(mask) for name, mask in obs.action_masks.items()},
        ).to(device)

    def without_actions(self) -> EntityBatch:
        """Return the same entities without actors, to compute values."""
        return EntityBatch(self.entities, self.global_features, self.visible)

    @staticmethod
    def from_lists(
        entities: Mapping[str, Sequence[object]],
        global_features: Tensor | None = None,
        actions: Mapping[str, Actors] | None = None,
        obs_space: ObsSpace | None = None,
    ) -> EntityBatch:
        """Make a batch from lists of feature rows, for each entity type and frame.

        ``EntityBatch.from_lists({"Mine": [[[0, 1], [2, 3]], []]})`` has two frames, the first with
        two mines. The rows of a frame may also be a tensor or an array (n, F).

        Args:
            entities: Rows of each of B frames, by entity type.
            global_features: Shape: (B, G), float32; None for no features.
            actions: Actors of each action.
            obs_space: Space that determines the width of rows if no frame has any, and adds types
                that ``entities`` lacks.

        Raises:
            EntityEnvError: Parts do not fit together.
        """
        return _packed(
            {
                name: from_lists(f"entity type {name!r}", frames, width)
                for name, frames, width in by_type(entities, obs_space)
            },
            global_features,
            actions,
        )

    @staticmethod
    def from_padded(
        entities: Mapping[str, Tensor],
        lengths: Mapping[str, object],
        global_features: Tensor | None = None,
        actions: Mapping[str, Actors] | None = None,
    ) -> EntityBatch:
        """Make a batch from padded tensors.

        Args:
            entities: Padded rows by entity type. Shape of each: (B, L, F), float32.
            lengths: By type, the number of rows of each frame, which are its first ones, (B,), or
                a mask of existing rows, (B, L) bool.
            global_features: Shape: (B, G), float32; None for no features.
            actions: Actors of each action.

        Raises:
            EntityEnvError: Parts do not fit together.
        """
        check_kind("the entities of a batch", entities, Mapping, hint=_BY_NAME)
        check_kind("the lengths of entity types", lengths, Mapping, hint=_BY_NAME)
        check_names("entity type", "the lengths", lengths, entities)
        for name, rows in entities.items():
            check_tensor(f"entity type {name!r}", rows, torch.float32)
        return _packed(
            {
                name: from_padded(f"entity type {name!r}", rows, lengths[name])
                for name, rows in entities.items()
            },
            global_features,
            actions,
        )

    @staticmethod
    def from_nested(
        entities: Mapping[str, Tensor],
        global_features: Tensor | None = None,
        actions: Mapping[str, Actors] | None = None,
    ) -> EntityBatch:
        """Make a batch from nested tensors, jagged or strided; gradients flow back to them.

        Args:
            entities: Nested tensors by entity type. Shape of each: (B, n, F), float32, with any n.
            global_features: Shape: (B, G), float32; None for no features.
            actions: Actors of each action.

        Raises:
            EntityEnvError: Parts do not fit together.
        """
        check_kind("the entities of a batch", entities, Mapping, hint=_BY_NAME)
        return _packed(
            {name: from_nested(f"entity type {name!r}", rows) for name, rows in entities.items()},
            global_features,
            actions,
        )

    def select(self, frames: Tensor | FrameNumbers) -> EntityBatch:
        """Return the ``frames`` (K,) int64 in the given order; a frame may occur twice."""
        frames = FrameNumbers.of(frames, self.device)
        entities, visible = {}, {}
        with BatchReading(self):
            for name, ragged in self.entities.items():
                entities[name], rows = ragged.select_with_rows(frames)
                if name in self.visible:
                    visible[name] = self.visible[name].index_select(0, rows)
            actions = {name: action.select(frames) for name, action in self.actions.items()}
            features = self.global_features.index_select(0, frames.there)
        return EntityBatch(entities, features, visible, actions)

    @staticmethod
    def cat(batches: Sequence[EntityBatch]) -> EntityBatch:
        """Concatenate batches; masks that some of them lack are filled with True."""
        check_kind("the batches to concatenate", batches, Sequence)
        grown = GrowingBatch(max(1, len(batches)))
        for batch in batches:
            grown.add(batch)
        return grown.all()

    def to(self, device: torch.device | str) -> EntityBatch:
        """Return the same batch on ``device``; copies to a GPU do not wait for it."""
        device = device_named(device)
        if device == self.device:
            return self
        with BatchReading(self):
            return EntityBatch(
                {name: rows.to(device) for name, rows in self.entities.items()},
                send(self.global_features, device),
                {name: send(mask, device) for name, mask in self.visible.items()},
                {name: action.to(device) for name, action in self.actions.items()},
            )


class BatchReading:
    """A context for reading a batch, whose parts may have changed since it was made.

    If reading fails and the batch has a mistake, the error describes the mistake. A check
    beforehand would take as long as a small layer.

    Args:
        batch: The batch; anything else raises an error.
    """

    def __init__(self, batch: EntityBatch) -> None:
        check_kind("the batch", batch, EntityBatch, hint="EntityBatch(entities, ...)")
        self.batch = batch

    def __enter__(self) -> None:
        """Check the memory of tensors, without which torch would crash."""
        try:
            self.batch.check_memory()
        except AttributeError:  # parts of another class
            self.batch.check()
            raise

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Replace an error by one that describes the mistake in the batch, if there is one."""
        if isinstance(error, Exception):
            self.batch.check()


class GrowingBatch:
    """A batch to which frames are added; see ``GrowingTensor``.

    Masks that only some of the parts have are filled with True.
    """

    def __init__(self, parts: int = 1) -> None:
        self._parts = check_whole("parts of a GrowingBatch", parts)
        self._started = False
        self._features = GrowingTensor(parts)
        self._entities: dict[str, GrowingRagged] = {}
        self._visible: dict[str, GrowingTensor] = {}
        self._actions: dict[str, GrowingActors] = {}

    def add(self, batch: EntityBatch) -> None:
        """Append the frames of ``batch``, which has the entity types and actions of the others.

        Raises:
            EntityEnvError: The batch does not fit the others, or its parts do not fit together.
        """
        with BatchReading(batch):
            self._add(batch)

    def _add(self, batch: EntityBatch) -> None:
        if not self._started:
            self._begin(batch)
        check_names("entity type", "a batch to concatenate", batch.entities, self._entities)
        check_names("action", "a batch to concatenate", batch.actions, self._actions)
        for name, rows in batch.entities.items():
            if name in batch.visible and name not in self._visible:
                self._visible[name] = _all_true(self._entities[name].num_rows, rows, self._parts)
            if name in self._visible:
                shown = batch.visible.get(name)
                self._visible[name].add(_true(rows.num_rows, rows) if shown is None else shown)
            self._entities[name].add(rows)
        for name, actors in batch.actions.items():
            self._actions[name].add(name, actors)
        self._features.add(batch.global_features)

    def all(self) -> EntityBatch:
        """Return all frames so far."""
        if not self._started:
            raise BatchError("no EntityBatch to concatenate", expected="at least one")
        return EntityBatch(
            {name: rows.all() for name, rows in self._entities.items()},
            self._features.all(),
            {name: self._visible[name].all() for name in self._entities if name in self._visible},
            {name: actors.all() for name, actors in self._actions.items()},
        )

    def clear(self) -> None:
        """Remove all frames; new ones must have the same entity types and actions."""
        parts: list[Any] = [self._features, *self._entities.values(), *self._actions.values()]
        for part in parts:
            part.clear()
        self._visible = {}

    def _begin(self, batch: EntityBatch) -> None:
        self._started = True
        self._entities = {name: GrowingRagged(self._parts) for name in batch.entities}
        self._actions = {
            name: GrowingActors(actors, self._parts) for name, actors in batch.actions.items()
        }


def _true(count: int, like: RaggedTensor) -> Tensor:
    return torch.ones(count, dtype=torch.bool, device=like.values.device)


def _all_true(count: int, like: RaggedTensor, parts: int) -> GrowingTensor:
    """Return masks for the earlier parts, which are all True."""
    shown = GrowingTensor(parts)
    shown.add(_true(count, like))
    return shown


def _packed(
    entities: dict[str, RaggedTensor],
    global_features: Tensor | None,
    actions: Mapping[str, Actors] | None,
) -> EntityBatch:
    if global_features is None:
        if not entities:
            raise BatchError(
                "the number of frames of the batch is unknown",
                expected="an entity type, or global features (B, G)",
            )
        some = next(iter(entities.values()))
        global_features = torch.zeros(some.num_frames, 0, device=some.values.device)
    return EntityBatch(entities, global_features, {}, {} if actions is None else actions)


_ACTORS = CategoricalActors, SelectActors, ContinuousActors
_BY_NAME = "a dict from names to parts"
_ROWS = "RaggedTensor.from_lengths(values, lengths), with the number of entities in each frame"


def _check_frames(where: str, part: RaggedTensor, features: Tensor) -> None:
    """Check that a part of a batch has the frames of its global features (B, G)."""
    check_tensor(f"the offsets of {where}", part.offsets, torch.int64)
    if part.num_frames != features.shape[0]:
        raise BatchError(
            f"{where} has another number of frames than the batch",
            expected=f"{features.shape[0]}, the rows of the global features",
            received=part.num_frames,
        )
    check_device(where, part.values, features, "the global features")


def _check_visible(visible: Mapping[str, Tensor], entities: Mapping[str, RaggedTensor]) -> None:
    for name, mask in visible.items():
        # Types without a mask are valid, so only the present names are checked.
        check_names("entity type", "the visible mask", {**entities, name: None}, entities)
        where = f"the visible mask of entity type {name!r}"
        check_tensor(where, mask, torch.bool)
        if mask.shape != (entities[name].num_rows,):
            raise BatchError(
                f"{where} has the wrong shape",
                expected=(entities[name].num_rows,),
                received=tuple(mask.shape),
            )
        check_device(where, mask, entities[name].values, "its entities")
