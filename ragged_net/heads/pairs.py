"""Pairs: every actor of a frame with every actee of the same frame, flat and actor-major."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from entity_env.errors import BatchError
from ragged_net.actors import SelectActors
from ragged_net.compiled import kernels
from ragged_net.ragged import offsets_of
from ragged_net.tensor_checks import check_kind

__all__ = ["Pairs"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a select-entity action. Those of one actor are consecutive: its segment.

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

    def first(self, where: Tensor) -> Tensor:
        """Return each actor's first pair with ``where`` (P,) True, or P. Shape: (A,), int64."""
        places = torch.arange(self.num_pairs, device=where.device)
        places = places.masked_fill(~where, self.num_pairs)
        start = places.new_full((self.num_actors,), self.num_pairs)
        return start.scatter_reduce(0, self.actor, places, "amin")
