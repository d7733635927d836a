"""The head of select-entities actions: a set of entities, selected one by one, then a stop.

Each step is a distribution over the actees that the actor has not selected yet, and the stop, given
its earlier selections. The draw is a sequence of entities, whose log-probability is exact by the
chain rule; that of the set alone would be a sum over all orders. The entropy is the sum of the
entropies of the steps taken, an unbiased estimate of the entropy of the sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from entity_env.arguments import check_whole
from entity_env.spaces import SelectEntitiesActionSpace
from ragged_net.actors import Pairs, SelectActors
from ragged_net.devices import full_precision
from ragged_net.heads.kind import POLICY_GAIN, ActionOutput, Draw, Sizes, orthogonal
from ragged_net.heads.select_entity import SelectDist, SelectEntityHeadKind, check_selected
from ragged_net.ragged import RaggedTensor
from ragged_net.tensor_checks import check_kind, check_rows

__all__ = ["SelectEntitiesHead", "SelectEntitiesHeadKind", "SetDist", "Walk"]


@dataclass(frozen=True, eq=False)
class Walk:
    """The sets that A actors select.

    Args:
        chosen: Entity indices within the frame, -1 from the stop on. Shape: (A, K), int64.
        log_prob: Log-probability of the sequence. Shape: (A,).
        entropy: Sum over the steps taken, in nats. Shape: (A,).
        first: Probability that the actor selects each pair's entity first. Shape: (P,).
    """

    chosen: Tensor
    log_prob: Tensor
    entropy: Tensor
    first: Tensor


@dataclass(frozen=True, eq=False)
class SetDist:
    """For each of A actors, a distribution over the orders of at most K actees of its frame.

    Args:
        head: The modules.
        actors: Vectors of the actors. Shape: (A, D).
        actees: Vectors of the actees. Shape: (E, D).
        pairs: Pairs of actors and actees.
    """

    head: SelectEntitiesHead
    actors: Tensor
    actees: Tensor
    pairs: Pairs

    def walk(self, draw: Draw, given: Tensor | None = None, name: str = "") -> Walk:
        """Select step by step.

        Args:
            draw: Source of the choices.
            given: Selections to evaluate instead, as in ``Walk.chosen``. Shape: (A, K).
            name: Name of the action, for errors.

        Raises:
            ActionError: An actor may not select a given entity.
        """
        options, keys, vectors = self._options(), self._keys(), self.actors
        actees = torch.cat([self.actees, torch.zeros_like(self.actees[:1])])
        count = len(vectors)
        left = torch.ones_like(options.actor, dtype=torch.bool)
        left = left if options.mask is None else options.mask
        stops = options.entity == -1
        goes_on = torch.ones(count, dtype=torch.bool, device=vectors.device)
        chosen = options.entity.new_full((count, self.head.at_most), -1)
        log_prob, entropy, first = vectors.new_zeros(count), vectors.new_zeros(count), None
        checks = given is not None and not draw.trusted
        for step in range(self.head.at_most):
            # After the stop an actor can only stop again, with probability 1.
            open_pairs = left & (goes_on.index_select(0, options.actor) | stops)
            now = replace(options, mask=open_pairs)
            query = self.head.query(vectors).index_select(0, now.actor)
            scores = (query * keys.index_select(0, now.actee)).sum(-1) / vectors.shape[1] ** 0.5
            dist = SelectDist.of(scores, now)
            if draw.is_changed:
                dist = dist.tempered(draw.temperature, draw.top_k)
            first = dist.probs if first is None else first
            if given is None:
                position = dist.draw(draw.generator, draw.greedy)
                if draw.greedy:
                    position = dist.part_alike(position)
            else:
                position = dist.find(given[:, step])
                if checks:
                    check_selected(name, given, position, now)
            log_prob = log_prob + dist.log_prob(position)
            entropy = entropy + dist.entropy()
            chosen[:, step] = now.entity.index_select(0, position)
            goes_on = chosen[:, step] != -1
            taken = torch.zeros_like(left).index_fill(0, position, True)
            left = left & ~(taken & ~stops)
            if step + 1 == self.head.at_most or (
                vectors.device.type == "cpu" and not checks and not goes_on.any()
            ):
                break
            picked = actees.index_select(0, now.actee.index_select(0, position))
            vectors = self.head.remember(vectors, picked)
        assert first is not None
        # After the stops of this and of all earlier actors.
        places = torch.arange(self.pairs.num_pairs, device=vectors.device) + self.pairs.actor + 1
        return Walk(chosen, log_prob, entropy, first.index_select(0, places))

    def _options(self) -> Pairs:
        """Return the pairs, and before those of each actor a stop: entity -1, actee E."""
        pairs, device = self.pairs, self.pairs.actor.device
        every = torch.arange(pairs.num_actors, device=device)
        order = torch.cat([every, pairs.actor]).argsort(stable=True)
        nobody = torch.full_like(every, -1)
        allowed = torch.ones_like(pairs.actor, dtype=torch.bool)
        allowed = allowed if pairs.mask is None else pairs.mask
        return replace(
            pairs,
            actor=torch.cat([every, pairs.actor])[order],
            actee=torch.cat([torch.full_like(every, len(self.actees)), pairs.actee])[order],
            entity=torch.cat([nobody, pairs.entity])[order],
            mask=torch.cat([torch.ones_like(every, dtype=torch.bool), allowed])[order],
        )

    def _keys(self) -> Tensor:
        """Return the keys (E + 1, D) of the actees and of the stop."""
        return torch.cat([self.head.key(self.actees), self.head.stop[None]])


class SelectEntitiesHead(nn.Module):
    """A head with which each actor selects at most K actees of its frame, by query-key products.

    After each selection the vector of the entity is added to that of the actor, so that the next
    selection depends on it.

    Args:
        dim: D, the width of an entity's vector.
        at_most: K.
    """

    def __init__(self, dim: int, at_most: int) -> None:
        super().__init__()
        dim = check_whole("width of a head", dim)
        self.at_most = check_whole("size of a set", at_most)
        self.query = orthogonal(dim, dim, POLICY_GAIN)
        self.key = orthogonal(dim, dim, 1.0)
        self.stop = nn.Parameter(torch.randn(dim))  # with the norm of a key
        self.hear = orthogonal(2 * dim, 2 * dim, 2**0.5)
        self.mix = orthogonal(2 * dim, dim, 1.0)

    def forward(self, actors: Tensor, actees: Tensor, pairs: Pairs) -> SetDist:
        """Return distributions over sets of actees.

        Args:
            actors: (A, D) the vectors of the actors.
            actees: (E, D) the vectors of the actees.
            pairs: Pairs of actors and actees.
        """
        check_rows("the vectors of the actors", actors)
        check_rows("the vectors of the actees", actees)
        check_kind("the pairs of a selection", pairs, Pairs, hint="Pairs.of(select_actors)")
        return SetDist(self, actors.float(), actees.float(), pairs)

    def remember(self, vectors: Tensor, picked: Tensor) -> Tensor:
        """Return the actors' vectors (A, D) after they selected vectors (A, D)."""
        heard: Tensor = self.mix(self.hear(torch.cat([vectors, picked], dim=1)).relu())
        return vectors + heard


class SelectEntitiesHeadKind(SelectEntityHeadKind):
    """The kind of actions in which each of several actors selects a set of entities."""

    space = SelectEntitiesActionSpace

    def shape(self, space: Any) -> tuple[int, ...]:
        """Return (K,)."""
        return (space.at_most,)

    def head(self, dim: int, space: Any) -> nn.Module:
        """Return the layers of queries, keys and an actor's memory."""
        return SelectEntitiesHead(dim, space.at_most)

    def spell(
        self, word: nn.Module, head: Any, chosen: Tensor, pairs: Pairs | None, actees: Tensor | None
    ) -> Tensor:
        """Return vectors made of the sum of the vectors of the selected entities."""
        assert pairs is not None
        assert actees is not None
        match = pairs.entity[:, None] == chosen.index_select(0, pairs.actor)  # (P, K)
        rows = actees.float().index_select(0, pairs.actee) * match.any(1, keepdim=True)
        sums = rows.new_zeros(pairs.num_actors, rows.shape[1]).index_add(0, pairs.actor, rows)
        words: Tensor = word(sums)
        return words

    def ask(self, head: Any, rows: Sequence[Tensor], actors: Any, pairs: Pairs | None) -> Any:
        """Return the distributions over sets."""
        return head(*rows, pairs)

    def act(self, name: str, dist: Any, actors: Any, draw: Draw) -> ActionOutput:
        """Return the sets."""
        with full_precision(dist.actors):
            walk = dist.walk(draw, draw.of(name), name)
        chosen = actors.actors.with_values(walk.chosen)
        probs = RaggedTensor.unchecked(walk.first, dist.pairs.frame_offsets)
        return ActionOutput(chosen, walk.log_prob, walk.entropy, probs)

    def example(self, first: RaggedTensor, space: Any) -> tuple[SelectActors, Tensor]:
        """Return one actor, which selects nothing."""
        return SelectActors(first, first), torch.full((1, space.at_most), -1)

    def graph_outputs(self, space: Any) -> Mapping[str, Sizes]:
        """Return nothing: logits depend on the entities selected before."""
        return {}
