"""The memory states of an agent, one for each game that it plays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from entity_env.errors import SettingError, shorten
from ragged_net import NetOutput, RaggedNet

__all__ = ["GameMemory"]


class GameMemory:
    """The memory states of games, by the name of the game.

    Args:
        net: Network; without a memory, no states are kept.
    """

    def __init__(self, net: RaggedNet) -> None:
        self._begin = None if net.memory is None else net.initial_state(1)[0]
        self._states: dict[Hashable, Tensor] = {}

    def of(self, games: Sequence[Hashable]) -> Tensor | None:
        """Return the states of ``games``, with zeros for a new game. Shape: (B, W).

        Raises:
            SettingError: A name is not hashable, or two observations are of one game.
        """
        if self._begin is None:
            return None
        try:
            distinct = len(set(games))
        except TypeError as error:
            raise SettingError(
                "the name of a game is not hashable",
                expected="a number or a string, for example",
                received=shorten(list(games)),
            ) from error
        if distinct < len(games):
            raise SettingError(
                "two observations are of the same game, and the network has a memory",
                expected="at most one observation of each game",
                received=shorten(list(games)),
                hint="games=[...] assigns each observation to a game",
            )
        return torch.stack([self._states.get(game, self._begin) for game in games])

    def keep(self, games: Sequence[Hashable], output: NetOutput) -> None:
        """Store the states of ``games`` after the network has acted."""
        if output.memory is not None:
            # Copies, because a view would keep the states of all games in memory.
            self._states.update(zip(games, map(torch.clone, output.memory), strict=True))

    def forget(self, game: Hashable) -> None:
        """Clear the state of a game, if there is one."""
        self._states.pop(game, None)

    def clear(self) -> None:
        """Clear the states of all games."""
        self._states = {}
