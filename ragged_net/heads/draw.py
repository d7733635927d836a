"""From the distributions of the heads to actions: drawn, greedy or given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ragged_net.actors import CategoricalActors, SelectActors
from ragged_net.check import check_selected
from ragged_net.heads.distributions import CategoricalDist, SelectDist
from ragged_net.ragged import RaggedTensor

__all__ = ["ActionOutput", "Draw"]


@dataclass(frozen=True, eq=False)
class ActionOutput:
    """What the actors of one action do.

    Args:
        chosen: (A,) int64: the choice, or the entity index within the frame for a selection.
        log_prob: (A,) float32 of what was chosen.
        entropy: (A,) float32, in nats.
        probs: (A, C) float32 for a categorical action. For a selection a RaggedTensor (P,): the
            pairs of each frame, actor-major.
    """

    chosen: RaggedTensor
    log_prob: Tensor
    entropy: Tensor
    probs: Tensor | RaggedTensor

    @staticmethod
    def cat(parts: Sequence[ActionOutput]) -> ActionOutput:
        """The actors of all frames of ``parts``, one after the other."""
        ragged = [part.probs for part in parts if isinstance(part.probs, RaggedTensor)]
        plain = [part.probs for part in parts if isinstance(part.probs, Tensor)]
        return ActionOutput(
            RaggedTensor.cat([part.chosen for part in parts]),
            torch.cat([part.log_prob for part in parts]),
            torch.cat([part.entropy for part in parts]),
            RaggedTensor.cat(ragged) if ragged else torch.cat(plain),
        )


@dataclass(frozen=True, eq=False)
class Draw:
    """How actions come about: ``given``, or drawn with ``generator``, or ``greedy``.

    Choices that are ``trusted`` are not looked at.
    """

    given: Mapping[str, Tensor] | None
    generator: torch.Generator | None
    greedy: bool
    trusted: bool

    def nobody(self, actors: CategoricalActors | SelectActors) -> ActionOutput:
        """What an action without actors does."""
        none = actors.actors
        empty = torch.zeros(0, dtype=torch.float32, device=none.values.device)
        probs: Tensor | RaggedTensor
        if isinstance(actors, CategoricalActors):
            probs = empty.view(0, actors.mask.shape[1])
        else:
            probs = none.with_values(empty)
        return ActionOutput(none, empty, empty, probs)

    def categorical(
        self, name: str, actors: CategoricalActors, dist: CategoricalDist
    ) -> ActionOutput:
        """The choices of a categorical action."""
        given = None if self.given is None else self.given[name]
        made = dist.choose(given, self.generator, self.greedy)
        chosen = actors.actors.with_values(made.chosen)
        return ActionOutput(chosen, made.log_prob, made.entropy, made.probs)

    def select(self, name: str, actors: SelectActors, dist: SelectDist) -> ActionOutput:
        """The entities that a select-entity action selects."""
        if self.given is None:
            positions = dist.draw(self.generator, self.greedy)
        else:
            positions = dist.find(self.given[name])
            if not self.trusted:
                check_selected(name, self.given[name], positions, dist.pairs)
        try:
            selected = dist.pairs.entity.index_select(0, positions)
        except IndexError:  # choices that were not worth the trust
            if self.given is not None:
                check_selected(name, self.given[name], positions, dist.pairs)
            raise
        chosen = actors.actors.with_values(selected)
        probs = RaggedTensor.unchecked(dist.probs, dist.pairs.frame_offsets)
        return ActionOutput(chosen, dist.log_prob(positions), dist.entropy(), probs)
