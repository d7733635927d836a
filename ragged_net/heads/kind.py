"""The interface between a kind of action and the network: its head and its choices.

``heads/__init__.py`` lists the kinds. No other part of the network distinguishes them, except the
checks of a batch (``ragged_net/check.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ragged_net.actors import Actors, Pairs
from ragged_net.ragged import RaggedTensor

__all__ = ["POLICY_GAIN", "ActionOutput", "Draw", "HeadKind", "Sizes", "gumbel_like", "orthogonal"]

Sizes: TypeAlias = tuple[str | int, ...]
"""A shape with names of the sizes that depend on the batch: ``frames``, ``actors``, ``actees``."""


class HeadKind(ABC):
    """A kind of action.

    Attributes:
        space: Class of its action spaces.
        actors: Class of its actors in a batch.
        dtype: Dtype of a choice.
    """

    space: type[Any]
    actors: type[Any]
    dtype: torch.dtype = torch.int64

    @abstractmethod
    def head(self, dim: int, space: Any) -> nn.Module:
        """Return the head for actors' vectors of width ``dim``."""

    @abstractmethod
    def word(self, dim: int, space: Any) -> nn.Module:
        """Return the module that makes vectors (A, D) of choices for later actions."""

    @abstractmethod
    def spell(
        self, word: nn.Module, head: Any, chosen: Tensor, pairs: Pairs | None, actees: Tensor | None
    ) -> Tensor:
        """Return the vectors (A, D) that ``word`` makes of the choices of actors.

        Args:
            word: Module that ``word`` returned.
            head: Module that ``head`` returned.
            chosen: Choices. Shape: (A, *shape).
            pairs: Pairs of a selection.
            actees: Vectors of the actees of a selection. Shape: (E, D).
        """

    @abstractmethod
    def ask(self, head: Any, rows: Sequence[Tensor], actors: Any, pairs: Pairs | None) -> Any:
        """Return the distribution from which ``act`` draws.

        Args:
            head: Module that ``head`` returned.
            rows: Vectors (A, D) of the actors and, for a selection, (E, D) of the actees.
            actors: Actors of the batch.
            pairs: Pairs of a selection.
        """

    @abstractmethod
    def act(self, name: str, dist: Any, actors: Any, draw: Draw) -> ActionOutput:
        """Return the choices, drawn from the result of ``ask`` or given."""

    @abstractmethod
    def example(self, first: RaggedTensor, space: Any) -> tuple[Actors, Tensor]:
        """Return one actor and a choice (1, *shape) of it, for compilation."""

    def shape(self, space: Any) -> tuple[int, ...]:
        """Return the shape of an actor's choice; () for one number."""
        return ()

    def graph_inputs(self, space: Any) -> Mapping[str, Sizes]:
        """Return the shapes of the inputs of an exported graph beside the actors, by name."""
        return {}

    def graph_outputs(self, space: Any) -> Mapping[str, Sizes]:
        """Return the shapes of the outputs of an exported graph by name; none if it cannot be."""
        return {}

    def tensors(self, actors: Any) -> Mapping[str, Tensor]:
        """Return the values of ``graph_inputs`` for the actors of a batch."""
        return {}

    def from_tensors(
        self, actors: RaggedTensor, tensors: Mapping[str, Tensor]
    ) -> tuple[Actors, Pairs | None]:
        """Return actors with the entity indices ``actors``, and the pairs of a selection.

        ``tensors`` are those of ``graph_inputs``.
        """
        made: Actors = self.actors(actors, *tensors.values())
        return made, None

    def outputs(self, dist: Any) -> Sequence[Tensor]:
        """Return the values of ``graph_outputs`` for the result of ``ask``."""
        return ()

    def probs_of_nobody(self, actors: Any) -> Tensor | RaggedTensor | None:
        """Return ``ActionOutput.probs`` for a batch without actors."""
        none: RaggedTensor = actors.actors
        return none.with_values(_nothing(actors, torch.float32))

    def nobody(self, actors: Any, space: Any) -> ActionOutput:
        """Return the output of an action without actors."""
        empty = _nothing(actors, torch.float32)
        chosen = _nothing(actors, self.dtype).view(0, *self.shape(space))
        probs = self.probs_of_nobody(actors)
        return ActionOutput(actors.actors.with_values(chosen), empty, empty, probs)


def _nothing(actors: Any, dtype: torch.dtype) -> Tensor:
    return torch.zeros(0, dtype=dtype, device=actors.actors.values.device)


def gumbel_like(values: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return standard Gumbel noise of the shape of ``values``.

    The largest of ``log_probs + noise`` is a draw from the distribution (Gumbel 1954; Maddison,
    Tarlow and Minka 2014, "A* sampling").
    """
    noise = torch.empty_like(values).exponential_(generator=generator)
    # 0 would give +inf, and -inf + inf is NaN.
    return -noise.clamp_min(torch.finfo(noise.dtype).tiny).log()


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
            probs.select(frames)
            if isinstance(probs := self.probs, RaggedTensor)
            else _rows(probs, actors),
            _rows(self.mean, actors),
            _rows(self.std, actors),
        )


def _rows(values: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if values is None else values[rows]


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

    @property
    def is_greedy(self) -> bool:
        """True if the most likely choices are taken."""
        return self.greedy and self.given is None

    def of(self, name: str) -> Tensor | None:
        """Return the given choices of an action, or None if they are to be drawn."""
        return None if self.given is None else self.given[name]


# Nearly uniform initial policies explore best (Andrychowicz et al. 2021, "What matters for
# on-policy deep actor-critic methods").
POLICY_GAIN = 0.01


def orthogonal(fan_in: int, fan_out: int, gain: float) -> nn.Linear:
    """Return a linear layer with orthogonal weights of a ``gain``, and biases of 0."""
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
