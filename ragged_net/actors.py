"""The actors of a batch, as tensors, and their pairs with the entities that they can select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, Union

import torch
from torch import Tensor

from entity_env.errors import BatchError
from ragged_net import kernels
from ragged_net.devices import send
from ragged_net.ragged import FrameNumbers, RaggedTensor, offsets_of
from ragged_net.tensor_checks import check_device, check_kind, check_tensor

__all__ = ["Actors", "CategoricalActors", "ContinuousActors", "Pairs", "SelectActors"]


@dataclass(frozen=True, eq=False)
class CategoricalActors:
    """Actors that pick one of C choices, with a mask of the choices of each actor.

    For a global action the actor is the global entity, the last one of its frame, so that its index
    is the number of entities of the frame.

    Args:
        actors: Entity index within the frame. Shape: (A,), int64.
        mask: True for allowed choices, at least one for each actor. Shape: (A, C), bool.
    """

    actors: RaggedTensor
    mask: Tensor

    def __post_init__(self) -> None:
        """Check shapes and dtypes."""
        self.check()

    def check(self, where: str = "a categorical action") -> None:
        """Check the actors, which may have changed since; errors call the action ``where``."""
        _check_indices(f"the actors of {where}", self.actors)
        check_tensor(f"the mask of {where}", self.mask, torch.bool)
        check_device(f"the mask of {where}", self.mask, self.actors.values, "the actors")
        if self.mask.ndim != 2 or self.mask.shape[0] != self.actors.num_rows:
            raise BatchError(
                f"the mask of {where} has the wrong shape",
                expected=f"(A, C) with A = {self.actors.num_rows} actors",
                received=tuple(self.mask.shape),
            )

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors with a value for each actor or pair."""
        return [self.actors.values, self.mask]

    def select(self, frames: Tensor | FrameNumbers) -> CategoricalActors:
        """Return the actors of the given ``frames`` (K,), in that order."""
        actors, rows = self.actors.select_with_rows(frames)
        return CategoricalActors(actors, self.mask.index_select(0, rows))

    def to(self, device: torch.device | str) -> CategoricalActors:
        """Return the same actors on ``device``."""
        return CategoricalActors(self.actors.to(device), send(self.mask, device))


@dataclass(frozen=True, eq=False)
class SelectActors:
    """Actors that select an entity, with the entities that can be selected.

    Args:
        actors: Entity index within the frame. Shape: (A,), int64.
        actees: Entity index within the frame, each entity at most once. Shape: (E,), int64.
        mask: True for pairs in which the actor may select the actee, actor-major: frame b has
            ``A_b * E_b`` values, and ``mask[a * E_b + e]`` belongs to its actor a and actee e. None
            allows all pairs. Each actor needs at least one True. Shape: (P,), bool.
        room: Upper bound of P, if only the device knows the lengths; the last actor and the last
            actee must then be slack. None computes P from lengths on the CPU.
    """

    actors: RaggedTensor
    actees: RaggedTensor
    mask: RaggedTensor | None = None
    room: int | None = None

    def __post_init__(self) -> None:
        """Check shapes and dtypes, and on the CPU the lengths of the mask."""
        self.check()
        if self.mask is None or self.mask.values.device.type != "cpu" or self.room is not None:
            return
        pairs = self.pair_lengths()
        if not torch.equal(self.mask.lengths, pairs):
            raise BatchError(
                "the mask of a select-entity action does not have one value for each pair",
                expected=f"(P,) with {pairs.tolist()[:20]} values in its frames (actors x actees)",
                received=f"{tuple(self.mask.values.shape)}, {self.mask.lengths.tolist()[:20]}",
            )

    def check(self, where: str = "a select-entity action") -> None:
        """Check the actors, which may have changed since; errors call the action ``where``."""
        _check_indices(f"the actors of {where}", self.actors)
        _check_indices(f"the actees of {where}", self.actees)
        check_device(f"the actees of {where}", self.actees.values, self.actors.values, "the actors")
        frames = [self.actors.num_frames, self.actees.num_frames]  # no set: export has symbols
        if self.mask is not None:
            check_kind(f"the mask of {where}", self.mask, RaggedTensor, hint=_PAIRS)
            pairs = "(P,), one value for each pair, actor-major within each frame"
            check_tensor(f"the mask of {where}", self.mask.values, torch.bool, 1, pairs)
            check_device(f"the mask of {where}", self.mask.values, self.actors.values, "the actors")
            frames.append(self.mask.num_frames)
        if frames[1:] != frames[:-1]:
            raise BatchError(
                f"actors, actees and mask of {where} differ in their frames",
                received=f"{sorted(set(frames))} frames",
            )

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors with a value for each actor, actee or pair."""
        pairs = [] if self.mask is None else [self.mask.values]
        return [self.actors.values, self.actees.values, *pairs]

    def pair_lengths(self) -> Tensor:
        """Return the number of actor-actee pairs of each frame: (B,) int64 on the CPU."""
        return self.actors.host_offsets.diff() * self.actees.host_offsets.diff()

    @property
    def num_pairs(self) -> int:
        """The number of pairs P, or its upper bound ``room``."""
        return int(self.pair_lengths().sum()) if self.room is None else self.room

    def select(self, frames: Tensor | FrameNumbers) -> SelectActors:
        """Return the actors and actees of the given ``frames`` (K,), in that order."""
        frames = FrameNumbers.of(frames, self.actors.values.device)
        mask = None if self.mask is None else self.mask.select(frames)
        return SelectActors(self.actors.select(frames), self.actees.select(frames), mask)

    def full_mask(self) -> RaggedTensor:
        """Return the mask (P,); all True if the action has none."""
        if self.mask is not None:
            return self.mask
        lengths, device = self.pair_lengths(), self.actors.values.device
        allowed = torch.ones(int(lengths.sum()), dtype=torch.bool, device=device)
        return RaggedTensor.from_lengths(allowed, lengths)

    def to(self, device: torch.device | str) -> SelectActors:
        """Return the same actors and actees on ``device``."""
        mask = None if self.mask is None else self.mask.to(device)
        return SelectActors(self.actors.to(device), self.actees.to(device), mask)


@dataclass(frozen=True, eq=False)
class ContinuousActors:
    """Actors that choose real numbers; for a global action the global entity.

    Args:
        actors: Entity index within the frame. Shape: (A,), int64.
    """

    actors: RaggedTensor

    def __post_init__(self) -> None:
        """Check shape and dtype."""
        self.check()

    def check(self, where: str = "a continuous action") -> None:
        """Check the actors, which may have changed since; errors call the action ``where``."""
        _check_indices(f"the actors of {where}", self.actors)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors with a value for each actor."""
        return [self.actors.values]

    def select(self, frames: Tensor | FrameNumbers) -> ContinuousActors:
        """Return the actors of the given ``frames`` (K,), in that order."""
        return ContinuousActors(self.actors.select(frames))

    def to(self, device: torch.device | str) -> ContinuousActors:
        """Return the same actors on ``device``."""
        return ContinuousActors(self.actors.to(device))


Actors: TypeAlias = Union[CategoricalActors, SelectActors, ContinuousActors]
"""Actors of any kind of action."""
_PAIRS = "RaggedTensor.from_lengths(mask, lengths), with actors x actees values in each frame"


def _check_indices(where: str, indices: RaggedTensor) -> None:
    check_kind(where, indices, RaggedTensor, hint=_INDICES)
    check_tensor(where, indices.values, torch.int64, 1, "(A,), one entity index each")


_INDICES = "RaggedTensor.from_lengths(indices, lengths), with the number of them in each frame"


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of an actor and an actee of one frame, flat; those of one actor are consecutive.

    Args:
        actor: Position of each pair's actor among all actors, never decreasing. Shape: (P,), int64.
        actee: Position of each pair's actee among all actees. Shape: (P,), int64.
        entity: Entity index of each pair's actee within its frame. Shape: (P,), int64.
        frame_offsets: Offsets of the pairs of each frame. Shape: (B + 1,), int64.
        actor_offsets: Offsets of the actors of each frame. Shape: (B + 1,), int64.
        actee_offsets: Offsets of the actees of each frame. Shape: (B + 1,), int64.
        num_actors: A.
        mask: True where the actor may select the actee; None allows all. Shape: (P,), bool.
    """

    actor: Tensor
    actee: Tensor
    entity: Tensor
    frame_offsets: Tensor
    actor_offsets: Tensor
    actee_offsets: Tensor
    num_actors: int
    mask: Tensor | None

    @classmethod
    def of(cls, action: SelectActors) -> Pairs:
        """Return the pairs of ``action``.

        Raises:
            BatchError: Offsets or the mask have been changed and do not fit any more.
        """
        check_kind("a select-entity action", action, SelectActors)
        pairs = cls._of(action)
        if pairs.mask is not None and pairs.mask.shape != (pairs.num_pairs,):
            raise BatchError(
                "the mask of a select-entity action does not have one value for each pair",
                expected=f"({pairs.num_pairs},)",
                received=tuple(pairs.mask.shape),
            )
        return pairs

    @classmethod
    def _of(cls, action: SelectActors) -> Pairs:
        actors, actees = action.actors, action.actees
        mask = None if action.mask is None else action.mask.values
        if actors.values.device.type == "cpu" and kernels.available():
            try:
                found = kernels.load("indices").pair_indices(
                    actors.offsets.numpy(), actors.num_rows, actees.offsets.numpy(), actees.num_rows
                )
            except Exception:
                for name in ("actors", "actees"):
                    getattr(action, name).check(f"the {name} of a select-entity action")
                raise
            actor, actee, pairs, of_actors, of_actees = map(torch.from_numpy, found)
            entity = actees.values.index_select(0, actee)
            return cls(actor, actee, entity, pairs, of_actors, of_actees, actors.num_rows, mask)
        frames = actors.frame_ids()
        counts = actees.lengths.index_select(0, frames)  # (A,) actees of each actor
        ends = counts.cumsum(0)
        places = torch.arange(action.num_pairs, device=ends.device)
        # If there is room for more pairs, these are assigned to the last actor and actee.
        actor = torch.searchsorted(ends, places, right=True).clamp_max(actors.num_rows - 1)
        # The n-th pair of an actor has the n-th actee of its frame.
        shift = actees.offsets.index_select(0, frames) - (ends - counts)
        actee = (shift.index_select(0, actor) + places).clamp_max(actees.num_rows - 1)
        return cls(
            actor,
            actee,
            actees.values.index_select(0, actee),
            offsets_of(actors.lengths * actees.lengths),
            actors.offsets,
            actees.offsets,
            actors.num_rows,
            mask,
        )

    @property
    def num_pairs(self) -> int:
        """The number of pairs P."""
        return self.actor.shape[0]

    def allowed_counts(self) -> Tensor:
        """Return the number of actees that each actor may select. Shape: (A,), int64."""
        allowed = torch.ones_like(self.actor) if self.mask is None else self.mask.long()
        return self.sum(allowed)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of ``values`` (P,) over each actor's pairs: (A,)."""
        return values.new_zeros(self.num_actors).index_add(0, self.actor, values)

    def max(self, values: Tensor) -> Tensor:
        """Return the largest of ``values`` (P,) floating among each actor's pairs: (A,)."""
        start = values.new_full((self.num_actors,), float("-inf"))
        return start.scatter_reduce(0, self.actor, values, "amax")

    def frames_of_actors(self) -> Tensor:
        """Return the frame of each actor. Shape: (A,), int64."""
        every = torch.arange(self.num_actors, device=self.actor_offsets.device)
        return torch.searchsorted(self.actor_offsets[1:], every, right=True)

    def first(self, where: Tensor) -> Tensor:
        """Return each actor's first pair with ``where`` (P,) True, or P. Shape: (A,), int64."""
        places = torch.arange(self.num_pairs, device=where.device)
        places = places.masked_fill(~where, self.num_pairs)
        start = places.new_full((self.num_actors,), self.num_pairs)
        return start.scatter_reduce(0, self.actor, places, "amin")
