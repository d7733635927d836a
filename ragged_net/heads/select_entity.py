"""The head of select-entity actions: each actor selects one of the actees of its frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from entity_env.arguments import check_whole
from entity_env.errors import ActionError
from entity_env.spaces import SelectEntityActionSpace
from ragged_net.actors import Pairs, SelectActors
from ragged_net.compiled import heads as compiled_heads
from ragged_net.devices import full_precision
from ragged_net.heads.greedy import pair_at, quantiles_of_alike
from ragged_net.heads.kind import (
    POLICY_GAIN,
    ActionOutput,
    Draw,
    HeadKind,
    Sizes,
    gumbel_like,
    orthogonal,
)
from ragged_net.ragged import RaggedTensor, offsets_of
from ragged_net.tensor_checks import check_kind, check_rows

__all__ = ["SelectDist", "SelectEntityHead", "SelectEntityHeadKind", "check_selected"]


class SelectEntityHead(nn.Module):
    """A head with which each actor selects one of the actees of its frame, by query-key products.

    Args:
        dim: D, the width of an entity's vector.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        dim = check_whole("width of a head", dim)
        # Keys of variance 1 and small queries make all initial scores nearly 0.
        self.query = orthogonal(dim, dim, POLICY_GAIN)
        self.key = orthogonal(dim, dim, 1.0)

    def forward(self, actors: Tensor, actees: Tensor, pairs: Pairs) -> SelectDist:
        """Return distributions over the actees.

        Args:
            actors: (A, D) the vectors of the actors.
            actees: (E, D) the vectors of the actees.
            pairs: Pairs of actors and actees, at least one for each actor.
        """
        check_rows("the vectors of the actors", actors)
        check_rows("the vectors of the actees", actees)
        check_kind("the pairs of a selection", pairs, Pairs, hint="Pairs.of(select_actors)")
        with full_precision(actors):
            query, key = self.query(actors.float()), self.key(actees.float())
            if compiled_heads.can_select(query, key):
                return SelectDist(compiled_heads.select(query, key, pairs), pairs)
            products = query.index_select(0, pairs.actor) * key.index_select(0, pairs.actee)
            return SelectDist.of(products.sum(-1) / query.shape[-1] ** 0.5, pairs)


@dataclass(frozen=True, eq=False)
class SelectDist:
    """For each of A actors, a distribution over the actees of its frame.

    Args:
        log_probs: (P,) float32 over pairs, -inf where forbidden.
        pairs: Pairs of actors and actees.
    """

    log_probs: Tensor
    pairs: Pairs

    @classmethod
    def of(cls, scores: Tensor, pairs: Pairs) -> SelectDist:
        """Return the log-softmax of scores (P,) over the pairs of each actor."""
        if pairs.mask is not None:
            scores = scores.masked_fill(~pairs.mask, float("-inf"))
        # The shift cancels, and needs no gradient.
        scores = scores - pairs.max(scores.detach()).index_select(0, pairs.actor)
        log_total = pairs.sum(scores.exp()).log()
        return cls(scores - log_total.index_select(0, pairs.actor), pairs)

    @cached_property
    def probs(self) -> Tensor:
        """Probabilities (P,) float32, 0 where forbidden."""
        return self.log_probs.exp()

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None, greedy: bool = False) -> Tensor:
        """Return the drawn, or most likely, pair of each actor. Shape: (A,), int64."""
        scores = self.log_probs
        if not greedy:
            scores = scores + gumbel_like(scores, generator)
        # With NaN an actor takes its first pair, whose log-probability is NaN.
        scores = scores.masked_fill(scores.isnan(), float("inf"))
        return self.pairs.first(scores == self.pairs.max(scores).index_select(0, self.pairs.actor))

    def part_alike(self, positions: Tensor) -> Tensor:
        """Return the most likely pairs ``positions`` (A,), other ones for actors that are alike."""
        entities = self.pairs.entity.index_select(0, positions)
        frames = self.pairs.frames_of_actors()
        quantiles = quantiles_of_alike(frames, entities, self.log_prob(positions))
        if quantiles is None:
            return positions
        others = pair_at(quantiles, self.log_probs, self.pairs)
        return torch.where(quantiles > 0, others, positions)

    def tempered(self, temperature: float, top_k: int) -> SelectDist:
        """Return the distribution of the ``top_k`` most likely actees at a ``temperature``.

        The logits are divided by it. Actees as likely as the last of them stay, too; with 0 all
        do.
        """
        pairs, scores = self.pairs, self.log_probs / temperature
        if top_k:
            # The rank of each pair among those of its actor, the most likely first.
            order = scores.argsort(descending=True, stable=True)
            order = order[pairs.actor[order].argsort(stable=True)]
            starts = pairs.first(torch.ones_like(scores, dtype=torch.bool))[pairs.actor]
            places = torch.arange(pairs.num_pairs, device=scores.device) - starts
            places = torch.empty_like(places).index_copy_(0, order, places)
            kept = (-scores).masked_fill(places >= top_k, float("-inf"))
            least = -pairs.max(kept).index_select(0, pairs.actor)
            allowed = (scores >= least) & (scores > float("-inf"))
            scores = scores.masked_fill(~allowed, float("-inf"))
            pairs = replace(pairs, mask=allowed)
        return SelectDist.of(scores, pairs)

    def find(self, entities: Tensor) -> Tensor:
        """Return the pair of each actor with the entity that it selects, or P. Shape: (A,).

        Args:
            entities: (A,) int64 entity index within the frame.
        """
        match = self.pairs.entity == entities.index_select(0, self.pairs.actor)
        if self.pairs.mask is not None:
            match = match & self.pairs.mask
        return self.pairs.first(match)

    def log_prob(self, chosen: Tensor) -> Tensor:
        """Return the log-probability of pairs ``chosen`` (A,) int64. Shape: (A,), float32."""
        return self.log_probs.index_select(0, chosen)

    def entropy(self) -> Tensor:
        """Return the entropy of each actor in nats. Shape: (A,), float32."""
        log_probs = self.log_probs
        if self.pairs.mask is not None:
            log_probs = log_probs.masked_fill(~self.pairs.mask, 0.0)
        return -self.pairs.sum(self.probs * log_probs)


class SelectEntityHeadKind(HeadKind):
    """The kind of actions in which each of several actors selects an entity."""

    space: type[Any] = SelectEntityActionSpace
    actors = SelectActors

    def head(self, dim: int, space: Any) -> nn.Module:
        """Return the layers of queries and keys."""
        return SelectEntityHead(dim)

    def word(self, dim: int, space: Any) -> nn.Module:
        """Return the module that makes vectors of selected entities."""
        return orthogonal(dim, dim, 1.0)

    def spell(
        self, word: nn.Module, head: Any, chosen: Tensor, pairs: Pairs | None, actees: Tensor | None
    ) -> Tensor:
        """Return vectors made of those of the selected entities."""
        assert pairs is not None
        assert actees is not None
        match = pairs.entity == chosen.index_select(0, pairs.actor)
        selected = pairs.actee.index_select(0, pairs.first(match))
        words: Tensor = word(actees.index_select(0, selected).float())
        return words

    def ask(self, head: Any, rows: Sequence[Tensor], actors: Any, pairs: Pairs | None) -> Any:
        """Return the distributions over the actees."""
        return head(*rows, pairs)

    def act(self, name: str, dist: Any, actors: Any, draw: Draw) -> ActionOutput:
        """Return the selected entities."""
        if draw.is_changed:
            dist = dist.tempered(draw.temperature, draw.top_k)
        given = draw.of(name)
        if given is None:
            positions = dist.draw(draw.generator, draw.greedy)
            if draw.greedy:
                positions = dist.part_alike(positions)
        else:
            positions = dist.find(given)
            if not draw.trusted:
                check_selected(name, given, positions, dist.pairs)
        try:
            selected = dist.pairs.entity.index_select(0, positions)
        except IndexError:  # choices that were passed as trusted, but are wrong
            if given is not None:
                check_selected(name, given, positions, dist.pairs)
            raise
        chosen = actors.actors.with_values(selected)
        probs = RaggedTensor.unchecked(dist.probs, dist.pairs.frame_offsets)
        return ActionOutput(chosen, dist.log_prob(positions), dist.entropy(), probs)

    def example(self, first: RaggedTensor, space: Any) -> tuple[SelectActors, Tensor]:
        """Return one actor, which selects itself."""
        return SelectActors(first, first), first.values

    def graph_inputs(self, space: Any) -> Mapping[str, Sizes]:
        """Return the actees of each frame, and the mask of the pairs of all actors and actees."""
        return {"actees": ("actees",), "actee_lengths": ("frames",), "mask": ("actors", "actees")}

    def graph_outputs(self, space: Any) -> Mapping[str, Sizes]:
        """Return the logits of all pairs of an actor and an actee."""
        return {"logits": ("actors", "actees")}

    def tensors(self, actors: Any) -> Mapping[str, Tensor]:
        """Return the actees of all frames, and the mask of the pairs of all actors and actees."""
        actees = actors.actees
        allowed = actors.actors.frame_ids()[:, None] == actees.frame_ids()[None, :]
        if actors.mask is not None:
            allowed[allowed.clone()] = actors.mask.values  # row by row, as pairs are stored
        return {"actees": actees.values, "actee_lengths": actees.lengths, "mask": allowed}

    def from_tensors(
        self, actors: RaggedTensor, tensors: Mapping[str, Tensor]
    ) -> tuple[SelectActors, Pairs]:
        """Return the actors, and the pairs of all actors and actees, masked between the frames."""
        actees = RaggedTensor.unchecked(tensors["actees"], offsets_of(tensors["actee_lengths"]))
        mask = actors.frame_ids()[:, None] == actees.frame_ids()[None, :]
        mask = tensors["mask"] & mask
        actor = torch.arange(actors.num_rows, device=mask.device)[:, None].expand_as(mask).flatten()
        actee = torch.arange(actees.num_rows, device=mask.device).expand_as(mask).flatten()
        entity = actees.values.index_select(0, actee)
        offsets = actors.offsets * actees.num_rows, actors.offsets, actees.offsets
        pairs = Pairs(actor, actee, entity, *offsets, actors.num_rows, mask.flatten())
        return SelectActors(actors, actees, room=pairs.num_pairs), pairs

    def outputs(self, dist: Any) -> Sequence[Tensor]:
        """Return log-probabilities (A, E), -inf where forbidden, of the pairs of all actors."""
        pairs = dist.pairs
        logits = dist.log_probs.masked_fill(~pairs.mask, float("-inf"))
        return [logits.view(pairs.num_actors, -1)]


def check_selected(name: str, selected: Tensor, positions: Tensor, pairs: Pairs) -> None:
    """Check that every actor has a pair with the entity that it is given, and may select it.

    Args:
        name: Name of the action.
        selected: Given entities, (A,), or sets of them, (A, K).
        positions: Pairs that were found, or P. Shape: (A,).
        pairs: Pairs of actors and actees; the entity -1 is the end of a set.
    """
    missing = positions == pairs.num_pairs
    if not bool(missing.any()):
        return
    actor = int(missing.nonzero()[0])
    allowed = pairs.actor == actor
    if pairs.mask is not None:
        allowed = allowed & pairs.mask
    raise ActionError(
        f"given[{name!r}] has an entity that its actor may not select, or has selected already",
        expected=f"one of {pairs.entity[allowed].tolist()}"
        + (", or -1 to stop, followed by -1 only" if selected.ndim > 1 else ""),
        received=f"{selected[actor].tolist()} for actor {actor} of the batch",
    )
