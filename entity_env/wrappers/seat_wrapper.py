"""The base of everything that stands between a game of several players and whoever plays it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from entity_env.environment import check_seed
from entity_env.errors import SettingError, shorten
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    Seat,
    SeatActions,
    SeatObservations,
)
from entity_env.wrappers.playable_wrapper import PlayableWrapper

__all__ = ["SeatWrapper"]


class SeatWrapper(PlayableWrapper, MultiPlayerEnvironment):
    """Passes everything on to another game; a subclass changes what it wants to.

    One that has a state of its own writes ``_own_state`` and ``_set_own_state``, too.

    Args:
        game: The game inside.

    Raises:
        SettingError: ``game`` is not a game of several players.
    """

    _attribute = "game"

    def __init__(self, game: MultiPlayerEnvironment) -> None:
        if not isinstance(game, MultiPlayerEnvironment):
            raise SettingError(
                f"{type(self).__name__} goes around a game of several players",
                expected="an instance of a subclass of entity_env.MultiPlayerEnvironment",
                received=shorten(game),
            )
        self.game = game

    @property
    def unwrapped(self) -> MultiPlayerEnvironment:
        """The game inside all wrappers."""
        game = self.game
        return game.unwrapped if isinstance(game, SeatWrapper) else game

    def seats(self) -> Sequence[Seat]:
        """Return the seats of the wrapped game."""
        return self.game.seats()

    def teams(self) -> Mapping[str, Collection[Seat]]:
        """Return the teams of the wrapped game."""
        return self.game.teams()

    def is_over(self) -> bool | None:
        """Return the answer of the wrapped game."""
        return self.game.is_over()

    def reset(self) -> SeatObservations:
        """Start a game."""
        return self.game.reset()

    def act(self, actions: SeatActions) -> SeatObservations:
        """Go on with the game."""
        return self.game.act(actions)

    def seed(self, seed: int) -> None:
        """Seed the game inside."""
        self.game.seed(check_seed(seed))
