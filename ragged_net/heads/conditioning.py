"""Conditioning of later actions on the choices of earlier ones.

With ``net.action_order=[Move, Target]`` the network chooses ``Move`` first, then ``Target`` given
the choice of ``Move``: p(move, target) = p(move) p(target | move). Log-probabilities are exact by
the chain rule. The entropy of a later action is that of its distribution given the earlier choices,
which is an unbiased estimate of its part of the joint entropy. Actors of one action choose
independently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from entity_env.errors import SettingError, nearest
from entity_env.spaces import ActionSpace
from ragged_net.actors import Pairs
from ragged_net.devices import full_precision
from ragged_net.heads import head_kind
from ragged_net.heads.kind import HeadKind, orthogonal
from ragged_net.layout import Layout
from ragged_net.ragged import RaggedTensor

__all__ = ["Conditioning", "Told"]


class Conditioning(nn.Module):
    """A module that adds earlier choices to the vectors of the actors of later actions.

    It adds the choice of the actor itself, and the mean of the choices of all actors of its frame,
    including the global entity.

    Args:
        dim: Width D of an entity's vector.
        order: Names of the actions, in the order of choices.
        action_space: Action spaces by name.

    Raises:
        SettingError: ``order`` contains an unknown action.
    """

    def __init__(
        self, dim: int, order: Sequence[str], action_space: Mapping[str, ActionSpace]
    ) -> None:
        super().__init__()
        for name in order:
            if name not in action_space:
                raise SettingError(
                    f"NetConfig.action_order names an action {name!r} that does not exist",
                    received=list(order),
                    options=action_space,
                    hint=nearest(name, action_space),
                )
        self.order = tuple(order)
        # Lists in that order, because a ModuleDict refuses some action names.
        self.words = nn.ModuleList(
            head_kind(action_space[name]).word(dim, action_space[name]) for name in self.order[:-1]
        )
        self.listeners = nn.ModuleList(_Listener(dim) for _ in self.order[1:])


class Told:
    """The choices so far in the frames of one batch.

    Args:
        conditioning: The module.
        layout: Layout of the batch.
        like: Any tensor with the dtype and device of the rows.
    """

    def __init__(self, conditioning: Conditioning, layout: Layout, like: Tensor) -> None:
        self._of = conditioning
        self._layout = layout
        width = like.shape[1]
        # Sums of choices by flat row (N, D) and by frame (B, D), and their number (B, 1).
        self._own = torch.zeros(layout.num_rows, width, device=like.device)
        self._sums = torch.zeros(layout.num_frames, width, device=like.device)
        self._counts = torch.zeros(layout.num_frames, 1, device=like.device)

    def listen(self, name: str, actors: RaggedTensor, rows: Tensor) -> Tensor:
        """Return the ``rows`` (A, D) of an action's actors, with earlier choices added."""
        place = self._of.order.index(name) if name in self._of.order else 0
        if not place:
            return rows
        row_vectors = self._own.index_select(0, self._layout.flat_rows(actors))
        means = self._sums / self._counts.clamp_min(1.0)
        with full_precision(rows):
            listener = self._of.listeners[place - 1]
            told: Tensor = listener(
                rows.float(), row_vectors, means.index_select(0, actors.frame_ids())
            )
            return told

    def tell(
        self,
        name: str,
        kind: HeadKind,
        head: nn.Module,
        actors: RaggedTensor,
        chosen: Tensor,
        pairs: Pairs | None = None,
        actees: Tensor | None = None,
    ) -> None:
        """Store the choices of the actors of an action.

        Args:
            name: Name of the action.
            kind: Kind of the action.
            head: Head of the action.
            actors: Entity indices. Shape: (A,).
            chosen: Choices. Shape: (A, *shape).
            pairs: Pairs of a selection.
            actees: Vectors of the actees of a selection. Shape: (E, D).
        """
        if name not in self._of.order[:-1]:
            return
        word = self._of.words[self._of.order.index(name)]
        with full_precision(self._own):
            words = kind.spell(word, head, chosen, pairs, actees)
        frames = actors.frame_ids()
        self._own = self._own.index_add(0, self._layout.flat_rows(actors), words)
        self._sums = self._sums.index_add(0, frames, words)
        self._counts = self._counts.index_add(0, frames, torch.ones_like(words[:, :1]))


class _Listener(nn.Module):
    """A module that combines an actor's vector with earlier choices, and adds the result to it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hear = orthogonal(3 * dim, 2 * dim, 2**0.5)
        self.mix = orthogonal(2 * dim, dim, 1.0)

    def forward(self, rows: Tensor, vectors: Tensor, means: Tensor) -> Tensor:
        """Add to rows (A, D) the choices of their actors (A, D) and of their frames (A, D)."""
        heard: Tensor = self.hear(torch.cat([rows, vectors, means], dim=1))
        mixed: Tensor = self.mix(heard.relu())
        return rows + mixed
