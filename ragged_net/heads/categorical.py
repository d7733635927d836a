"""The head of categorical actions, including global ones: each actor picks one of C choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from entity_env.arguments import check_whole
from entity_env.spaces import CategoricalActionSpace, GlobalCategoricalActionSpace
from ragged_net.actors import CategoricalActors, Pairs
from ragged_net.compiled import heads as compiled_heads
from ragged_net.compiled.heads import Choices
from ragged_net.devices import full_precision
from ragged_net.heads.greedy import choice_at, quantiles_of_alike
from ragged_net.heads.kind import (
    POLICY_GAIN,
    ActionOutput,
    Draw,
    HeadKind,
    Sizes,
    gumbel_like,
    orthogonal,
)
from ragged_net.ragged import RaggedTensor
from ragged_net.tensor_checks import check_rows, check_tensor

__all__ = ["CategoricalDist", "CategoricalHead", "CategoricalHeadKind", "GlobalCategoricalHeadKind"]


class CategoricalHead(nn.Module):
    """A head with which each actor picks one of C choices.

    Args:
        dim: Width D of an actor's vector.
        choices: Number of choices C.
    """

    def __init__(self, dim: int, choices: int) -> None:
        super().__init__()
        dim, choices = (
            check_whole("width of a head", dim),
            check_whole("choices of a head", choices),
        )
        self.logits = orthogonal(dim, choices, POLICY_GAIN)

    def forward(self, actors: Tensor, mask: Tensor) -> CategoricalDist:
        """Return distributions over the choices.

        Args:
            actors: Vectors of the actors. Shape: (A, D).
            mask: True for allowed choices, at least one for each actor. Shape: (A, C), bool.
        """
        check_rows("the vectors of the actors", actors)
        check_tensor("the mask of a categorical action", mask)
        with full_precision(actors):
            return CategoricalDist(self.logits(actors.float()), mask)


@dataclass(frozen=True, eq=False)
class CategoricalDist:
    """For each of A actors, a distribution over C choices.

    Args:
        logits: (A, C) float32; those of forbidden choices are ignored.
        mask: (A, C) bool, True where allowed.
    """

    logits: Tensor
    mask: Tensor

    def choose(
        self, given: Tensor | None, generator: torch.Generator | None, greedy: bool
    ) -> Choices:
        """Return choices (A,) int64, given, drawn or most likely, and their numbers."""
        if compiled_heads.can_run(self.logits):
            return compiled_heads.choose(self.logits, self.mask, given, generator, greedy)
        chosen = self.draw(generator, greedy) if given is None else given
        return Choices(chosen, self.log_prob(chosen), self.entropy(), self.probs)

    def tempered(self, temperature: float, top_k: int) -> CategoricalDist:
        """Return the distribution of the ``top_k`` most likely choices at a ``temperature``.

        The logits are divided by it. Choices as likely as the last of them stay, too; with 0 all
        do.
        """
        logits, mask = self.logits / temperature, self.mask
        if 0 < top_k < logits.shape[1]:
            scores = logits.masked_fill(~mask, float("-inf"))
            mask = mask & (scores >= scores.topk(top_k, -1).values[:, -1:])
        return CategoricalDist(logits, mask)

    @cached_property
    def log_probs(self) -> Tensor:
        """Log-probabilities (A, C) float32, -inf where forbidden."""
        return self.logits.masked_fill(~self.mask, float("-inf")).log_softmax(-1)

    @cached_property
    def probs(self) -> Tensor:
        """Probabilities (A, C) float32, 0 where forbidden."""
        return self.log_probs.exp()

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None, greedy: bool = False) -> Tensor:
        """Return a drawn, or the most likely, choice of each actor. Shape: (A,), int64."""
        # From logits, because log-probabilities cached in inference mode would have no gradient.
        # Without their maximum, because noise added to large logits would be lost.
        scores = self.logits.masked_fill(~self.mask, float("-inf"))
        scores = scores - scores.amax(-1, keepdim=True)
        if not greedy:
            scores = scores + gumbel_like(scores, generator)
        # If an actor's logits are NaN, argmax could return a forbidden choice.
        scores = scores.masked_fill(scores.isnan(), float("inf")).masked_fill(
            ~self.mask, float("-inf")
        )
        return scores.argmax(-1)

    def log_prob(self, choices: Tensor) -> Tensor:
        """Return the log-probability of ``choices`` (A,) int64. Shape: (A,), float32."""
        return self.log_probs.gather(1, choices[:, None]).squeeze(1)

    def entropy(self) -> Tensor:
        """Return the entropy of each actor in nats. Shape: (A,), float32."""
        return -(self.probs * self.log_probs.masked_fill(~self.mask, 0.0)).sum(-1)


class CategoricalHeadKind(HeadKind):
    """The kind of actions in which each of several actors picks a choice."""

    space: type[Any] = CategoricalActionSpace
    actors = CategoricalActors

    def head(self, dim: int, space: Any) -> nn.Module:
        """Return a linear layer from an actor's vector to logits."""
        return CategoricalHead(dim, len(space))

    def word(self, dim: int, space: Any) -> nn.Module:
        """Return a vector for each choice."""
        return nn.Embedding(len(space), dim)

    def spell(
        self, word: nn.Module, head: Any, chosen: Tensor, pairs: Pairs | None, actees: Tensor | None
    ) -> Tensor:
        """Return the vectors of the choices."""
        words: Tensor = word(chosen)
        return words

    def ask(self, head: Any, rows: Sequence[Tensor], actors: Any, pairs: Pairs | None) -> Any:
        """Return the distributions over the choices."""
        return head(rows[0], actors.mask)

    def act(self, name: str, dist: Any, actors: Any, draw: Draw) -> ActionOutput:
        """Return the choices."""
        if draw.is_changed:
            dist = dist.tempered(draw.temperature, draw.top_k)
        made = dist.choose(draw.of(name), draw.generator, draw.greedy)
        if draw.is_greedy:
            frames = actors.actors.frame_ids()
            quantiles = quantiles_of_alike(frames, made.chosen, made.log_prob)
            if quantiles is not None:
                others = choice_at(quantiles, made.probs)
                chosen = torch.where(quantiles > 0, others, made.chosen)
                made = dist.choose(chosen, None, False)
        chosen = actors.actors.with_values(made.chosen)
        return ActionOutput(chosen, made.log_prob, made.entropy, made.probs)

    def example(self, first: RaggedTensor, space: Any) -> tuple[CategoricalActors, Tensor]:
        """Return one actor with all choices, which takes the first."""
        mask = torch.ones(1, len(space), dtype=torch.bool)
        return CategoricalActors(first, mask), torch.zeros(1, dtype=torch.int64)

    def graph_inputs(self, space: Any) -> Mapping[str, Sizes]:
        """Return the mask of choices."""
        return {"mask": ("actors", len(space))}

    def graph_outputs(self, space: Any) -> Mapping[str, Sizes]:
        """Return the logits of the choices."""
        return {"logits": ("actors", len(space))}

    def tensors(self, actors: Any) -> Mapping[str, Tensor]:
        """Return the mask."""
        return {"mask": actors.mask}

    def outputs(self, dist: Any) -> Sequence[Tensor]:
        """Return the logits, -inf where forbidden."""
        return [dist.logits.masked_fill(~dist.mask, float("-inf"))]

    def probs_of_nobody(self, actors: Any) -> Tensor:
        """Return the probabilities (0, C) of no actors."""
        return torch.zeros(0, actors.mask.shape[1], dtype=torch.float32, device=actors.mask.device)


class GlobalCategoricalHeadKind(CategoricalHeadKind):
    """The kind of actions in which the global entity of a frame picks a choice."""

    space = GlobalCategoricalActionSpace
