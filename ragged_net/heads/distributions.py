"""What the heads return: the distributions that actions are drawn from.

Both clear forbidden choices to log-probability -inf and probability 0, and keep these infinities
out of every sum, so that neither values nor gradients become NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ragged_net.compiled import heads as compiled_heads
from ragged_net.compiled.heads import Choices
from ragged_net.heads.pairs import Pairs

__all__ = ["CategoricalDist", "SelectDist", "gumbel_like"]


def gumbel_like(values: Tensor, generator: torch.Generator | None) -> Tensor:
    """Standard Gumbel noise of the shape of ``values``: minus the log of exponential noise.

    The largest of ``log_probs + noise`` is a draw from the distribution (Gumbel 1954; Maddison,
    Tarlow and Minka 2014, "A* sampling").
    """
    noise = torch.empty_like(values).exponential_(generator=generator)
    # An exact 0 would give +inf, and -inf + inf is NaN.
    return -noise.clamp_min(torch.finfo(noise.dtype).tiny).log()


@dataclass(frozen=True, eq=False)
class CategoricalDist:
    """For each of A actors, a distribution over C choices.

    Args:
        logits: (A, C) float32; those of forbidden choices count for nothing.
        mask: (A, C) bool, True where allowed.
    """

    logits: Tensor
    mask: Tensor

    def choose(
        self, given: Tensor | None, generator: torch.Generator | None, greedy: bool
    ) -> Choices:
        """The choices ``given`` (A,) int64, or drawn, or the likeliest, and all about them."""
        if compiled_heads.can_run(self.logits):
            return compiled_heads.choose(self.logits, self.mask, given, generator, greedy)
        chosen = self.draw(generator, greedy) if given is None else given
        return Choices(chosen, self.log_prob(chosen), self.entropy(), self.probs)

    def tempered(self, temperature: float, top_k: int) -> CategoricalDist:
        """The same with logits divided by ``temperature``, of only the ``top_k`` likeliest.

        Choices as likely as the last of them stay, too; with 0 all do.
        """
        logits, mask = self.logits / temperature, self.mask
        if 0 < top_k < logits.shape[1]:
            scores = logits.masked_fill(~mask, float("-inf"))
            mask = mask & (scores >= scores.topk(top_k, -1).values[:, -1:])
        return CategoricalDist(logits, mask)

    @cached_property
    def log_probs(self) -> Tensor:
        """(A, C) float32, -inf where forbidden."""
        return self.logits.masked_fill(~self.mask, float("-inf")).log_softmax(-1)

    @cached_property
    def probs(self) -> Tensor:
        """(A, C) float32, 0 where forbidden."""
        return self.log_probs.exp()

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None, greedy: bool = False) -> Tensor:
        """(A,) int64: a drawn choice for each actor, or the likeliest one."""
        # The logits will do; log-probabilities kept from in here would have no gradient. Beside
        # large ones the noise would vanish.
        scores = self.logits.masked_fill(~self.mask, float("-inf"))
        scores = scores - scores.amax(-1, keepdim=True)
        if not greedy:
            scores = scores + gumbel_like(scores, generator)
        # Where an actor's logits are NaN, argmax would take what is forbidden, too.
        scores = scores.masked_fill(scores.isnan(), float("inf")).masked_fill(
            ~self.mask, float("-inf")
        )
        return scores.argmax(-1)

    def log_prob(self, choices: Tensor) -> Tensor:
        """(A,) float32: the log-probability of the given ``choices`` (A,) int64."""
        return self.log_probs.gather(1, choices[:, None]).squeeze(1)

    def entropy(self) -> Tensor:
        """(A,) float32, in nats."""
        return -(self.probs * self.log_probs.masked_fill(~self.mask, 0.0)).sum(-1)


@dataclass(frozen=True, eq=False)
class SelectDist:
    """For each of A actors, a distribution over the actees of its frame.

    Args:
        log_probs: (P,) float32 over pairs, -inf where forbidden.
        pairs: Which actor and actee each pair is made of.
    """

    log_probs: Tensor
    pairs: Pairs

    @cached_property
    def probs(self) -> Tensor:
        """(P,) float32, 0 where forbidden."""
        return self.log_probs.exp()

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None, greedy: bool = False) -> Tensor:
        """(A,) int64: the drawn, or likeliest, pair of each actor."""
        scores = self.log_probs
        if not greedy:
            scores = scores + gumbel_like(scores, generator)
        # NaN equals nothing: let such an actor take its first pair, whose log-probability shows it.
        scores = scores.masked_fill(scores.isnan(), float("inf"))
        return self.pairs.first(scores == self.pairs.max(scores).index_select(0, self.pairs.actor))

    def tempered(self, temperature: float, top_k: int) -> SelectDist:
        """The same with logits divided by ``temperature``, of only the ``top_k`` likeliest.

        Actees as likely as the last of them stay, too; with 0 all do.
        """
        pairs, scores = self.pairs, self.log_probs / temperature
        if top_k:
            # The place of each pair among those of its actor, the likeliest first.
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
        scores = scores - pairs.max(scores).index_select(0, pairs.actor)
        total = pairs.sum(scores.exp()).log().index_select(0, pairs.actor)
        return SelectDist(scores - total, pairs)

    def find(self, entities: Tensor) -> Tensor:
        """(A,) int64: the pair of each actor with the entity it selects; P if it must not.

        Args:
            entities: (A,) int64 entity index within the frame.
        """
        match = self.pairs.entity == entities.index_select(0, self.pairs.actor)
        if self.pairs.mask is not None:
            match = match & self.pairs.mask
        return self.pairs.first(match)

    def log_prob(self, chosen: Tensor) -> Tensor:
        """(A,) float32: the log-probability of the given pairs ``chosen`` (A,) int64."""
        return self.log_probs.index_select(0, chosen)

    def entropy(self) -> Tensor:
        """(A,) float32, in nats."""
        log_probs = self.log_probs
        if self.pairs.mask is not None:
            log_probs = log_probs.masked_fill(~self.pairs.mask, 0.0)
        return -self.pairs.sum(self.probs * log_probs)
