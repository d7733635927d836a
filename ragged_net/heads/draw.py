"""From the distributions of the heads to actions: drawn, greedy or given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ragged_net.actors import Actors, CategoricalActors, ContinuousActors, SelectActors
from ragged_net.check import check_selected
from ragged_net.heads.continuous import ClippedNormal
from ragged_net.heads.distributions import CategoricalDist, SelectDist
from ragged_net.ragged import RaggedTensor

__all__ = ["ActionOutput", "Draw"]


@dataclass(frozen=True, eq=False)
class ActionOutput:
    """What the actors of one action do.

    Args:
        chosen: (A,) int64: the choice, or the entity index within the frame for a selection. For a
            continuous action (A, K) float32: its numbers.
        log_prob: (A,) float32 of what was chosen.
        entropy: (A,) float32, in nats.
        probs: (A, C) float32 for a categorical action. For a selection a RaggedTensor (P,): the
            pairs of each frame, actor-major. None for a continuous action.
        mean: (A, K) float32 of a continuous action: the means of the Gaussians before clipping.
        std: (A, K) float32 of a continuous action: their deviations.
    """

    chosen: RaggedTensor
    log_prob: Tensor
    entropy: Tensor
    probs: Tensor | RaggedTensor | None
    mean: Tensor | None = None
    std: Tensor | None = None

    @staticmethod
    def cat(parts: Sequence[ActionOutput]) -> ActionOutput:
        """The actors of all frames of ``parts``, one after the other."""
        ragged = [part.probs for part in parts if isinstance(part.probs, RaggedTensor)]
        return ActionOutput(
            RaggedTensor.cat([part.chosen for part in parts]),
            torch.cat([part.log_prob for part in parts]),
            torch.cat([part.entropy for part in parts]),
            RaggedTensor.cat(ragged) if ragged else _cat([part.probs for part in parts]),
            _cat([part.mean for part in parts]),
            _cat([part.std for part in parts]),
        )


def _cat(parts: Sequence[Tensor | RaggedTensor | None]) -> Tensor | None:
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors) if tensors else None


@dataclass(frozen=True, eq=False)
class Draw:
    """How actions come about: ``given``, or drawn with ``generator``, or ``greedy``.

    Choices that are ``trusted`` are not looked at. With a ``temperature`` or ``top_k``, all is said
    of the distributions that these make.
    """

    given: Mapping[str, Tensor] | None
    generator: torch.Generator | None
    greedy: bool
    trusted: bool
    temperature: float = 1.0
    top_k: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether actions are drawn from other distributions than the network's."""
        return self.temperature != 1.0 or self.top_k > 0

    def nobody(self, actors: Actors, width: int) -> ActionOutput:
        """What an action without actors does; of a continuous one ``width`` numbers each."""
        none = actors.actors
        empty = torch.zeros(0, dtype=torch.float32, device=none.values.device)
        if isinstance(actors, ContinuousActors):
            numbers = empty.view(0, width)
            return ActionOutput(none.with_values(numbers), empty, empty, None, numbers, numbers)
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
        if self.is_changed:
            dist = dist.tempered(self.temperature, self.top_k)
        made = dist.choose(given, self.generator, self.greedy)
        chosen = actors.actors.with_values(made.chosen)
        return ActionOutput(chosen, made.log_prob, made.entropy, made.probs)

    def continuous(self, name: str, actors: ContinuousActors, dist: ClippedNormal) -> ActionOutput:
        """The numbers that a continuous action sets."""
        given = None if self.given is None else self.given[name]
        if self.is_changed:
            dist = dist.tempered(self.temperature)
        values = dist.draw(self.generator, self.greedy) if given is None else given
        return ActionOutput(
            actors.actors.with_values(values),
            dist.log_prob(values),
            dist.entropy(),
            None,
            dist.means,
            dist.stds,
        )

    def select(self, name: str, actors: SelectActors, dist: SelectDist) -> ActionOutput:
        """The entities that a select-entity action selects."""
        if self.is_changed:
            dist = dist.tempered(self.temperature, self.top_k)
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
