"""From the distributions of the heads to actions: drawn, greedy or given."""

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


def _cat(parts: Sequence[Tensor | RaggedTensor | None]) -> Tensor | None:
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors) if tensors else None


@dataclass(frozen=True, eq=False)
class Draw:
    """The source of actions: ``given``, drawn with ``generator``, or ``greedy``.

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
        """True if actions are drawn from other distributions than the network's."""
        return self.temperature != 1.0 or self.top_k > 0

    def of(self, name: str) -> Tensor | None:
        """Return the given choices of an action, or None if they are to be drawn."""
        return None if self.given is None else self.given[name]
