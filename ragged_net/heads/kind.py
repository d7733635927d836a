"""The interface of a kind of action to the network: its head and the choices from it.

``table.py`` lists the kinds. Nothing else in the network tells one from another, but for the checks
of a batch (``ragged_net/check.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ragged_net.actors import Actors
from ragged_net.heads.draw import ActionOutput, Draw
from ragged_net.heads.pairs import Pairs
from ragged_net.ragged import RaggedTensor

__all__ = ["HeadKind", "gumbel_like"]


class HeadKind(ABC):
    """One kind of action.

    Attributes:
        space: The class of its spaces.
        actors: The class of its actors in a batch.
        dtype: Of what an actor chooses.
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
        """Return the vectors (A, D) that ``word`` makes of what the actors have chosen.

        Args:
            word: As ``word`` returned it.
            head: As ``head`` returned it.
            chosen: (A, *shape) what they chose.
            pairs: Of a selection.
            actees: (E, D) the vectors of the actees of a selection.
        """

    @abstractmethod
    def ask(self, head: Any, rows: Sequence[Tensor], actors: Any, pairs: Pairs | None) -> Any:
        """Return the distribution from which ``act`` draws.

        Args:
            head: As ``head`` returned it.
            rows: The vectors (A, D) of the actors and, for a selection, (E, D) of the actees.
            actors: Who they are.
            pairs: Of a selection.
        """

    @abstractmethod
    def act(self, name: str, dist: Any, actors: Any, draw: Draw) -> ActionOutput:
        """Return the actions, drawn from the result of ``ask`` or given."""

    @abstractmethod
    def example(self, first: RaggedTensor, space: Any) -> tuple[Actors, Tensor]:
        """Return one actor and a choice (1, *shape) of it, to compile with."""

    def shape(self, space: Any) -> tuple[int, ...]:
        """Return the shape of what an actor chooses; () for one number."""
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
    # An exact 0 would give +inf, and -inf + inf is NaN.
    return -noise.clamp_min(torch.finfo(noise.dtype).tiny).log()
