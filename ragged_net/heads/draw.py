"""Actions from the distributions of the heads: drawn, greedy or given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ragged_net.ragged import RaggedTensor

__all__ = ["ActionOutput", "Draw"]


@dataclass(frozen=True, eq=False)
class ActionOutput:
    """The choices of the actors of one action.

    Args:
        chosen: Choice of each actor, (A,) int64; for a selection the entity index within the frame.
            For a continuous action its numbers, (A, K) float32.
        log_prob: Log-probability of each choice. Shape: (A,), float32.
        entropy: Entropy of each actor, in nats. Shape: (A,), float32.
        probs: Probabilities (A, C) float32 of a categorical action. For a selection a RaggedTensor
            (P,) of the pairs of each frame, actor-major. None for a continuous action.
        mean: Means of the Gaussians of a continuous action before clipping. Shape: (A, K), float32.
        std: Standard deviations of the Gaussians, likewise.
    """

    chosen: RaggedTensor
    log_prob: Tensor
    entropy: Tensor
    probs: Tensor | RaggedTensor | None
    mean: Tensor | None = None
    std: Tensor | None = None

    @staticmethod
    def cat(parts: Sequence[ActionOutput]) -> ActionOutput:
        """Return the actors of all frames of ``parts``, one after the other."""
        ragged = [part.probs for part in parts if isinstance(part.probs, RaggedTensor)]
        return ActionOutput(
            RaggedTensor.cat([part.chosen for part in parts]),
            torch.cat([part.log_prob for part in parts]),
            torch.cat([part.entropy for part in parts]),
            RaggedTensor.cat(ragged) if ragged else _cat([part.probs for part in parts]),
            _cat([part.mean for part in parts]),
            _cat([part.std for part in parts]),
        )

    def select(self, frames: Tensor) -> ActionOutput:
        """Return the actors of the given frames (K,) int64, in that order."""
        chosen, actors = self.chosen.select_with_rows(frames)
        return ActionOutput(
            chosen,
            self.log_prob[actors],
            self.entropy[actors],
            own.select(frames)
            if isinstance(own := self.probs, RaggedTensor)
            else _rows(own, actors),
            _rows(self.mean, actors),
            _rows(self.std, actors),
        )


def _rows(own: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if own is None else own[rows]


def _cat(parts: Sequence[Tensor | RaggedTensor | None]) -> Tensor | None:
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors) if tensors else None


@dataclass(frozen=True, eq=False)
class Draw:
    """The source of choices: ``given``, drawn with ``generator``, or ``greedy``.

    Choices that are ``trusted`` are not checked. With a ``temperature`` or ``top_k``, all numbers
    are those of the changed distributions.
    """

    given: Mapping[str, Tensor] | None
    generator: torch.Generator | None
    greedy: bool
    trusted: bool
    temperature: float = 1.0
    top_k: int = 0

    @property
    def is_changed(self) -> bool:
        """True if actions are drawn from other distributions than the network's."""
        return self.temperature != 1.0 or self.top_k > 0

    def of(self, name: str) -> Tensor | None:
        """Return the given choices of an action, or None if they are to be drawn."""
        return None if self.given is None else self.given[name]
